"""Outputs against outputs: what moved, how far, which of the tolerances no longer hold; and what an output
can tell of weights at all."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from onnx_ci.policy.schema import AT_LEAST, AT_MOST, Tolerance
from onnx_ci.results import Breach, Comparison, OutputDelta, OutputKind
from onnx_ci.sandbox.exchange import Array, is_complex, is_float, is_integer, is_text, type_name
from onnx_ci.util.advice import set_tolerance
from onnx_ci.verify.metrics import (
    NOTHING_IN_COMMON,
    Distance,
    allowance,
    as_reals,
    beyond,
    distance,
    identical,
    members,
    share_distance,
)

Outputs = Sequence[Mapping[str, Array]]
Pair = tuple[Array | None, Array | None]  # one output of two models; None where one lacks it
_SMALL = 4  # a larger difference of integers is hardly rounding: they are indices, or wrong
_ENDS = 1e-6  # as near to 0, 1 or -1 as float32 can tell in a sum
_ROUNDING = 1e-6  # by so much a length may change where a cosine of 1 is asked for


class Problem(NamedTuple):
    """What does not hold of one output, as a value and in words."""

    breach: Breach
    words: str


@dataclass(frozen=True)
class ComparedOutputs:
    """How each output of a candidate compares, and how that was found out."""

    method: Comparison
    deltas: Sequence[OutputDelta]
    apart: frozenset[str]  # the outputs that can be told from the original's at all


def compare_outputs(
    reference: Outputs, candidate: Outputs, tolerance: Tolerance, *, batched: Collection[str] = ()
) -> tuple[OutputDelta, ...]:
    """Return how far each output moved, at the worst over all samples, and over the members of those outputs
    that are `batched`; `problem` says what does not hold."""
    deltas = []
    for name, pairs in _paired(reference, candidate).items():
        deltas.append(_compare(name, pairs, tolerance, batched=name in batched))
    return tuple(deltas)


def leaves(reference: Outputs, candidate: Outputs, tolerance: Tolerance) -> bool:
    """Whether any output is outside the tolerance; looks no further than the first that is."""
    for name, pairs in _paired(reference, candidate).items():
        unmoved = all(_unmoved(*pair) for pair in pairs)
        if not unmoved and _compare(name, pairs, tolerance).problem:
            return True
    return False


def same_outputs(one: Outputs, other: Outputs) -> bool:
    """Whether all outputs are the same bit for bit, in every sample."""
    return all(_unmoved(*pair) for pairs in _paired(one, other).values() for pair in pairs)


def _paired(reference: Outputs, candidate: Outputs) -> dict[str, list[Pair]]:
    """Pair outputs by name, sample by sample. An optional output that is empty both times makes no pair."""
    paired: dict[str, list[Pair]] = {}
    for before, after in zip(reference, candidate, strict=True):
        for name in {**before, **after}:
            paired.setdefault(name, []).append((before.get(name), after.get(name)))
    return paired


def _unmoved(before: Array | None, after: Array | None) -> bool:
    return before is not None and after is not None and identical(before, after)


def _compare(name: str, pairs: Sequence[Pair], tolerance: Tolerance, *, batched: bool = False) -> OutputDelta:
    problems: list[Problem] = []
    distances: list[Distance] = []
    exact = True
    for before, after in pairs:
        measured, problem = _one(before, after, allowance(tolerance))
        distances.append(measured)
        same = _unmoved(before, after)
        exact = exact and same
        if problem is not None:
            problems.append(problem)
        elif batched and not same and before is not None and after is not None:
            distances += [distance(*pair) for pair in members(before, after)]
    worst = _worst(distances)
    if not problems:
        problems += outside(worst, tolerance)
    if tolerance.exact and not exact and not problems:
        problems.append(Problem("bits", f"not bit-identical (max_abs {_number(worst.max_abs)})"))
    return OutputDelta(
        name=name,
        exact=exact,
        problem="; ".join(dict.fromkeys(problem.words for problem in problems)),
        breaches=tuple(dict.fromkeys(problem.breach for problem in problems)),
        **vars(worst),
    )


def _one(before: Array | None, after: Array | None, allowed: float) -> tuple[Distance, Problem | None]:
    if before is None or after is None:
        side = "the original" if before is None else "the candidate"
        return NOTHING_IN_COMMON, Problem("missing", f"{side} has no such output")
    was, now = type_name(before.dtype), type_name(after.dtype)
    if was != now:
        return NOTHING_IN_COMMON, Problem("type", f"type {was} became {now}")
    if before.shape != after.shape:
        words = f"shape {list(before.shape)} became {list(after.shape)}"
        return NOTHING_IN_COMMON, Problem("shape", words)
    if is_text(before.dtype):
        return share_distance(before == after), _unequal(before, after)
    if is_integer(before.dtype) and allowed:
        words = beyond(before, after, allowed)
        return distance(before, after), Problem("integers", words) if words else None
    if not is_float(before.dtype) and not is_complex(before.dtype):
        return distance(before, after), _unequal(before, after)
    before, after = as_reals(before), as_reals(after)
    return distance(before, after), _odd_values(before, after)


def _unequal(before: Array, after: Array) -> Problem | None:
    count = int((before != after).sum())
    if not count:
        return None
    kind = type_name(before.dtype)
    return Problem("unequal", f"{count} of {before.size} values differ, and {kind} must not")


def _odd_values(before: Array, after: Array) -> Problem | None:
    """NaN and infinities have to be where they were, with the sign they had."""
    for what, test in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
        old, new = test(before), test(after)
        moved = int((old != new).sum())
        if moved:
            counts = f"({int(old.sum())} before, {int(new.sum())} after)"
            return Problem("odd values", f"{what} at {moved} places that differ {counts}")
    return None


def _worst(distances: Sequence[Distance | OutputDelta]) -> Distance:
    if not distances:
        return Distance()
    most = {name: max(getattr(d, name) for d in distances) for name in (*AT_MOST, "drift")}
    least = {name: min(getattr(d, name) for d in distances) for name in AT_LEAST}
    return Distance(**most, **least)


def outside(worst: Distance | OutputDelta, tolerance: Tolerance) -> Iterator[Problem]:
    """Yield what is beyond the tolerance."""
    for name in (*AT_MOST, *AT_LEAST):
        value, limit = getattr(worst, name), getattr(tolerance, name)
        if limit is None:
            continue
        if name in AT_MOST and value > limit:
            yield Problem("limit", f"{name} {_number(value, limit)} is above {_number(limit)}")
        if name in AT_LEAST and value < limit:
            yield Problem("limit", f"{name} {_number(value, limit)} is below {_number(limit)}")
    cosine = tolerance.cosine
    if cosine is None or cosine <= 0.0 or worst.cosine < cosine:
        return
    # Twice every number has a cosine of 1. What keeps a cosine c is off by at most sqrt(1 - c²) of its
    # length when the error stands at a right angle; no more is let pass when it does not.
    allowed = max(math.sqrt(1.0 - cosine * cosine), _ROUNDING)
    if worst.drift > allowed:
        words = (
            f"its numbers as a whole changed by {worst.drift:.3g} of their size, which a cosine does not see"
            f" (a cosine of {_number(cosine)} allows {allowed:.3g})"
        )
        yield Problem("scale", words)


def _number(value: float, limit: float | None = None) -> str:
    """Few digits, or as many as it takes not to look like the limit."""
    if limit is None:
        return f"{value:.6g}"
    short = f"{value:.4g}"
    return short if float(short) != limit and short != f"{limit:.4g}" else repr(value)


def worse_of(
    first_deltas: Sequence[OutputDelta], second_deltas: Sequence[OutputDelta]
) -> tuple[OutputDelta, ...]:
    """Of each output the numbers of the worse of two comparisons."""
    worst = {delta.name: delta for delta in first_deltas}
    for delta in second_deltas:
        first = worst.get(delta.name, delta)
        worst[delta.name] = replace(
            delta,
            exact=first.exact and delta.exact,
            problem=delta.problem or first.problem,
            breaches=delta.breaches or first.breaches,
            **vars(_worst([first, delta])),
        )
    return tuple(worst.values())


def equality_hint(deltas: Sequence[OutputDelta], outputs: Mapping[str, Array]) -> str:
    """Return what helps where only values that have to be equal are not; empty where other advice fits."""
    failing = [delta for delta in deltas if delta.problem]
    types = {delta.name: outputs[delta.name].dtype for delta in failing if delta.name in outputs}
    discrete = [name for name, dtype in types.items() if not is_float(dtype) and not is_complex(dtype)]
    if len(discrete) < len(failing) or not any("unequal" in delta.breaches for delta in failing):
        return ""
    named = " and ".join(dict.fromkeys(type_name(types[delta.name]) for delta in failing))
    most = max(delta.max_abs for delta in failing)
    only_unequal = all(delta.breaches == ("unequal",) for delta in failing)
    if only_unequal and most <= _SMALL and all(map(is_integer, types.values())):
        return f"keep {named} equal by a milder change; or allow it: " + set_tolerance("max_abs", f"{most:g}")
    return f"only a milder change helps: {named} has to be equal, whatever the other limits are"


def is_saturated(values: Array) -> bool:
    """A sigmoid, tanh or softmax driven to its ends: it stays there while weights change a lot."""
    if not is_float(values.dtype) or values.size == 0:
        return False
    flat = np.abs(values.reshape(-1).astype(np.float64))
    at_ends = (np.abs(flat - 1.0) <= _ENDS) | (flat <= _ENDS)
    return bool(at_ends.all() and (flat > _ENDS).any())


def is_graded(outputs: Outputs) -> bool:
    """Whether any output has values in between: all others are equal or wrong, however near."""
    names = dict.fromkeys(name for sample in outputs for name in sample)
    return any(_is_graded([sample[name] for sample in outputs if name in sample]) for name in names)


def _is_graded(arrays: Sequence[Array]) -> bool:
    return is_float(arrays[0].dtype) and not all(is_saturated(array) or array.size == 0 for array in arrays)


def kind_of(name: str, outputs: Outputs, feeds: Sequence[Mapping[str, Any]], *, moved: bool) -> OutputKind:
    """The kind of one output; one that moved when weights were damaged can only be saturated."""
    arrays = [sample[name] for sample in outputs if name in sample]
    if not any(array.size for array in arrays):
        return "empty"
    saturated = is_float(arrays[0].dtype) and not _is_graded(arrays)
    if moved:
        return "saturated" if saturated else ""
    if is_float(arrays[0].dtype) and all(bool(np.isnan(array).all()) for array in arrays):
        return "nan"
    if _echoed(name, outputs, feeds):
        return "echo"
    alike = len(arrays) > 1 and all(np.array_equal(one, other) for one, other in pairwise(arrays))
    if saturated and not (alike and np.ptp(arrays[0]) == 0):
        return "saturated"
    return "constant" if alike else "not reached"


def _echoed(name: str, outputs: Outputs, feeds: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the inputs comes out again in every sample, in whatever shape."""
    pairs = [(sample[name], feed) for sample, feed in zip(outputs, feeds, strict=True) if name in sample]
    candidates = set.intersection(*(set(feed) for _, feed in pairs))
    return any(all(_same(out, feed[given]) for out, feed in pairs) for given in candidates)


def _same(output: Array, given: Any) -> bool:
    if not isinstance(given, np.ndarray) or given.size != output.size:
        return False
    return identical(output.reshape(-1), given.reshape(-1))
