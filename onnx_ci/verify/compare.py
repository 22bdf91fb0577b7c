"""Outputs against outputs: what moved, how far, and which of the tolerances no longer hold."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import OutputDelta
from onnx_ci.verify.batches import members
from onnx_ci.verify.dtypes import Array, is_complex, is_float, is_integer, is_text, type_name
from onnx_ci.verify.integers import MUST_NOT, allowance, beyond
from onnx_ci.verify.metrics import (
    NOTHING_IN_COMMON,
    Distance,
    as_reals,
    distance,
    identical,
    share_distance,
)

Outputs = Sequence[Mapping[str, Array]]
_AT_MOST = ("max_abs", "max_rel", "mean_abs")
_AT_LEAST = ("cosine", "sqnr", "top1")
_ROUNDING = 1e-6  # by so much a length may change where a cosine of 1 is asked for


def compare_outputs(
    reference: Outputs, candidate: Outputs, tolerance: Tolerance, *, batched: Collection[str] = ()
) -> tuple[OutputDelta, ...]:
    """One delta an output, the worst over all samples, and over the members of those outputs that are
    `batched`; `problem` says what does not hold."""
    pairs = list(zip(reference, candidate, strict=True))
    names = dict.fromkeys(name for pair in pairs for outputs in pair for name in outputs)
    return tuple(_compare(name, pairs, tolerance, name in batched) for name in names)


def leaves(
    reference: Outputs, candidate: Outputs, tolerance: Tolerance, *, batched: Collection[str] = ()
) -> bool:
    """Whether any output is outside the tolerance; looks no further than the first that is."""
    pairs = list(zip(reference, candidate, strict=True))
    names = dict.fromkeys(name for pair in pairs for outputs in pair for name in outputs)
    moved = (name for name in names if not all(_unmoved(name, *pair) for pair in pairs))
    return any(_compare(name, pairs, tolerance, name in batched).problem for name in moved)


def _unmoved(name: str, before: Mapping[str, Array], after: Mapping[str, Array]) -> bool:
    return name in before and name in after and identical(before[name], after[name])


def same_outputs(one: Outputs, other: Outputs) -> bool:
    """Bit for bit, in every sample."""
    pairs = zip(one, other, strict=True)
    return all(a.keys() == b.keys() and all(identical(a[name], b[name]) for name in a) for a, b in pairs)


def _compare(
    name: str,
    pairs: Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]],
    tolerance: Tolerance,
    batched: bool,
) -> OutputDelta:
    problems: list[str] = []
    distances: list[Distance] = []
    exact = True
    for before, after in pairs:
        if name not in before and name not in after:
            continue  # an optional output that was empty both times
        found, problem = _one(before.get(name), after.get(name), allowance(tolerance))
        distances.append(found)
        problems += [problem] if problem else []
        same = not problem and identical(before[name], after[name])
        if batched and not problem and not same and not is_complex(before[name].dtype):
            distances += [distance(*pair) for pair in members(before[name], after[name])]
        exact = exact and same
    worst = _worst(distances)
    problems += outside(worst, tolerance) if not problems else []
    if tolerance.exact and not exact and not problems:
        problems.append(f"not bit-identical (max_abs {_number(worst.max_abs)})")
    return OutputDelta(name=name, exact=exact, problem="; ".join(dict.fromkeys(problems)), **vars(worst))


def _one(before: Array | None, after: Array | None, allowed: float) -> tuple[Distance, str]:
    if before is None or after is None:
        side = "the original" if before is None else "the candidate"
        return NOTHING_IN_COMMON, f"{side} has no such output"
    if type_name(before.dtype) != type_name(after.dtype):
        return NOTHING_IN_COMMON, f"type {type_name(before.dtype)} became {type_name(after.dtype)}"
    if before.shape != after.shape:
        return NOTHING_IN_COMMON, f"shape {list(before.shape)} became {list(after.shape)}"
    if is_text(before.dtype):
        return share_distance(before == after), _unequal(before, after)
    if is_integer(before.dtype) and allowed:
        return distance(before, after), beyond(before, after, allowed)
    if not is_float(before.dtype) and not is_complex(before.dtype):
        return distance(before, after), _unequal(before, after)
    before, after = as_reals(before), as_reals(after)
    return distance(before, after), _odd_values(before, after)


def _unequal(before: Array, after: Array) -> str:
    count = int((before != after).sum())
    return (
        f"{count} of {before.size} values differ, and {type_name(before.dtype)} {MUST_NOT}" if count else ""
    )


def _odd_values(before: Array, after: Array) -> str:
    """NaN and infinities have to be where they were, with the sign they had."""
    for what, test in (("NaN", np.isnan), ("+Inf", _is_positive), ("-Inf", _is_negative)):
        old, new = test(before), test(after)
        moved = int((old != new).sum())
        if moved:
            return f"{what} at {moved} places that differ ({int(old.sum())} before, {int(new.sum())} after)"
    return ""


def _is_positive(array: Array) -> Array:
    return np.asarray(np.isinf(array) & (array > 0))


def _is_negative(array: Array) -> Array:
    return np.asarray(np.isinf(array) & (array < 0))


def _worst(distances: Sequence[Distance]) -> Distance:
    if not distances:
        return Distance()
    most = {name: max(getattr(d, name) for d in distances) for name in (*_AT_MOST, "drift")}
    least = {name: min(getattr(d, name) for d in distances) for name in _AT_LEAST}
    return Distance(**most, **least)


def outside(worst: Distance | OutputDelta, tolerance: Tolerance) -> Iterator[str]:
    """What is beyond the tolerance, in words."""
    for name in (*_AT_MOST, *_AT_LEAST):
        value, limit = getattr(worst, name), getattr(tolerance, name)
        if limit is None:
            continue
        if name in _AT_MOST and value > limit:
            yield f"{name} {_number(value, limit)} is above {_number(limit)}"
        if name in _AT_LEAST and value < limit:
            yield f"{name} {_number(value, limit)} is below {_number(limit)}"
    if tolerance.cosine is not None and worst.cosine >= tolerance.cosine:
        yield from _scaled(worst, tolerance.cosine)


def _scaled(worst: Distance | OutputDelta, cosine: float) -> Iterator[str]:
    """Twice every number has a cosine of 1. What keeps a cosine c is off by at most sqrt(1 - c²) of its
    length when the error stands at a right angle; no more is let pass when it does not."""
    if cosine <= 0.0:
        return
    allowed = max(math.sqrt(1.0 - cosine * cosine), _ROUNDING)
    if worst.drift > allowed:
        yield (
            f"its numbers as a whole changed by {worst.drift:.3g} of their size, which a cosine does not see"
            f" (a cosine of {_number(cosine)} allows {allowed:.3g})"
        )


def _number(value: float, limit: float | None = None) -> str:
    """Few digits, or as many as it takes not to look like the limit."""
    if limit is None:
        return f"{value:.6g}"
    short = f"{value:.4g}"
    return short if float(short) != limit and short != f"{limit:.4g}" else repr(value)


def worse_of(one: Sequence[OutputDelta], other: Sequence[OutputDelta]) -> tuple[OutputDelta, ...]:
    """Of each output the numbers of the worse of two comparisons."""
    found = {delta.name: delta for delta in one}
    for delta in other:
        first = found.get(delta.name, delta)
        numbers = _worst([_distance(first), _distance(delta)])
        found[delta.name] = replace(
            delta,
            exact=first.exact and delta.exact,
            problem=delta.problem or first.problem,
            **vars(numbers),
        )
    return tuple(found.values())


def _distance(delta: OutputDelta) -> Distance:
    return Distance(**{name: getattr(delta, name) for name in (*_AT_MOST, *_AT_LEAST, "drift")})
