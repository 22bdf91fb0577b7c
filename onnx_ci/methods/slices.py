"""Slices of a tensor that share a scale, whichever axis they lie along, in pieces that fit the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Tile = tuple[slice, slice, slice]
MIN_RUN = 16  # elements an axis must have to be worth turning a tensor around
CLEARLY = 1.1  # what turning it around has to gain: 0.4 dB
BLOCK = 1 << 16  # elements at a time, so that what is computed from them stays in the cache


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


def _spread(values: Array, length: int) -> float:
    """Proportional to the error that rounding in these blocks leaves."""
    least, largest = bounds(by_block(values.reshape(-1), length))
    reach = np.maximum(largest, -least)
    return float(np.vdot(reach, reach))
