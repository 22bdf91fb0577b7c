"""Rounds slices of a tensor to few levels, with the scales that leave the least error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_ci.methods.slices import Array, Tile, tiles

TINY = np.float32(np.finfo(np.float32).tiny)
HALF_RANGE = 2.0**-20, 32768.0  # where fp16 keeps digits enough for a scale
RATIOS = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)  # of the full range, what is clipped to


@dataclass(frozen=True)
class Levels:
    """Whole numbers from `low` to `high`; a value is (number - zero) times the scale of its slice."""

    scale: Array
    zero: Array | None
    low: int
    high: int

    @property
    def noise(self) -> float:
        """The mean squared error to expect: that of even rounding."""
        return float(np.square(self.scale, dtype=np.float64).mean()) / 12


def symmetric(least: Array, largest: Array, high: int) -> Levels:
    """Zero in the middle, and the value of the largest magnitude of each slice at the end."""
    scale = np.maximum(np.maximum(largest, -least) / np.float32(high), TINY)
    return Levels(scale, None, -high, high)


def asymmetric(least: Array, largest: Array, high: int) -> Levels:
    """From the least value to the largest; 0.0 is a level, so that it stays what it is."""
    scale = np.maximum((largest - least) / np.float32(high), TINY)
    return Levels(scale, np.rint(-least / scale), 0, high)


def in_half(levels: Levels) -> Levels:
    """The same with scales that fp16 holds, none of them smaller than it was; as it was where fp16 can't."""
    scale = np.where(levels.scale > TINY, levels.scale, np.float32(1))  # slices of nothing but zeros
    if not HALF_RANGE[0] <= float(scale.min()) <= float(scale.max()) <= HALF_RANGE[1]:
        return levels
    half = scale.astype(np.float16)
    half = np.where(half < scale, np.nextafter(half, np.float16(np.inf)), half)
    return replace(levels, scale=half)


def clipped(grid: Array, levels: Levels, ratios: tuple[float, ...] = RATIOS) -> Levels:
    """The same levels closer together wherever clipping rare extremes leaves less error in sum."""
    best, least = levels.scale, None
    for ratio in _worth_a_try(grid, levels, ratios):
        least = errors(grid, levels) if least is None else least
        tried = levels.scale * np.float32(ratio)
        found = errors(grid, replace(levels, scale=tried))
        better = found < least
        if not better.any():
            break
        best, least = np.where(better, tried, best), np.minimum(found, least)
    return replace(levels, scale=best)


def _worth_a_try(grid: Array, levels: Levels, ratios: tuple[float, ...]) -> list[float]:
    """Ratios that can pay at all: what finer levels gain over a whole slice, against one clipped extreme."""
    elements = grid.size // levels.scale.size
    gain = elements / (3 * (levels.high - levels.low) ** 2)
    return [ratio for ratio in ratios if (1 - ratio) / (1 + ratio) < gain]


def errors(grid: Array, levels: Levels) -> Array:
    """The squared error of each slice."""
    total = np.zeros(grid.shape[1], np.float64)
    for tile in tiles(grid):
        part = _codes(grid, tile, levels)
        if levels.zero is not None:
            part -= levels.zero[tile[1], None]
        part *= levels.scale[tile[1], None]
        part -= grid[tile]
        total[tile[1]] += np.einsum("ijk,ijk->j", part, part)
    return total


def codes(grid: Array, levels: Levels) -> Array:
    """The whole numbers, as int8 or uint8."""
    out = np.empty(grid.shape, np.int8 if levels.zero is None else np.uint8)
    for tile in tiles(grid):
        out[tile] = _codes(grid, tile, levels)
    return out


def _codes(grid: Array, tile: Tile, levels: Levels) -> Array:
    part: Array = grid[tile] / levels.scale[tile[1], None]
    np.rint(part, out=part)
    if levels.zero is not None:
        part += levels.zero[tile[1], None]
    return np.clip(part, levels.low, levels.high, out=part)
