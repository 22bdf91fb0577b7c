"""Rounds slices of a tensor to few levels, even ones with the best scales or those of a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Tile = tuple[slice, slice, slice]
MIN_RUN = 16  # elements an axis must have to be worth turning a tensor around
CLEARLY = 1.1  # what turning it around has to gain: 0.4 dB
ENOUGH = 1 << 16  # elements that tell along which axis values are alike
BLOCK = 1 << 16  # elements at a time, so that what is computed from them stays in the cache
TINY = np.float32(np.finfo(np.float32).tiny)
HALF_RANGE = 2.0**-20, 32768.0  # where fp16 keeps digits enough for a scale
RATIOS = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)  # of the full range, what is clipped to
# Levels that lie where weights do: denser near zero, and the largest of each block at the end. Sixteen were
# chosen for the least error over blocks of 32 drawn from bell-shaped and from more peaked distributions, 21
# to 22 dB there. Other numbers of levels follow a curve, 6 dB apart from bit to bit: with even levels it is 1
# to 2 dB less. They need no zero point: the sign of a scale says on which side the largest value is.
SIXTEEN = np.array(
    [
        *(-0.873, -0.683, -0.531, -0.401, -0.287, -0.184, -0.089, 0.0),
        *(0.082, 0.169, 0.264, 0.367, 0.484, 0.621, 0.787, 1.0),
    ],
    np.float32,
)
TABLE_RATIOS = (1.0, 0.95, 0.9, 1.05)  # of the largest value: where the last level is put
MOST_UNITS = 127  # in 8 bits, of either sign
LINEAR = 0.6  # of the curve; the rest is a power
EVEN_BITS = 8  # from which levels are even: a table of them would be large, and gain little
FINE = {4: 1024}  # steps between 0 and 1 in which the nearest level is looked up
FINEST = 4096
SMALLEST = np.float32(2.0**-24)  # what fp16 holds at all


def by_axis(values: Array, axis: int | None) -> Array:
    """A view as (outer, slices, inner), where [:, i, :] is slice i; without an axis all is one slice."""
    if axis is None:
        return values.reshape(1, 1, -1)
    outer, inner = math.prod(values.shape[:axis]), math.prod(values.shape[axis + 1 :])
    return values.reshape(outer, values.shape[axis], inner)


def by_block(values: Array, length: int) -> Array:
    """Runs of `length` elements along the last axis, as slices; a short last run is filled up with zeros."""
    missing = -values.shape[-1] % length
    if missing:
        values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    return values.reshape(1, -1, length)


def in_blocks(values: Array, axis: int, length: int) -> Array:
    """Runs of `length` elements along an axis, as slices."""
    return by_block(np.moveaxis(values, axis, -1).reshape(-1), length)


def out_of_blocks(grid: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A tensor back from what `in_blocks` made of it."""
    moved = (*shape[:axis], *shape[axis + 1 :], *shape[axis : axis + 1])
    whole = grid.reshape(-1)[: math.prod(shape)].reshape(moved)
    return np.ascontiguousarray(np.moveaxis(whole, -1, axis))


def tiles(grid: Array) -> Iterator[Tile]:
    """All of a grid, a cache's worth at a time."""
    outer, count, inner = grid.shape
    width = max(1, min(inner, BLOCK))
    height = max(1, min(count, BLOCK // width))
    depth = max(1, BLOCK // (width * height))
    for first in range(0, outer, depth):
        for second in range(0, count, height):
            for third in range(0, inner, width):
                yield (
                    slice(first, first + depth),
                    slice(second, second + height),
                    slice(third, third + width),
                )


def energies(grid: Array) -> Array:
    """The sum of squares of each slice."""
    total = np.zeros(grid.shape[1], np.float64)
    for tile in tiles(grid):
        total[tile[1]] += np.einsum("ijk,ijk->j", grid[tile], grid[tile])
    return total


def bounds(grid: Array) -> tuple[Array, Array]:
    """The least and the largest value of each slice, and zero, which is always kept."""
    low, high = grid.min(axis=(0, 2)), grid.max(axis=(0, 2))
    return np.minimum(low, 0), np.maximum(high, 0)


def block_axis(values: Array, length: int) -> int:
    """The axis along which blocks hold values most alike; the last one unless another is clearly better."""
    last = max(values.ndim - 1, 0)
    others = [axis for axis in range(last) if values.shape[axis] >= MIN_RUN]
    spread = {axis: _spread(np.moveaxis(values, axis, -1), length) * CLEARLY for axis in others}
    spread[last] = _spread(values, length)
    return min(spread, key=lambda axis: spread[axis])


def sum_of_products(one: Array, other: Array) -> float:
    """Of two vectors; the same whatever the number of processors, which BLAS does not promise."""
    return float(np.einsum("i,i->", one, other))


def _spread(values: Array, length: int) -> float:
    """Proportional to the error that rounding in these blocks leaves, by some runs along the last axis."""
    runs = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)
    some = runs[:: max(1, values.size // ENOUGH)]
    least, largest = bounds(by_block(some.reshape(-1), length))
    reach = np.maximum(largest, -least)
    return sum_of_products(reach.reshape(-1), reach.reshape(-1)) / max(1, some.size)


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


@cache
def levels_of(bits: int) -> Array:
    """The levels that codes of so many bits stand for, from the least to 1."""
    if len(SIXTEEN) == 1 << bits:
        return SIXTEEN
    half = 1 << (bits - 1)
    even = np.arange(1 - half, half + 1) / half
    if bits >= EVEN_BITS:
        return np.asarray(even, np.float32)
    curve = np.abs(even) ** (3 if half > len(SIXTEEN) // 2 else 2)
    found: Array = (LINEAR * even + (1 - LINEAR) * np.sign(even) * curve).astype(np.float32)
    return found


def nearest_levels(grid: Array, bits: int = 4, unit: np.float32 | None = None) -> tuple[Array, Array]:
    """For a grid of blocks the number of each element's level, and each block's scale: what fp16 holds, or
    as many units as 8 bits can count."""
    found = np.empty(grid.shape, np.uint8 if bits <= EVEN_BITS else np.uint16)
    scales = np.empty(grid.shape[1], np.float32)
    for tile in tiles(grid):
        found[tile], scales[tile[1]] = _nearest(grid[tile][0], bits, unit)
    return found, scales


def unit_of(grid: Array) -> np.float32:
    """The unit in which 8 bits count every block's scale."""
    reach = max(float(grid.max()), -float(grid.min()), float(SMALLEST))
    unit: np.float32 = np.float32(reach * max(TABLE_RATIOS) / MOST_UNITS)
    return unit


def in_units(scale: Array, unit: np.float32) -> Array:
    """Scales as numbers of units, none of them 0."""
    counted = np.clip(np.rint(scale / unit), -MOST_UNITS, MOST_UNITS)
    return np.where(counted == 0, 1, counted).astype(np.int8)


def nearest_values(values: Array, bits: int) -> Array:
    """The levels that values between -1 and 1 are nearest to."""
    if bits >= EVEN_BITS:
        return np.asarray(_even_steps(values, bits) / np.float32(1 << (bits - 1)))
    found: Array = _level_at(bits).take(_steps(values, bits))
    return found


def _nearest(blocks: Array, bits: int, unit: np.float32 | None) -> tuple[Array, Array]:
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1, keepdims=True), axis=1)
    best, scales = np.full((len(blocks), 1), np.inf), np.zeros((len(blocks), 1), np.float32)
    for ratio in TABLE_RATIOS:
        wanted = largest * np.float32(ratio)
        scale = _as_half(wanted) if unit is None else in_units(wanted, unit) * unit
        part = nearest_values(blocks / scale, bits)
        part *= scale
        part -= blocks
        error = np.einsum("ij,ij->i", part, part)[:, None]
        better = error < best
        np.copyto(scales, scale, where=better)
        np.copyto(best, error, where=better)
    return look_up(blocks / scales, bits), scales[:, 0]


def _as_half(scale: Array) -> Array:
    """Rounded to fp16; a block of zeros, or of less than fp16 can hold, gets some scale all the same."""
    half = scale.astype(np.float16).astype(np.float32)
    return np.where(np.abs(half) < SMALLEST, SMALLEST, half)


def look_up(values: Array, bits: int) -> Array:
    """The numbers of the levels that values are nearest to; what is beyond the ends is at the ends."""
    if bits >= EVEN_BITS:
        return np.asarray(_even_steps(values, bits) + ((1 << (bits - 1)) - 1), np.uint16)
    found: Array = _nearest_of(bits).take(_steps(values, bits))
    return found


def _even_steps(values: Array, bits: int) -> Array:
    """Values between -1 and 1 in whole steps from level to level."""
    half = 1 << (bits - 1)
    steps: Array = np.rint(values * np.float32(half))
    return np.clip(steps, 1 - half, half, out=steps)


def _steps(values: Array, bits: int) -> Array:
    """Values between -1 and 1 as numbers of fine steps from -1 on."""
    fine = FINE.get(bits, FINEST)
    steps = np.clip(values, -1, 1)
    steps *= fine
    steps += fine + 0.5
    return steps.astype(np.intp)


@cache
def _nearest_of(bits: int) -> Array:
    """The nearest level to each of many even steps between -1 and 1."""
    steps = np.linspace(-1, 1, 2 * FINE.get(bits, FINEST) + 1)
    found: Array = np.abs(steps[:, None] - levels_of(bits)).argmin(axis=1).astype(np.uint8)
    return found


@cache
def _level_at(bits: int) -> Array:
    """The same as levels."""
    return levels_of(bits)[_nearest_of(bits)]
