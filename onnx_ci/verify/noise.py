"""How far the original is from itself: measured before anything is compared with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Tolerance
from onnx_ci.shown import Noise, OutputDelta
from onnx_ci.verify.compare import Outputs, compare_outputs, outside, same_outputs

OTHER_DRAWS = 1  # the seed of random nodes in a second session; the first had 0
ROUNDING = 40.0  # dB; what is nearer to itself than this is one answer with noise, not several answers
_ROOM = 4  # a tolerance that can be kept is this much wider than what was seen once
_DECIBELS = 12  # which is as much

# So many samples in a new session, with another number of threads or not.
Again = Callable[[int, bool], Outputs]


class Noisy(ModelError):
    """Two runs of the original have little in common: no single run of it is a reference."""


def measured(first: Outputs, again: Again) -> tuple[Noise, ...]:
    """One session more, with other draws and another number of threads, tells most models to be exact on the
    first sample. Only where it differs, all samples tell how far, and another session what is to blame."""
    glance = again(1, True)
    if same_outputs(first[:1], glance):
        return _combined(compare_outputs(first[:1], glance, Tolerance()), {})
    runs = compare_outputs(first, again(len(first), False), Tolerance())
    threads = compare_outputs(first, again(len(first), True), Tolerance())
    return _combined(threads, {delta.name: delta for delta in runs})


def _combined(threads: Sequence[OutputDelta], runs: Mapping[str, OutputDelta]) -> tuple[Noise, ...]:
    found = []
    for delta in threads:
        by_run = runs.get(delta.name, delta)
        source = "runs" if not by_run.exact else "threads" if not delta.exact else ""
        found.append(Noise(**asdict(by_run if source == "runs" else delta), source=source))
    return tuple(found)


def refuse_gross(noise: Sequence[Noise], nodes: Sequence[str]) -> None:
    """Raise where runs of the original differ by more than rounding."""
    gross = [one for one in noise if one.source == "runs" and (one.problem or one.sqnr < ROUNDING)]
    if gross:
        shown = "; ".join(f"output {one.name!r}: {one.problem or words(one)}" for one in gross[:3])
        drawn = f", and nodes draw random numbers: {', '.join(nodes[:3])}" if nodes else ""
        raise Noisy(f"its outputs differ from run to run ({shown}){drawn}", hint=WAY_OUT, code="OCI005")


WAY_OUT = (
    "give random nodes a `seed` attribute, or turn the noise off if an input scales it:"
    " inputs: {ranges: {NAME: [0, 0]}}; or leave the model alone: methods: []"
)


def refuse_strict(noise: Sequence[Noise], tolerance: Tolerance) -> None:
    """Raise where two runs of the original are further apart than a candidate may be."""
    for one in noise:
        beyond = _beyond(one, tolerance) if one.source == "runs" else []
        if beyond:
            raise ModelError(
                f"the tolerance is stricter than the original is with itself: two runs of it differ in output"
                f" {one.name!r}: {'; '.join(beyond)}",
                hint=f"a tolerance it can keep: {{{', '.join(possible(one, tolerance))}}}",
                code="OCI005",
            )


def unexplained(
    deltas: Sequence[OutputDelta], noise: Sequence[Noise], tolerance: Tolerance
) -> list[OutputDelta]:
    """The outputs that moved beyond the tolerance and further than the original moves by itself."""
    floors = {one.name: one for one in noise if one.source}
    failing = [delta for delta in deltas if delta.problem]
    return [delta for delta in failing if not _within(delta, floors.get(delta.name), tolerance)]


def excused(deltas: Sequence[OutputDelta], noise: Sequence[Noise], tolerance: Tolerance) -> ModelError:
    """Why outputs beyond the tolerance are not held against the candidate."""
    floors = {one.name: one for one in noise}
    delta = next(delta for delta in deltas if delta.problem)
    floor = floors[delta.name]
    return ModelError(
        f"output {delta.name!r}: {delta.problem}, but the original itself differs as much"
        f" {_CAUSES[floor.source]}: {words(floor)}",
        hint=f"a tolerance it can keep: {{{', '.join(possible(floor, tolerance))}}}",
        code="OCI005",
    )


_CAUSES = {"threads": "with another number of threads", "runs": "from run to run"}


def words(one: Noise) -> str:
    return f"max_abs {one.max_abs:.3g}, {one.sqnr:.0f} dB"


def possible(floor: Noise, tolerance: Tolerance) -> Iterator[str]:
    """What the limits that can't be kept would have to be."""
    kept = _kept(floor, tolerance)
    for name in ("max_abs", "max_rel", "mean_abs"):
        limit, wider = getattr(tolerance, name), getattr(kept, name)
        if limit is not None and wider > limit:
            yield f"{name}: {wider:.1e}"
    if kept.sqnr is not None and kept.sqnr != tolerance.sqnr:
        yield f"sqnr: {math.floor(kept.sqnr)}"
    if kept.cosine is not None and kept.cosine != tolerance.cosine:
        yield f"cosine: {kept.cosine:.6g}"
    if tolerance.exact:
        yield f"exact: false, max_abs: {kept.max_abs:.1e}"


def _beyond(one: Noise, tolerance: Tolerance) -> list[str]:
    found = [one.problem] if one.problem else list(outside(one, tolerance))
    return found or (["not bit-identical, " + words(one)] if tolerance.exact and not one.exact else [])


def _within(delta: OutputDelta, floor: Noise | None, tolerance: Tolerance) -> bool:
    """Whether it keeps a tolerance that the noise can keep: once seen, it may be more the next time."""
    if floor is None or (delta.problem and not _is_a_matter_of_limits(delta, tolerance)):
        return floor is not None and bool(floor.problem)
    return not any(outside(delta, _kept(floor, tolerance)))


def _is_a_matter_of_limits(delta: OutputDelta, tolerance: Tolerance) -> bool:
    """A shape or an integer that changed is not."""
    return any(outside(delta, tolerance)) or (tolerance.exact and "bit-identical" in delta.problem)


def _kept(floor: Noise, tolerance: Tolerance) -> Tolerance:
    """The tolerance, as far as the original keeps it with itself, and no stricter."""
    return Tolerance(
        max_abs=_wider(tolerance.max_abs, floor.max_abs, always=tolerance.exact),
        max_rel=_wider(tolerance.max_rel, floor.max_rel),
        mean_abs=_wider(tolerance.mean_abs, floor.mean_abs),
        cosine=None if tolerance.cosine is None else min(tolerance.cosine, _least_cosine(floor)),
        sqnr=None if tolerance.sqnr is None else min(tolerance.sqnr, floor.sqnr - _DECIBELS),
        top1=None if tolerance.top1 is None else min(tolerance.top1, floor.top1),
    )


def _wider(limit: float | None, seen: float, *, always: bool = False) -> float | None:
    return max(limit or 0.0, seen * _ROOM) if limit is not None or always else None


def _least_cosine(floor: Noise) -> float:
    return 1 - _ROOM**2 * (1 - floor.cosine)
