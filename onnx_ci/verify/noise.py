"""How far the original is from itself: measured before anything is compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from onnx_ci.errors import ModelError
from onnx_ci.policy.schema import Tolerance
from onnx_ci.results import Noise, OutputDelta
from onnx_ci.verify.compare import Outputs, compare_outputs, outside, same_outputs

OTHER_DRAWS = 1  # the seed of random nodes in a second session; the first had 0
ROUNDING = 40.0  # dB; what is nearer to itself than this is one answer with noise, not several answers
_AT_MOST = ("max_abs", "max_rel", "mean_abs", "drift")
_ROOM = 4  # a tolerance that can be kept is this much wider than what was seen once

Again = Callable[[bool], Outputs]  # the first sample in a new session, with another number of threads or not


class Noisy(ModelError):
    """Two runs of the original have little in common: no single run of it is a reference."""


def measured(first: Outputs, again: Again) -> tuple[Noise, ...]:
    """One session more, with other draws and another number of threads, tells most models to be exact.
    Only where it differs, another one tells what is to blame."""
    threads = again(True)
    if same_outputs(first, threads):
        return _combined(compare_outputs(first, threads, Tolerance()), {})
    runs = compare_outputs(first, again(False), Tolerance())
    return _combined(compare_outputs(first, threads, Tolerance()), {delta.name: delta for delta in runs})


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


def unexplained(deltas: Sequence[OutputDelta], noise: Sequence[Noise]) -> list[OutputDelta]:
    """The outputs that moved beyond the tolerance and further than the original moves by itself."""
    floors = {one.name: one for one in noise if one.source}
    failing = [delta for delta in deltas if delta.problem]
    return [delta for delta in failing if not _within(delta, floors.get(delta.name))]


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
    for name in ("max_abs", "max_rel", "mean_abs"):
        limit, seen = getattr(tolerance, name), getattr(floor, name)
        if limit is not None and seen * _ROOM > limit:
            yield f"{name}: {seen * _ROOM:.1e}"
    if tolerance.sqnr is not None and floor.sqnr - 12 < tolerance.sqnr:
        yield f"sqnr: {floor.sqnr - 12:.0f}"
    if tolerance.cosine is not None and 1 - _ROOM * (1 - floor.cosine) < tolerance.cosine:
        yield f"cosine: {1 - _ROOM * (1 - floor.cosine):.6g}"
    if tolerance.exact:
        yield f"exact: false, max_abs: {floor.max_abs * _ROOM:.1e}"


def _beyond(one: Noise, tolerance: Tolerance) -> list[str]:
    found = [one.problem] if one.problem else list(outside(one, tolerance))
    return found or (["not bit-identical, " + words(one)] if tolerance.exact and not one.exact else [])


def _within(delta: OutputDelta, floor: Noise | None) -> bool:
    """Once seen, a floor may be twice that the next time."""
    if floor is None:
        return False
    return (
        all(getattr(delta, name) <= 2 * getattr(floor, name) for name in _AT_MOST)
        and delta.sqnr >= floor.sqnr - 6
        and 1 - delta.cosine <= 4 * (1 - floor.cosine) + 1e-12
        and delta.top1 >= floor.top1
    )
