"""Second moments of the values that weights are multiplied with, as the worker collects them.

Every sum is exact: numbers are rounded to eight bits of the largest in their column, and float32 holds any
sum of so few of their products. So neither threads nor the library that multiplies can change one."""

from __future__ import annotations

from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ci.sandbox.exchange import Array

_ROWS = 256  # of a value, in one run
_CHUNK = 512  # columns that are looked at together
_LEVELS = 127


class Moments:
    """Sums over all runs, by the number of a weight: from most runs to fit, from the others to judge."""

    def __init__(self, weights: list[dict[str, Any]]) -> None:
        self.weights = weights
        self.sums: dict[int, Array] = {}

    def add(self, values: dict[str, Any], *, held_out: bool) -> None:
        for one in self.weights:
            value = values.get(one["value"])
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
                rows = _rows(value, one)
                if rows is not None and np.isfinite(rows).all():
                    self._count(one["number"], rows, held_out=held_out)

    def _count(self, number: int, rows: Array, *, held_out: bool) -> None:
        moment = _moment(rows)
        sums = self.sums.setdefault(number, np.zeros((2, *moment.shape), np.float32))
        sums[int(held_out)] += moment

    def write(self, folder: Path) -> list[int]:
        """Save what both kinds of runs had, by number; the numbers."""
        whole = {number: sums for number, sums in self.sums.items() if sums.any(axis=(1, 2, 3, 4)).all()}
        folder.mkdir()
        for number, sums in whole.items():
            np.save(folder / f"{number}.npy", sums, allow_pickle=False)
        return sorted(whole)


def _rows(value: Array, one: dict[str, Any]) -> Array | None:
    """Some of what a weight is multiplied with, as (rows, groups, columns); None where it does not fit."""
    groups, columns = one["groups"], one["columns"]
    if one["geometry"] is not None:
        rows = _patches(value, groups, one["geometry"])
    else:
        if value.ndim < len(one["axes"]) or value.ndim <= max(one["axes"]):
            return None
        rows = np.moveaxis(value, one["axes"], range(-len(one["axes"]), 0))
        rows = rows.reshape(-1, groups * columns) if rows.size % (groups * columns) == 0 else None
        rows = None if rows is None else rows[_spread(len(rows))].reshape(-1, groups, columns)
    return rows if rows is not None and rows.shape[1:] == (groups, columns) else None


def _spread(count: int) -> Array:
    return np.unique(np.linspace(0, count - 1, _ROWS).astype(np.int64))


def _patches(value: Array, groups: int, geometry: dict[str, Any]) -> Array | None:
    """What a convolution's kernel covers at places that are spread evenly over its output."""
    kernel, rank = geometry["kernel_shape"], len(geometry["kernel_shape"])
    if value.ndim != rank + 2 or value.shape[1] % groups:
        return None
    strides = geometry.get("strides", [1] * rank)
    dilations = geometry.get("dilations", [1] * rank)
    before, counts = _covered(value.shape[2:], kernel, strides, dilations, geometry)
    if min(counts) < 1:
        return None
    total = value.shape[0] * int(np.prod(counts))
    batch, *places = np.unravel_index(_spread(total), (value.shape[0], *counts))
    cut = np.zeros((len(batch), int(np.prod(kernel)), value.shape[1]), np.float32)
    for number, offset in enumerate(product(*map(range, kernel))):
        at = [place * stride - pad for place, stride, pad in zip(places, strides, before, strict=True)]
        at = [start + step * gap for start, step, gap in zip(at, offset, dilations, strict=True)]
        within = [(one >= 0) & (one < size) for one, size in zip(at, value.shape[2:], strict=True)]
        inside = np.all(within, axis=0)
        index = (batch[inside], slice(None), *(one[inside] for one in at))
        cut[inside, number] = value[index]
    found: Array = cut.swapaxes(1, 2).reshape(len(batch), groups, -1)
    return found


def _covered(
    sizes: tuple[int, ...],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    geometry: dict[str, Any],
) -> tuple[list[int], list[int]]:
    """The padding before each axis, and how often the kernel fits."""
    spans = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
    rank, auto = len(kernel), geometry.get("auto_pad", "NOTSET")
    if auto.startswith("SAME"):
        counts = [ceil(size / stride) for size, stride in zip(sizes, strides, strict=True)]
        needed = [
            max(0, (count - 1) * stride + span - size)
            for count, stride, span, size in zip(counts, strides, spans, sizes, strict=True)
        ]
        return [(pad + (auto == "SAME_LOWER")) // 2 for pad in needed], counts
    pads = geometry.get("pads", [0] * 2 * rank) if auto == "NOTSET" else [0] * 2 * rank
    lengths = [size + pads[axis] + pads[axis + rank] for axis, size in enumerate(sizes)]
    counts = [
        (length - span) // stride + 1 for length, span, stride in zip(lengths, spans, strides, strict=True)
    ]
    return pads[:rank], counts


def _moment(rows: Array) -> Array:
    """XᵀX of each group in chunks of columns, as (groups, chunks, width, width)."""
    count, groups, columns = rows.shape
    chunks = ceil(columns / _CHUNK)
    width = ceil(columns / chunks)
    filled = np.zeros((count, groups, chunks * width), np.float32)
    filled[:, :, :columns] = rows
    parts = filled.reshape(count, groups * chunks, width).swapaxes(0, 1)
    largest = np.abs(parts).max(axis=1)
    step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0) / _LEVELS))).astype(np.float32)
    whole = np.rint(parts / step[:, None, :])
    moments: Array = (whole.swapaxes(1, 2) @ whole) * step[:, :, None] * step[:, None, :]
    return moments.reshape(groups, chunks, width, width)
