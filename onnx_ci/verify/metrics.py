"""How far one array is from another: computed in float64, block by block, every number finite."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnx_ci.verify.dtypes import Array, is_complex, is_text

BLOCK = 1 << 20  # elements in float64 at a time: outputs can be far larger than memory allows twice
SQNR_CAP = 300.0  # dB; stands for "identical" where JSON knows no infinity
FEW = 8  # elements below which a cosine is blind: of one positive number and another it is always 1
_FLOOR = 1e-6  # of the largest reference value: below it, a relative error means nothing


@dataclass(frozen=True, kw_only=True)
class Distance:
    """The measures of one output for one sample, over the elements that are finite in both."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    mean_abs: float = 0.0
    cosine: float = 1.0
    sqnr: float = SQNR_CAP
    top1: float = 1.0
    drift: float = 0.0  # by which share the length of the whole changed, which a cosine does not see


NOTHING_IN_COMMON = Distance(cosine=0.0, sqnr=0.0, top1=0.0)


def distance(reference: Array, candidate: Array) -> Distance:
    """Both arrays have the same shape and hold numbers or booleans."""
    top1 = _top1(reference, candidate)
    scale = _scale(reference, candidate)
    if scale == 0.0:
        return Distance(top1=top1)
    floor = _FLOOR * _largest(reference)
    largest = relative = total = count = 0.0
    dot = ours = theirs = noise = 0.0
    for a, b in _blocks(reference, candidate):
        with np.errstate(over="ignore"):  # float64 outputs near the end of its range
            moved = np.abs(a - b)
        largest = max(largest, float(moved.max(initial=0.0)))
        relative = max(relative, _relative(moved, a, floor))
        total += float((moved / scale).sum())
        count += a.size
        a, b = a / scale, b / scale  # squares must not overflow
        dot += float(a @ b)
        ours += float(a @ a)
        theirs += float(b @ b)
        noise += float((a - b) @ (a - b))
    return Distance(
        max_abs=_finite(largest),
        max_rel=_finite(relative),
        mean_abs=_finite(total / max(count, 1.0) * scale),
        cosine=_cosine(dot, ours, theirs) if count >= FEW else _closeness(ours, noise),
        sqnr=_sqnr(ours, noise),
        top1=top1,
        drift=_finite(_drift(ours, theirs)),
    )


def share_distance(equal: Array) -> Distance:
    """For values without a distance, such as strings: the share that differs stands for it."""
    share = 1.0 - float(equal.mean()) if equal.size else 0.0
    same = share == 0.0
    return Distance(
        max_abs=0.0 if same else 1.0,
        max_rel=0.0 if same else 1.0,
        mean_abs=share,
        cosine=1.0 - share,
        sqnr=SQNR_CAP if same else 0.0,
        top1=1.0 - share,
    )


def identical(reference: Array, candidate: Array) -> bool:
    """Bit for bit: the sign of zero and the payload of a NaN count."""
    if reference.shape != candidate.shape or (is_text(reference.dtype) != is_text(candidate.dtype)):
        return False
    if is_text(reference.dtype):
        return bool(np.array_equal(reference, candidate))
    return reference.dtype == candidate.dtype and bool(np.array_equal(_bytes(reference), _bytes(candidate)))


def as_reals(array: Array) -> Array:
    """A complex array as pairs of reals, any other as it is."""
    if not is_complex(array.dtype):
        return array
    flat = np.ascontiguousarray(array)
    return flat.view(flat.real.dtype).reshape(*array.shape, 2)


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _blocks(reference: Array, candidate: Array) -> Iterator[tuple[Array, Array]]:
    """Finite elements of both, as float64."""
    first, second = reference.reshape(-1), candidate.reshape(-1)
    for start in range(0, first.size, BLOCK):
        a = first[start : start + BLOCK].astype(np.float64)
        b = second[start : start + BLOCK].astype(np.float64)
        kept = np.isfinite(a) & np.isfinite(b)
        yield (a, b) if kept.all() else (a[kept], b[kept])


def _scale(reference: Array, candidate: Array) -> float:
    return max(_largest(reference), _largest(candidate))


def _largest(array: Array) -> float:
    return max((float(np.abs(a).max(initial=0.0)) for a, _ in _blocks(array, array)), default=0.0)


def _relative(moved: Array, reference: Array, floor: float) -> float:
    base = np.maximum(np.abs(reference), floor)
    with np.errstate(over="ignore"):
        ratio = np.divide(moved, base, out=np.zeros_like(moved), where=base > 0)
    # A reference of nothing but zeros has no scale at all: any move is infinitely far.
    if np.any((base == 0) & (moved > 0)):
        return math.inf
    return float(ratio.max(initial=0.0))


def _closeness(ours: float, noise: float) -> float:
    """What the cosine would be if all of the error stood at a right angle to the reference."""
    if ours == 0.0:
        return 1.0 if noise == 0.0 else 0.0
    return math.sqrt(max(0.0, 1.0 - noise / ours))


def _cosine(dot: float, ours: float, theirs: float) -> float:
    if ours == 0.0 or theirs == 0.0:
        return 1.0 if ours == theirs else 0.0
    return max(-1.0, min(1.0, dot / math.sqrt(ours) / math.sqrt(theirs)))


def _drift(ours: float, theirs: float) -> float:
    if ours == 0.0:
        return 0.0 if theirs == 0.0 else math.inf
    return abs(math.sqrt(theirs) / math.sqrt(ours) - 1.0)


def _sqnr(signal: float, noise: float) -> float:
    if noise == 0.0:
        return SQNR_CAP
    if signal == 0.0:
        return -SQNR_CAP
    return max(-SQNR_CAP, min(SQNR_CAP, 10.0 * (math.log10(signal) - math.log10(noise))))


def _top1(reference: Array, candidate: Array) -> float:
    if reference.ndim == 0 or reference.size == 0:
        return 1.0
    width = reference.shape[-1]
    first, second = reference.reshape(-1, width), candidate.reshape(-1, width)
    rows = max(1, BLOCK // width)
    same = 0
    for start in range(0, len(first), rows):
        a = first[start : start + rows].astype(np.float64).argmax(axis=-1)
        b = second[start : start + rows].astype(np.float64).argmax(axis=-1)
        same += int((a == b).sum())
    return same / len(first)


def _finite(value: float) -> float:
    return min(value, sys.float_info.max)
