"""Outputs against outputs: how far arrays are apart, in float64, block by block, every number finite; which
of the tolerances no longer hold; how much room a tolerance leaves; what an output can tell of weights."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import ValueInfoProto

from onnx_ci.methods.rounding import sum_of_products
from onnx_ci.policy.schema import AT_LEAST, AT_MOST, Tolerance
from onnx_ci.results import PICKS, SPREAD, Breach, Comparison, OutputDelta, OutputKind
from onnx_ci.sandbox.exchange import Array, is_complex, is_float, is_integer, is_text, type_name
from onnx_ci.util.advice import set_tolerance
from onnx_ci.verify.observation import Observation, observation_of

Outputs = Sequence[Mapping[str, Array]]
Pair = tuple[Array | None, Array | None]  # one output of two models; None where one lacks it
_ROUNDED = 4  # a larger difference of integers is hardly rounding: they are indices, or wrong
_ENDS = 1e-6  # as near to 0, 1 or -1 as float32 can tell in a sum
_LAST_DIGITS = 1e-15  # of a cosine, which the order of a sum decides
_OF_RANGE = 0.2  # what an output may be on other inputs than a few
_LITTLE = 0.01  # of what an output can be: what is less than that has no relative error of its own
_MASK = 1e4  # what is further away is no answer, but was put there to be left out
_EQUAL = 1e-3  # of what values are: two that are no further apart are as good as equal to a choice
_MOST_EQUALS = 0.5  # of the choices: beyond that, too little of what follows from them is left to compare
_SOME_ROWS = 32  # of a Softmax that are looked at together: most often the first tell
_DOUBT = 3  # one in so many answers counts as undecided, whatever the model says to these inputs
_ALONE = 8  # times the noise that all inputs may have together: what one of them may have by itself
_NEAR = 100  # one in so many values behind a sigmoid counts as near a decision: those nearest to 0
_ROUNDING = 1e-6  # by so much a length may change where a cosine of 1 is asked for
BLOCK = 1 << 20  # elements in float64 at a time: outputs can be far larger than memory allows twice
SQNR_CAP = 300.0  # dB; stands for "identical" where JSON knows no infinity
FEW = 8  # elements below which a cosine is blind: of one positive number and another it is always 1
_FLOOR = 1e-6  # of the largest reference value: below it, a relative error means nothing
SMALL = 0.01  # of the largest member of a batch
MANY = 1000  # members that are looked at one by one; what is more than that is no batch
_MOST_AXES = 64  # that numpy knows
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


def distance(reference: Array, candidate: Array, *, energy: float = 0.0, room: float = 1.0) -> Distance:
    """Both arrays have the same shape and hold numbers or booleans. `energy` is the mean square that the
    output can have: what this sample lacks of it, or of so many times as much, counts as kept, so that
    nothing is measured against next to nothing."""
    return _distance([(reference, candidate)], energy, room)


def _distance(pairs: Sequence[tuple[Array, Array]], energy: float, room: float = 1.0) -> Distance:
    """Measure several pairs as if they were one."""
    moved_pairs = [pair for pair in pairs if pair[0] is not pair[1]]
    if not moved_pairs:
        return Distance()
    top1 = min(_top1(*pair) for pair in moved_pairs)
    known = max(_largest(before) for before, _ in pairs)
    if known == 0.0 and not any(_largest(after) for _, after in moved_pairs):
        return Distance(top1=top1)
    scale = 1.0
    if pairs[0][0].dtype == np.float64:  # whose squares may overflow; those of float32 never do in float64
        scale = max(known, *(_largest(after) for _, after in moved_pairs))
    floor = max(_FLOOR * known, _LITTLE * math.sqrt(energy))
    largest = relative = total = count = 0.0
    dot = ours = theirs = noise = 0.0
    for a, b in chain.from_iterable(_blocks(*pair) for pair in pairs):
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            moved = a - b  # may be infinite for float64 near the end of its range
            np.abs(moved, out=moved)
            # A reference of nothing but zeros has no scale at all: any move is infinitely far, none is NaN.
            ratio = np.abs(a)
            np.maximum(ratio, floor, out=ratio)
            np.divide(moved, ratio, out=ratio)
        largest = max(largest, float(moved.max(initial=0.0)))
        relative = max(relative, float(np.fmax.reduce(ratio, initial=0.0)))
        count += a.size
        if scale != 1.0:
            a, b = a / scale, b / scale
            moved = np.abs(a - b)
        total += float(moved.sum())
        dot += sum_of_products(a, b)
        ours += sum_of_products(a, a)
        theirs += sum_of_products(b, b)
        noise += sum_of_products(moved, moved)
    rest = max(0.0, room * energy / scale * count / scale - ours)
    dot, ours, theirs = dot + rest, ours + rest, theirs + rest
    return Distance(
        max_abs=_finite(largest),
        max_rel=_finite(relative),
        mean_abs=_finite(total / max(count, 1.0) * scale),
        cosine=_cosine(dot, ours, theirs) if count >= FEW * len(pairs) else _closeness(ours, noise),
        sqnr=_sqnr(ours, noise),
        top1=top1,
        drift=_finite(_drift(ours, theirs)),
    )


def _as_one(pairs: Sequence[tuple[Array, Array]], energy: float) -> Distance:
    """Return how far all pairs are apart as a whole; single numbers are no further than by themselves."""
    return replace(_distance(pairs, energy), max_rel=0.0)


def share_distance(equal: Array) -> Distance:
    """For values without a distance, such as strings: the share that differs stands for it."""
    share = 1.0 - float(equal.mean()) if equal.size else 0.0
    if share == 0.0:
        return Distance()
    alike = 1.0 - share
    return Distance(max_abs=1.0, max_rel=1.0, mean_abs=share, cosine=alike, sqnr=0.0, top1=alike)


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
    first = reference.reshape(-1)
    second = first if candidate is reference else candidate.reshape(-1)
    for start in range(0, first.size, BLOCK):
        a = first[start : start + BLOCK].astype(np.float64)
        b = a if second is first else second[start : start + BLOCK].astype(np.float64)
        if _has_odd(a) or (b is not a and _has_odd(b)):
            kept = np.isfinite(a) & np.isfinite(b)
            a, b = a[kept], b[kept]
        yield a, b


def _has_odd(values: Array) -> bool:
    """Whether some of the values may not be finite: one sum tells, nearly always."""
    with np.errstate(invalid="ignore", over="ignore"):
        return not math.isfinite(float(values.sum()))


def _as_floats(array: Array) -> Array:
    """In a type that numpy itself orders and has NaN in."""
    return array if array.dtype in (np.float16, np.float32, np.float64) else array.astype(np.float64)


def _largest(array: Array) -> float:
    """The largest magnitude of all finite elements."""
    flat, largest = array.reshape(-1), 0.0
    for start in range(0, flat.size, BLOCK):
        block = _as_floats(flat[start : start + BLOCK])
        ends = float(block.max()), float(block.min())
        if not all(map(math.isfinite, ends)):
            block = block[np.isfinite(block)]
            ends = float(block.max(initial=0.0)), float(block.min(initial=0.0))
        largest = max(largest, *map(abs, ends))
    return largest


def _closeness(ours: float, noise: float) -> float:
    """What the cosine would be if all of the error stood at a right angle to the reference."""
    if ours == 0.0:
        return 1.0 if noise == 0.0 else 0.0
    return math.sqrt(max(0.0, 1.0 - noise / ours))


def _cosine(dot: float, ours: float, theirs: float) -> float:
    if ours == 0.0 or theirs == 0.0:
        return 1.0 if ours == theirs else 0.0
    cosine = max(-1.0, min(1.0, dot / math.sqrt(ours) / math.sqrt(theirs)))
    return 1.0 if cosine > 1.0 - _LAST_DIGITS else cosine


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
        a = _as_floats(first[start : start + rows]).argmax(axis=-1)
        b = _as_floats(second[start : start + rows]).argmax(axis=-1)
        same += int((a == b).sum())
    return same / len(first)


def _finite(value: float) -> float:
    return min(value, sys.float_info.max)


def allowance(tolerance: Tolerance) -> float:
    """How far whole numbers may be off: a `max_abs` below 1 was meant for others."""
    return tolerance.max_abs if tolerance.max_abs is not None and tolerance.max_abs >= 1 else 0.0


def most_apart(before: Array, after: Array) -> int:
    """The largest difference, counted in whole numbers: in float64 2^60 and 2^60 + 100 are the same."""
    one, other = (part if part.dtype == np.uint64 else part.astype(np.int64) for part in (before, after))
    # Modulo 2^64, which the difference of two numbers of 64 bits is always below.
    apart = np.maximum(one, other).astype(np.uint64) - np.minimum(one, other).astype(np.uint64)
    return int(apart.max(initial=0))


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


class ReferenceMemo:
    """What was computed of arrays that are compared with again and again; it keeps these arrays."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, object], tuple[Array, Any]] = {}

    def recall(self, array: Array, what: object, compute: Callable[[], Any]) -> Any:
        key = id(array), what
        if key not in self._known:
            self._known[key] = array, compute()
        return self._known[key][1]


def compare_outputs(
    reference: Outputs,
    candidate: Outputs,
    tolerance: Tolerance,
    *,
    batched: Collection[str] = (),
    together: bool = False,
    few: bool = False,
    memory: ReferenceMemo | None = None,
) -> tuple[OutputDelta, ...]:
    """Return how far each output moved, at the worst over all samples, and over the members of those outputs
    that are `batched`; `problem` says what does not hold. With a memory, the reference is looked at once.

    Where samples are judged `together`, as made-up ones are, relative limits are for all of them as a whole,
    and one by itself may be further off: of inputs that nobody has, one or another is always odd. Where they
    are a `few` of those that were judged before, they say too little of what can be behind an output."""
    outputs = _with_views(_paired(reference, candidate), memory)
    return tuple(
        _compare(name, pairs, views, tolerance, batched=name in batched, together=together, few=few)
        for name, (pairs, views) in outputs.items()
    )


LOOKED_AT = 1 << 16  # values of an output that are counted in a histogram


def with_histograms(
    deltas: Sequence[OutputDelta], reference: Outputs, candidate: Outputs
) -> tuple[OutputDelta, ...]:
    """Return the same with how many values of each output are off by how much."""
    paired = _paired(reference, candidate)
    return tuple(replace(delta, histogram=_histogram(paired.get(delta.name, ()))) for delta in deltas)


def _histogram(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """Nothing for what are no numbers, or other ones."""
    counts = np.zeros(len(SPREAD) + 2, dtype=np.int64)
    for before, after in pairs:
        if before is None or after is None or before.shape != after.shape or not is_float(before.dtype):
            return ()
        step = max(1, before.size // LOOKED_AT)
        old, new = (array.reshape(-1)[::step].astype(np.float64) for array in (before, after))
        told = np.isfinite(old) & np.isfinite(new)
        off, largest = np.abs(new[told] - old[told]), np.abs(old[told]).max(initial=0.0)
        moved = off[off > 0]
        counts[0] += off.size - moved.size
        shares = moved / largest if largest else np.ones_like(moved)
        counts[1:] += np.bincount(np.searchsorted(SPREAD, shares, side="right"), minlength=len(SPREAD) + 1)
    return tuple(map(int, counts))


def whole_axes(
    names: Collection[str], tolerance: Tolerance, *, batched: Collection[str] = ()
) -> dict[str, list[int]]:
    """Return the axes along which a part of an output would not be judged as the whole is: where a Softmax
    adds up, where the first answer is looked for, and where the members of a batch are."""
    axes: dict[str, set[int]] = {name: {0} if name in batched else set() for name in names}
    for name in names:
        if tolerance.top1 is not None:
            axes[name].add(-1)
        behind = observation_of(name)
        if behind is not None and (behind.squash == "Softmax" or behind.follows):
            some = [*range(1, _MOST_AXES)] if behind.axis is None else [behind.axis]
            added_up = [*range(_MOST_AXES)] if behind.follows else some
            for one in {name, behind.output} & axes.keys():
                axes[one].update(added_up)
    return {name: sorted(found) for name, found in axes.items() if found}


def leaves(reference: Outputs, candidate: Outputs, tolerance: Tolerance, *, together: bool = False) -> bool:
    """Whether any output is outside the tolerance; looks no further than the first that is."""
    for name, (pairs, views) in _with_views(_paired(reference, candidate)).items():
        unmoved = all(_unmoved(*pair) for pair in (*pairs, *(pair for view in views for pair in view.pairs)))
        if not unmoved and _compare(name, pairs, views, tolerance, together=together).problem:
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


class _View(NamedTuple):
    """What is behind an output, of two models."""

    of: Observation
    pairs: Sequence[tuple[Array, Array]]
    memory: ReferenceMemo

    @property
    def tells(self) -> bool:
        """Whether any of it is where the function tells one value from another: not all is at its ends."""
        return self.of.squash in PICKS or bool(self.recall(0, "tells", self._tells))

    def given(self, number: int) -> tuple[Array, float]:
        """Of one pair what the original's function is given, in its units, and the mean square of that."""

        def compute() -> tuple[Array, float]:
            values = _as_given(self.of, self.pairs[number][0])
            return values, _mean_square(values)

        found: tuple[Array, float] = self.recall(number, "given", compute)
        return found

    def undecided(self, number: int, before: Array, after: Array) -> tuple[float, float]:
        """The power of the error that the output would have if the original were undecided, and that of the
        output itself; nothing where there is no such thing. A model that is sure shows nothing at its output,
        but other inputs will leave it in doubt, and rounding moves what is behind by as much."""
        if self.of.squash == "Sigmoid":
            count = min(before.size, max(FEW, before.size // _NEAR))
            if before is after or not count:
                return 0.0, float(count)
            flat = before.reshape(-1)
            nearest = self.recall(number, "nearest", lambda: np.argpartition(np.abs(flat), count - 1)[:count])
            moved = np.clip(after.reshape(-1)[nearest] - flat[nearest], -50.0, 50.0)
            return float(np.square(1 / (1 + np.exp(-moved)) - 0.5).sum()), float(count)
        if self.of.squash != "Softmax" or before.shape[-1] < 2:
            return 0.0, 0.0
        if before is after:
            return 0.0, float(len(before))
        best, lead, even = self.recall(number, "undecided", lambda: _without_lead(before))
        moved = _softmax(after, best, lead)
        moved -= even
        return float(np.square(moved, out=moved).sum()), float(len(before))

    def recall(self, number: int, what: str, compute: Callable[[], Any]) -> Any:
        return self.memory.recall(self.pairs[number][0], (what, self.of), compute)

    def _tells(self) -> bool:
        for before, _ in self.pairs:
            if self.of.squash != "Softmax" or not before.size:
                if (np.abs(before) < _MASK).any():
                    return True
                continue
            rows = _rows(self.of, before)
            if rows.shape[-1] < 2:
                continue
            for start in range(0, len(rows), _SOME_ROWS):
                some = rows[start : start + _SOME_ROWS].astype(np.float64)
                second, first = np.partition(some, -2, axis=-1)[:, -2:].T
                if (first - second < _MASK).any():
                    return True
        return False


def _with_views(
    paired: Mapping[str, list[Pair]], memory: ReferenceMemo | None = None
) -> dict[str, tuple[list[Pair], list[_View]]]:
    """Put what is behind an output with the output, where both models have it."""
    outputs: dict[str, tuple[list[Pair], list[_View]]] = {}
    views: list[_View] = []
    for name, pairs in paired.items():
        behind = observation_of(name)
        if behind is None:
            outputs[name] = (pairs, [])
            continue
        both = [(b, a) for b, a in pairs if b is not None and a is not None and b.shape == a.shape]
        if len(both) == len(pairs) and is_float(both[0][0].dtype):
            views.append(_View(behind, both, memory or ReferenceMemo()))
    for view in views:
        outputs[view.of.output][1].append(view)
    return outputs


def _unmoved(before: Array | None, after: Array | None) -> bool:
    return before is not None and after is not None and (before is after or identical(before, after))


def _compare(
    name: str,
    pairs: Sequence[Pair],
    views: Sequence[_View],
    tolerance: Tolerance,
    *,
    batched: bool = False,
    together: bool = False,
    few: bool = False,
) -> OutputDelta:
    bounded = next((view.of for view in views if view.of.is_bounded), None)
    least = _least_energy(pairs, bounded, _OF_RANGE if few else _LITTLE)
    energy = max(_energy(pairs), least)
    views = _judged_views(views, pairs, tolerance, energy)
    apart = _ALONE if together and len(pairs) > 1 else 1.0
    judged = [(view, *_behind(view, tolerance, apart, few=few)) for view in views if view.tells]
    # One answer in doubt moves a short output far, and which inputs leave a model in doubt is chance.
    room = apart if any(view.of.squash in ("Softmax", *PICKS) for view in views) else 1.0
    exact = all(_unmoved(*pair) for pair in pairs)
    for view, _, found in judged:
        if view.of.follows and not found and not tolerance.exact:
            pairs = [_chosen_alike(view.of, *both) for both in zip(pairs, view.pairs, strict=True)]
    distances, problems = _measured(pairs, tolerance, energy, room, batched=batched)
    if room > 1.0 and not problems and _float_arrays(pairs):
        distances.append(_as_one([(b, a) for b, a in pairs if b is not None and a is not None], least))
    worst = _worst(distances)
    if not problems:
        problems += outside(worst, tolerance)
    if tolerance.exact and not problems:
        if not exact:
            problems.append(Problem("bits", f"not bit-identical (max_abs {_number(worst.max_abs)})"))
        elif moved := [view for view in views if not all(_unmoved(*pair) for pair in view.pairs)]:
            problems.append(Problem("bits", f"what its {moved[0].of.squash} is given is not bit-identical"))
    delta = OutputDelta(name=name, exact=exact, **vars(worst))
    for view, behind, found in judged:
        unequal = {problem.breach for problem in problems} <= {"unequal"}
        if view.of.is_picked and not found and unequal and not tolerance.exact:
            # What is picked from values that hold may differ where two of them are as good as equal.
            equal = [float((before == after).mean()) for before, after in pairs]  # type: ignore[union-attr]
            delta = replace(delta, top1=min(equal), max_rel=0.0, cosine=1.0, sqnr=SQNR_CAP, drift=0.0)
            problems = [one for one in outside(delta, tolerance) if tolerance.top1 is not None]
        delta = replace(
            delta,
            exact=delta.exact and all(_unmoved(*pair) for pair in view.pairs),
            behind=delta.behind if view.of.follows else view.of.squash,
            max_rel=max(delta.max_rel, behind.max_rel),
            cosine=min(delta.cosine, behind.cosine),
            sqnr=min(delta.sqnr, behind.sqnr),
            drift=max(delta.drift, behind.drift),
        )
        problems += found
    return replace(
        delta,
        worst_input=_worst_input(pairs, views, energy) if problems else None,
        problem="; ".join(dict.fromkeys(problem.words for problem in problems)),
        breaches=tuple(dict.fromkeys(problem.breach for problem in problems)),
    )


def _judged_views(
    views: Sequence[_View], pairs: Sequence[Pair], tolerance: Tolerance, energy: float
) -> Sequence[_View]:
    """Return what is judged behind an output. What is added to an input that is handed on is judged by itself
    only where the tolerance would not miss it: behind what squashes it, where anything does."""
    added = [view for view in views if view.of.added]
    if not added:
        return views
    others = [view for view in views if not view.of.added]
    without = [
        (before, before - part.reshape(before.shape))
        for (before, _), (part, _) in zip(pairs, added[0].pairs, strict=True)
        if before is not None and before.size == part.size
    ]
    if len(without) < len(pairs):
        return others
    distances, problems = _measured(without, tolerance, energy, 1.0, batched=False)
    seen = tolerance.exact or problems or any(outside(_worst(distances), tolerance))
    return others if seen else [*others, *(added[1:] or added)]


def _measured(
    pairs: Sequence[Pair], tolerance: Tolerance, energy: float, room: float, *, batched: bool
) -> tuple[list[Distance], list[Problem]]:
    """Measure pair by pair, and member by member of a batch; what no limit is for is a problem."""
    distances: list[Distance] = []
    problems: list[Problem] = []
    for before, after in pairs:
        measured, problem = _one(before, after, allowance(tolerance), energy, room)
        distances.append(measured)
        if problem is not None:
            problems.append(problem)
        elif batched and before is not None and after is not None and not _unmoved(before, after):
            distances += [distance(*pair, energy=energy, room=room) for pair in members(before, after)]
    return distances, problems


def _chosen_alike(of: Observation, pair: Pair, picked_from: tuple[Array, Array]) -> Pair:
    """Return an output's pair with the original's values wherever the candidate has others because it chose
    otherwise between two values that are as good as equal."""
    before, after = pair
    if before is None or after is None or before.shape != after.shape or before is after:
        return pair
    rows = [np.moveaxis(values.astype(np.float64), of.axis or 0, -1) for values in picked_from]
    lead = rows[0].shape[:-1]
    count = 1 if of.squash != "TopK" or before.ndim <= len(lead) else before.shape[len(lead)]
    signed = [row if of.squash == "ArgMin" else -row for row in rows]
    one, other = (np.argsort(row, axis=-1, kind="stable")[..., :count] for row in signed)
    chosen, instead = (np.take_along_axis(rows[0], taken, -1) for taken in (one, other))
    near = _EQUAL * math.sqrt(_mean_square(_as_given(of, rows[0])))
    equals = (one != other) & np.isclose(chosen, instead, rtol=0.0, atol=near)
    if of.squash != "TopK":
        equals = equals[..., 0]
    if before.shape[: equals.ndim] != equals.shape or np.mean(equals) > _MOST_EQUALS:
        return pair
    equals = equals.reshape(equals.shape + (1,) * (before.ndim - equals.ndim))
    return before, np.where(equals, before, after)


def _worst_input(pairs: Sequence[Pair], views: Sequence[_View], energy: float) -> int | None:
    """Return the number of the input on which the output, or what is behind it, is furthest off."""
    if not pairs:
        return None
    looked_at: Sequence[Pair] = next((view.pairs for view in views if view.tells), pairs)
    of = energy if looked_at is pairs else 0.0
    return min(range(len(pairs)), key=lambda index: _one(*looked_at[index], 0.0, of)[0].sqnr)


def _energy(pairs: Sequence[Pair]) -> float:
    """Return what a number of an output is, squared, in the sample where it is most."""
    energy = max(map(_mean_square, _float_arrays(pairs)), default=0.0)
    return energy if math.isfinite(energy) else 0.0


def _least_energy(pairs: Sequence[Pair], bounded: Observation | None, part: float) -> float:
    """Return what an output that has a range is taken to be at least, squared: a part of the range, since an
    answer near zero that moves by a millionth is no other answer."""
    arrays = _float_arrays(pairs)
    if bounded is None or not arrays:
        return 0.0
    return part * part / (_softmax_width(arrays[0], bounded) if bounded.squash == "Softmax" else 1)


def _float_arrays(pairs: Sequence[Pair]) -> list[Array]:
    return [before for before, _ in pairs if before is not None and before.size and is_float(before.dtype)]


def _mean_square(array: Array) -> float:
    total, count = 0.0, 0
    for block, _ in _blocks(array, array):
        with np.errstate(over="ignore"):
            total += sum_of_products(block, block)
        count += block.size
    return total / max(count, 1)


def _softmax_width(array: Array, behind: Observation) -> int:
    """Return how many numbers of the output add up to 1, as near as its shape tells."""
    if behind.axis is None:
        return max(1, array.size // max(1, len(array)))
    axis = behind.axis if -array.ndim <= behind.axis < array.ndim else -1
    return max(1, array.shape[axis]) if array.ndim else 1


def _behind(view: _View, tolerance: Tolerance, room: float, *, few: bool) -> tuple[Distance, list[Problem]]:
    """Return how far what is behind an output moved, and what of that is beyond the relative limits: as it
    is, and as it would show in the output were the model undecided."""
    relative = replace(tolerance, max_abs=None, mean_abs=None, top1=None, exact=False)
    givens = [view.given(number) for number in range(len(view.pairs))]
    energy = max(power for _, power in givens)
    moved_pairs, noise, signal = [], 0.0, 0.0
    for number, ((before, _), (plain, after)) in enumerate(zip(givens, view.pairs, strict=True)):
        other = before if after is plain else _as_given(view.of, after)
        moved_pairs.append((before, other))
        moved, most = view.undecided(number, before, other)
        noise, signal = noise + moved, signal + most
    distances = [Distance()]
    if not signal or not (few or view.of.squash == "Softmax"):
        # Of thousands of letters, most are out of the question, and how far is all the same to a Softmax.
        distances += [distance(*pair, energy=energy, room=room) for pair in moved_pairs]
        distances += [_as_one(moved_pairs, 0.0)] if room > 1.0 else []
    worst = _worst(distances)
    words = f"behind its {view.of.squash}"
    problems = [Problem(one.breach, f"{words}: {one.words}") for one in outside(worst, relative)]
    if signal:
        noise /= _DOUBT
        least = Distance(cosine=_closeness(signal, noise), sqnr=_sqnr(signal, noise))
        if not problems or least.cosine < worst.cosine:
            words = f"where its {view.of.squash} is undecided"
            undecided = [Problem(one.breach, f"{words}: {one.words}") for one in outside(least, relative)]
            problems = undecided or problems
        worst = _worst([worst, least])
    return worst, problems


def _as_given(behind: Observation, values: Array) -> Array:
    """Return what a function is given in the units in which it tells one value from another."""
    values = values.astype(np.float64)
    if _has_odd(values):
        values = np.nan_to_num(values)
    if behind.squash != "Softmax":
        if behind.squash not in PICKS:
            return np.clip(values, -_MASK, _MASK)
        kept = np.abs(values) < _MASK
        return np.where(kept, values, 0.0) if kept.any() else values
    rows = _rows(behind, values)
    kept = rows > rows.max(axis=-1, keepdims=True, initial=-np.inf) - _MASK
    if rows.size and kept.all():
        rows -= rows.sum(axis=-1, keepdims=True) / rows.shape[-1]
        return rows
    means = np.where(kept, rows, 0.0).sum(axis=-1, keepdims=True) / np.maximum(
        kept.sum(axis=-1, keepdims=True), 1
    )
    return np.where(kept, rows - means, 0.0)


def _rows(behind: Observation, values: Array) -> Array:
    """Return what a Softmax adds up as the rows of a matrix."""
    if values.ndim < 2 or values.size == 0:
        return values.reshape(1, -1)
    if behind.axis is None:
        return values.reshape(len(values), -1)
    return np.moveaxis(values, behind.axis, -1).reshape(-1, values.shape[behind.axis])


def _without_lead(rows: Array) -> tuple[Array, Array, Array]:
    """Of each row which number is best, by how much, and what a Softmax gives were it not."""
    best = rows.argmax(axis=-1)
    second, first = np.partition(rows, -2, axis=-1)[:, -2:].T
    lead = first - second
    return best, lead, _softmax(rows, best, lead)


def _softmax(rows: Array, best: Array, lead: Array) -> Array:
    """Of rows in which what is best had no lead."""
    rows = rows.copy()
    rows[np.arange(len(rows)), best] -= lead
    rows -= rows.max(axis=-1, keepdims=True)
    np.exp(rows, out=rows)
    rows /= rows.sum(axis=-1, keepdims=True)
    return rows


def _one(
    before: Array | None, after: Array | None, allowed: float, energy: float, room: float = 1.0
) -> tuple[Distance, Problem | None]:
    if before is not None and before is after:
        return Distance(), None
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
        most = most_apart(before, after)
        words = f"max_abs {most} is above {allowed:g}"
        return distance(before, after), Problem("integers", words) if most > allowed else None
    if not is_float(before.dtype) and not is_complex(before.dtype):
        return distance(before, after), _unequal(before, after)
    before, after = as_reals(before), as_reals(after)
    return distance(before, after, energy=energy, room=room), _odd_values(before, after)


def _unequal(before: Array, after: Array) -> Problem | None:
    count = int((before != after).sum())
    if not count:
        return None
    kind = type_name(before.dtype)
    return Problem("unequal", f"{count} of {before.size} values differ, and {kind} must not")


def _odd_values(before: Array, after: Array) -> Problem | None:
    """NaN and infinities have to be where they were, with the sign they had."""
    if not _has_odd(before) and not _has_odd(after):
        return None
    for what, test in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
        old, new = test(before), test(after)
        moved = int((old != new).sum())
        if moved:
            counts = f"({int(old.sum())} before, {int(new.sum())} after)"
            return Problem("odd values", f"{what} at {moved} places that differ {counts}")
    return None


def _worst(distances: Sequence[Distance | OutputDelta]) -> Distance:
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
            yield Problem("limit", f"{name} {_number(value, limit)} is above {f'{limit:.10g}'}")
        if name in AT_LEAST and value < limit:
            yield Problem("limit", f"{name} {_number(value, limit)} is below {f'{limit:.10g}'}")
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


def use_of(delta: Distance | OutputDelta, tolerance: Tolerance) -> float:
    """Return how much of the noise that a tolerance allows an output has, by the limit that it is nearest to:
    1 is at the limit. As powers, which add up where errors have nothing to do with each other."""
    shares: list[float] = []
    for name in AT_MOST:
        limit = getattr(tolerance, name)
        if limit is not None:
            shares.append(_over(getattr(delta, name), limit) ** 2)
    for name in ("cosine", "top1"):
        limit = getattr(tolerance, name)
        if limit is not None:
            shares.append(_over(1 - getattr(delta, name), 1 - limit))
    if tolerance.sqnr is not None or not shares:
        limit = USUAL if tolerance.sqnr is None else tolerance.sqnr
        shares.append(0.0 if delta.sqnr >= SQNR_CAP else 10 ** ((limit - delta.sqnr) / 10))
    return max(shares)


def _over(value: float, limit: float) -> float:
    if value <= 0.0:
        return 0.0
    return value / limit if limit > 0.0 else math.inf


def _number(value: float, limit: float | None = None) -> str:
    """Few digits, or as many as it takes not to look like the limit."""
    if limit is None:
        return f"{value:.6g}"
    for digits in range(4, 17):
        short = f"{value:.{digits}g}"
        if short != f"{limit:.{digits}g}" and float(short) != limit:
            return short
    return repr(value)


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
    if only_unequal and most <= _ROUNDED and all(map(is_integer, types.values())):
        return f"keep {named} equal by a milder change; or allow it: " + set_tolerance("max_abs", f"{most:g}")
    return f"only a milder change helps: {named} has to be equal, whatever the other limits are"


def _is_saturated(values: Array) -> bool:
    """A sigmoid, tanh or softmax driven to its ends: it stays there while weights change a lot."""
    flat = np.abs(values.reshape(-1).astype(np.float64))
    at_ends = (np.abs(flat - 1.0) <= _ENDS) | (flat <= _ENDS)
    return bool(at_ends.all() and (flat > _ENDS).any())


def is_graded(outputs: Outputs) -> bool:
    """Whether any output has values in between: all others are equal or wrong, however near."""
    names = dict.fromkeys(name for sample in outputs for name in sample)
    return any(_is_graded([sample[name] for sample in outputs if name in sample]) for name in names)


def _is_graded(arrays: Sequence[Array]) -> bool:
    return is_float(arrays[0].dtype) and not all(_is_saturated(array) or array.size == 0 for array in arrays)


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
    shared = set.intersection(*(set(feed) for _, feed in pairs))
    return any(all(_same_values(output, feed[given]) for output, feed in pairs) for given in shared)


def _same_values(output: Array, given: Any) -> bool:
    return isinstance(given, np.ndarray) and identical(output.reshape(-1), given.reshape(-1))


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
