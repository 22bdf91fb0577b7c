"""How far one array is from another: computed in float64, block by block, every number finite; and how much
room a tolerance leaves."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import ValueInfoProto

from onnx_ci.policy.schema import AT_MOST, Tolerance
from onnx_ci.sandbox.exchange import Array, is_complex, is_text

BLOCK = 1 << 20  # elements in float64 at a time: outputs can be far larger than memory allows twice
SQNR_CAP = 300.0  # dB; stands for "identical" where JSON knows no infinity
FEW = 8  # elements below which a cosine is blind: of one positive number and another it is always 1
_FLOOR = 1e-6  # of the largest reference value: below it, a relative error means nothing
SMALL = 0.01  # of the largest member of a batch
MANY = 1000  # members that are looked at one by one; what is more than that is no batch
GENERATED = 0.25  # of the noise that the tolerance allows, where inputs are made up: 6 dB
SAMPLES = 0.5  # where they are the user's own: 3 dB
USUAL = 27.0  # dB; what a cosine of 0.999 stands for


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
    scale = max(_largest(reference), _largest(candidate))
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


def allowance(tolerance: Tolerance) -> float:
    """How far whole numbers may be off: a `max_abs` below 1 was meant for others."""
    return tolerance.max_abs if tolerance.max_abs is not None and tolerance.max_abs >= 1 else 0.0


def beyond(before: Array, after: Array, allowed: float) -> str:
    """What is wrong, counted in whole numbers: in float64 2^60 and 2^60 + 100 are the same."""
    one, other = _wide(before), _wide(after)
    # Modulo 2^64, which the difference of two numbers of 64 bits is always below.
    apart = np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
    most = int(apart.max(initial=0))
    return f"max_abs {most} is above {allowed:g}" if most > allowed else ""


def _wide(array: Array) -> Array:
    return array if array.dtype == np.uint64 else array.astype(np.int64)


def batched(
    proto: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Array]]
) -> frozenset[str]:
    """Outputs as long as some input in every sample, where that is no accident: the length differs between
    samples, or both carry the same symbol."""
    fed = {name: _lengths(feeds, name) for name in (feeds[0] if feeds else ())}
    names = set()
    for output in proto.graph.output:
        lengths = _lengths(outputs, output.name)
        if not lengths or max(lengths) > MANY:
            continue
        alike = [name for name, given in fed.items() if given == lengths]
        symbols = {_symbol(value) for value in proto.graph.input if value.name in alike} - {""}
        if alike and (len(set(lengths)) > 1 or _symbol(output) in symbols):
            names.add(output.name)
    return frozenset(names)


def members(before: Array, after: Array) -> Iterator[tuple[Array, Array]]:
    """One pair a member of a batch of floats, if there are several. Where a member is few numbers, or small
    beside the others, a relative measure of it alone is one of rounding: those count in the whole only."""
    if before.shape != after.shape or before.ndim < 2 or len(before) < 2 or before[0].size < FEW:
        return
    if is_complex(before.dtype):
        return
    sizes = [float(np.abs(member[np.isfinite(member)]).max(initial=0.0)) for member in before]
    for one, other, size in zip(before, after, sizes, strict=True):
        if size > SMALL * max(sizes):
            yield one, other


def _lengths(samples: Sequence[Mapping[str, Any]], name: str) -> list[int]:
    """The first size in each sample; nothing where it is not an array with one in all of them."""
    arrays = [sample.get(name) for sample in samples]
    kept = [len(array) for array in arrays if isinstance(array, np.ndarray) and array.ndim > 0]
    return kept if len(kept) == len(arrays) else []


def _symbol(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return dims[0].dim_param if dims else ""


def least_sqnr(tolerance: Tolerance) -> float:
    """How many dB a rounded weight has to hold where inputs are made up: as many as outputs have to. Such
    inputs may miss what weights are for, so what they seem to forgive is not all believed."""
    limits = [tolerance.sqnr] if tolerance.sqnr is not None else []
    if tolerance.cosine is not None:
        limits.append(-10 * math.log10(max(2 * (1 - tolerance.cosine), 1e-30)))
    return max(limits, default=USUAL)


def with_margin(tolerance: Tolerance, *, samples: bool) -> Tolerance:
    """Return the tolerance without the room that a search along its edge would use up."""
    return tightened(tolerance, SAMPLES if samples else GENERATED)


def tightened(tolerance: Tolerance, share: float) -> Tolerance:
    """Return a tolerance that allows only a share of the noise that this one does."""
    part = math.sqrt(share)  # of a difference, where the share is of its square
    differences = {name: getattr(tolerance, name) for name in AT_MOST}
    likeness = {name: getattr(tolerance, name) for name in ("cosine", "top1")}
    return replace(
        tolerance,
        sqnr=None if tolerance.sqnr is None else tolerance.sqnr - 10 * math.log10(share),
        **{name: value * part for name, value in differences.items() if value is not None},
        **{name: 1 - (1 - value) * share for name, value in likeness.items() if value is not None},
    )
