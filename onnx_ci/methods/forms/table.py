"""Few distinct values, or few distinct blocks of values: a table and indices, `Gather` gives them back.

Blocks grow along the last axes, so what is found includes packed bits (a byte for 8 values of a mask)
as well as rows that come again in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.forms.repeat import prime_factors
from onnx_ci.methods.slices import BLOCK, Array

MIN_OPSET = 6  # Cast, for the indices
MOST = 1 << 16  # entries of a table: an index takes two bytes at most
LONGEST_STEP = 1 << 12  # neighbours joined at once; a dimension with a larger prime factor ends the search
DENSE = 1 << 20  # keys below this are marked in an array; larger ones are sorted


@dataclass(frozen=True)
class Table:
    """`entries[codes]` is the tensor, apart from its shape."""

    entries: Array
    codes: Array
    reshapes: bool

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes + self.codes.nbytes


@dataclass(frozen=True)
class _Level:
    """The tensor as blocks of `length` values: the number of each block among the distinct ones."""

    length: int
    distinct: int
    codes: Array

    def nbytes(self, itemsize: int) -> int:
        return self.codes.size * (1 if self.distinct <= 256 else 2) + self.distinct * self.length * itemsize


def table(values: Array, *, opset: int) -> Table | None:
    """The block length that takes the least bytes."""
    if opset < MIN_OPSET:
        return None
    best = min(_levels(values), key=lambda level: level.nbytes(values.itemsize), default=None)
    if best is None:
        return None
    codes = best.codes.astype(np.uint8 if best.distinct <= 256 else np.uint16)
    _, first = np.unique(codes, return_index=True)
    entries = values.reshape(-1, best.length)[first]
    for axis in range(values.ndim + 1):
        if best.length == math.prod(values.shape[axis:]):
            whole = values.shape[axis:]
            return Table(entries.reshape(-1, *whole), codes.reshape(values.shape[:axis]), reshapes=False)
    return Table(entries, codes, reshapes=True)


def _levels(values: Array) -> Iterator[_Level]:
    """Blocks of one value, then longer ones, as long as some of them come again."""
    bits = values.reshape(-1).view(f"u{values.itemsize}")
    level = _ranked(bits, 1 << 8 * values.itemsize, length=1)
    if level is None:
        return
    yield level
    for size in reversed(values.shape):
        for factor in prime_factors(size):
            level = _longer(level, factor)
            if level is None:
                return
            yield level


def _longer(level: _Level, factor: int) -> _Level | None:
    """Blocks of `factor` neighbours. They are joined one by one: two codes always fit one key."""
    if factor > LONGEST_STEP:
        return None
    columns = level.codes.reshape(-1, factor)
    joined: _Level | None = _Level(level.length * factor, level.distinct, columns[:, 0])
    for number in range(1, factor):
        if joined is None:
            return None
        keys = joined.codes.astype(np.uint64) * np.uint64(level.distinct) + columns[:, number]
        joined = _ranked(keys, joined.distinct * level.distinct, length=level.length * factor)
    return joined


def _ranked(keys: Array, space: int, *, length: int) -> _Level | None:
    """Every key by its number among the sorted distinct keys; None where these are too many to gain."""
    most = min(MOST, max(keys.size // 2, 1))
    if space <= DENSE:
        seen = np.zeros(space, bool)
        seen[keys] = True
        distinct = int(np.count_nonzero(seen))
        return _Level(length, distinct, _ranks(seen)[keys]) if distinct <= most else None
    some = keys[:: max(1, keys.size // (2 * MOST))]
    if _distinct(some).size > most:
        return None
    found = _distinct(keys)
    if found.size > most:
        return None
    codes = np.empty(keys.size, np.uint16)
    for start in range(0, keys.size, BLOCK):
        codes[start : start + BLOCK] = np.searchsorted(found, keys[start : start + BLOCK])
    return _Level(length, found.size, codes)


def _ranks(seen: Array) -> Array:
    ranks: Array = np.cumsum(seen) - 1
    return ranks.astype(np.uint16)


def _distinct(keys: Array) -> Array:
    """Like np.unique, which takes ten times as long for numbers that are mostly different."""
    ordered = np.sort(keys)
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    found: Array = ordered[np.concatenate(([0], changes))]
    return found
