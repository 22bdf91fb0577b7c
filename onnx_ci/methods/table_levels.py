"""Levels that lie where weights do: denser near zero, and the largest of each block at the end.

Sixteen were chosen for the least error over blocks of 32 drawn from bell-shaped and from more peaked
distributions, 21 to 22 dB there. Other numbers of levels follow a curve, 6 dB apart from bit to bit: with
even levels it is 1 to 2 dB less. They need no zero point: the sign of a scale says on which side the largest
value is.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from onnx_ci.methods.slices import Array, tiles

SIXTEEN = np.array(
    [
        *(-0.873, -0.683, -0.531, -0.401, -0.287, -0.184, -0.089, 0.0),
        *(0.082, 0.169, 0.264, 0.367, 0.484, 0.621, 0.787, 1.0),
    ],
    np.float32,
)
RATIOS = (1.0, 0.95, 0.9, 1.05)  # of the largest value: where the last level is put
LINEAR = 0.6  # of the curve; the rest is a power
FINE = {4: 1024}  # steps between 0 and 1 in which the nearest level is looked up
FINEST = 4096
SMALLEST = np.float32(2.0**-24)  # what fp16 holds at all


def pair_table() -> Array:
    """Both levels of a byte: the low four bits come first."""
    byte = np.arange(256)
    return np.stack([SIXTEEN[byte & 15], SIXTEEN[byte >> 4]], axis=1)


@cache
def levels_of(bits: int) -> Array:
    """The levels that codes of so many bits stand for, from the least to 1."""
    if len(SIXTEEN) == 1 << bits:
        return SIXTEEN
    half = 1 << (bits - 1)
    even = np.arange(1 - half, half + 1) / half
    curve = np.abs(even) ** (3 if half > len(SIXTEEN) // 2 else 2)
    found: Array = (LINEAR * even + (1 - LINEAR) * np.sign(even) * curve).astype(np.float32)
    return found


def nearest_levels(grid: Array, bits: int = 4) -> tuple[Array, Array]:
    """For a grid of blocks the number of each element's level, and each block's scale, as fp16."""
    found = np.empty(grid.shape, np.uint8)
    scales = np.empty(grid.shape[1], np.float16)
    for tile in tiles(grid):
        found[tile], scales[tile[1]] = _nearest(grid[tile][0], bits)
    return found, scales


def _nearest(blocks: Array, bits: int) -> tuple[Array, Array]:
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1, keepdims=True), axis=1)
    best = np.full(len(blocks), np.inf)
    codes, scales = np.zeros(blocks.shape, np.uint8), np.zeros(len(blocks), np.float16)
    for ratio in RATIOS:
        scale = _in_half(largest * np.float32(ratio))
        tried = _look_up(blocks / scale, bits)
        part = levels_of(bits)[tried]
        part *= scale
        part -= blocks
        error = np.einsum("ij,ij->i", part, part)
        better = error < best
        codes[better], scales[better], best[better] = tried[better], scale[better, 0], error[better]
    return codes, scales


def _in_half(scale: Array) -> Array:
    """Rounded to fp16; a block of zeros, or of less than fp16 can hold, gets some scale all the same."""
    half = scale.astype(np.float16).astype(np.float32)
    return np.where(np.abs(half) < SMALLEST, SMALLEST, half)


def _look_up(values: Array, bits: int) -> Array:
    fine = FINE.get(bits, FINEST)
    values = np.clip(values, -1, 1)
    values *= fine
    found: Array = _nearest_of(bits)[np.rint(values).astype(np.int16) + fine]
    return found


@cache
def _nearest_of(bits: int) -> Array:
    """The nearest level to each of many even steps between -1 and 1."""
    steps = np.linspace(-1, 1, 2 * FINE.get(bits, FINEST) + 1)
    found: Array = np.abs(steps[:, None] - levels_of(bits)).argmin(axis=1).astype(np.uint8)
    return found
