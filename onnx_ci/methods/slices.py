"""Slices of a tensor that share a scale, whichever axis they lie along, in pieces that fit the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Tile = tuple[slice, slice, slice]
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


def bounds(grid: Array) -> tuple[Array, Array]:
    """The least and the largest value of each slice, and zero, which is always kept."""
    low, high = grid.min(axis=(0, 2)), grid.max(axis=(0, 2))
    return np.minimum(low, 0), np.maximum(high, 0)
