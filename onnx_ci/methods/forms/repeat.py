"""Values that repeat along their axes, one value everywhere included: `Expand` gives them back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.slices import BLOCK, Array

MIN_OPSET = 8  # the first with Expand


@dataclass(frozen=True)
class Repeat:
    """One copy of what repeats, the shape it expands to, and whether that is not yet the tensor's own."""

    block: Array
    expanded: tuple[int, ...]
    reshapes: bool

    @property
    def nbytes(self) -> int:
        return self.block.nbytes


def repeat(values: Array, *, opset: int) -> Repeat | None:
    """A dimension that is the same all along shrinks to 1; one with a period is split into two."""
    if opset < MIN_OPSET:
        return None
    bits = values.view(f"u{values.itemsize}")
    periods = [_period(bits, axis) for axis in range(values.ndim)]
    if list(values.shape) == periods:
        return None
    axes = [_split(size, period) for size, period in zip(values.shape, periods, strict=True)]
    split = tuple(size for sizes, _ in axes for size in sizes)
    kept = tuple(part for _, parts in axes for part in parts)
    block = np.ascontiguousarray(values.reshape(split)[kept])
    return Repeat(block, split, split != values.shape)


def _split(size: int, period: int) -> tuple[list[int], list[slice]]:
    """A dimension as copies of its period, and what of it is kept."""
    if period == size:
        return [size], [slice(None)]
    if period == 1:
        return [size], [slice(0, 1)]
    return [size // period, period], [slice(0, 1), slice(None)]


def _period(bits: Array, axis: int) -> int:
    """The shortest stretch of an axis that gives the whole when it is repeated."""
    period: int = bits.shape[axis]
    for factor in prime_factors(period):
        before, after = math.prod(bits.shape[:axis]), math.prod(bits.shape[axis + 1 :])
        # What is beyond the period so far is a copy of it.
        within = bits.reshape(before, bits.shape[axis], after)[:, :period]
        parts = within.reshape(before, factor, period // factor, after)
        if _all_equal(parts):
            period //= factor
    return period


def _all_equal(parts: Array) -> bool:
    """Whether all parts along the second axis are the same; a few elements mostly tell that they are not."""
    first = parts[:, :1]
    if not (parts[:1, :BLOCK, :1, :1] == first[:1, :, :1, :1]).all():
        return False
    step = max(1, BLOCK // first.size)
    starts = range(1, parts.shape[1], step)
    return all((parts[:, start : start + step] == first).all() for start in starts)


def prime_factors(number: int) -> Iterator[int]:
    """Smallest first, as often as they divide it."""
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
    if number > 1:
        yield number
