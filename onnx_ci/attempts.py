"""The candidates for one model, in the order the rule wants them tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from onnx_ci.decide import over_limits
from onnx_ci.job import Staged
from onnx_ci.plan import Candidate, Draft, candidates, drafted
from onnx_ci.policy.schema import MethodChoice
from onnx_ci.results import Alternative, Measure
from onnx_ci.workbench import Workbench

if TYPE_CHECKING:
    from onnx_ci.planner.planner import Planner

STRIDES = 4  # times that a plan is asked for more, where what it gave is still too large


class Attempts:
    """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def in_order(self, methods: Sequence[MethodChoice], tried: list[Alternative]) -> Iterator[Staged]:
        bench = self.bench
        mode = bench.job.rule.mode
        draft = drafted(
            bench.model,
            methods,
            size=bench.size,
            exact_only=mode == "exact-only" or bench.lineage.lossy,
            compressed=bool(bench.job.compressed),
            feeds=bench.feeds,
        )
        with ExitStack() as stack:
            if mode == "smallest":
                yield from self._smallest(draft, self._planner(draft, methods, stack), tried)
            else:
                yield from self._to_budget(draft, methods, stack, tried)

    def _planned(self, planner: Planner, candidate: Candidate) -> Staged:
        """A plan that the clock cut short is a matter of chance: it must not be remembered."""
        self.bench.by_chance |= planner.hurried
        return self.bench.stage(candidate)

    def _smallest(self, draft: Draft, planner: Planner | None, tried: list[Alternative]) -> Iterator[Staged]:
        whole = self._ordered(list(self._gaining(draft, planner)))
        if planner is None:
            yield from whole
            return
        waiting, found = list(whole), False
        for candidate in self._noted(planner.smallest()):
            staged, found = self._planned(planner, candidate), True
            tried += [] if candidate.planned is None else _unless_there(planner.alternatives(), tried)
            while waiting and self._rank(waiting[0]) < self._rank(staged):
                yield waiting.pop(0)
            yield staged
        # Where no mix holds, methods as a whole are tried in earnest: it is told why they are refused.
        yield from waiting if found else self._ordered(list(self._gaining(draft, None)))

    def _to_budget(
        self, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack, tried: list[Alternative]
    ) -> Iterator[Staged]:
        """First for what a group leaves the model, if it is in one; where that can't be had, for itself."""
        bench = self.bench
        exact = self._exact(draft)
        now = exact.measure if exact else bench.before
        planner: Planner | None = None
        for goal in (bench.aims, bench.limits) if bench.aims != bench.limits else (bench.limits,):
            if not over_limits(bench.before, goal) or not over_limits(now, goal):
                break
            planner = planner or self._planner(draft, methods, stack)
            if planner is not None:
                yield from self._planned_to_fit(planner, now, goal, tried)
            yield from self._whole_to_fit(draft, planner, goal, tried)
        if exact is not None:
            yield exact

    def _whole_to_fit(
        self, draft: Draft, planner: Planner | None, goal: dict[str, int], tried: list[Alternative]
    ) -> Iterator[Staged]:
        for candidate in self._gaining(draft, planner):
            if candidate.exact:
                continue
            staged = self.bench.stage(candidate)
            if over_limits(staged.measure, goal):
                tried += _unless_there([alternative(staged, "too large")], tried)
            else:
                yield staged

    def _exact(self, draft: Draft) -> Staged | None:
        """The exact result, if there is one."""
        base = next(iter(self._noted(candidates(draft, planned=_all_names(draft)))), None)
        return None if base is None else self.bench.stage(base)

    def _planned_to_fit(
        self, planner: Planner, now: Measure, goal: dict[str, int], tried: list[Alternative]
    ) -> Iterator[Staged]:
        """The least harmed mix that fits. Sizes are estimates until a candidate is written: ask for more
        where it is still too large. At last what is smallest: exact methods may have shrunk it further."""
        needed = float(_excess(over_limits(now, goal), goal))
        for _ in range(STRIDES):
            short = 0
            for candidate in self._noted(planner.mildest(needed)):
                staged = self._planned(planner, candidate)
                short = _excess(over_limits(staged.measure, goal), goal)
                if short:
                    break
                yield staged
            if not short:
                break
            needed += 1.05 * short
        tried += _unless_there(planner.alternatives(needed), tried)
        self.bench.plan = planner.report()
        for candidate in planner.smallest():
            staged = self._planned(planner, candidate)
            if over_limits(staged.measure, goal):
                tried += _unless_there([alternative(staged, "within tolerance, but too large")], tried)
                break
            yield staged

    def _planner(self, draft: Draft, methods: Sequence[MethodChoice], stack: ExitStack) -> Planner | None:
        """Where there is something to plan, time for it, and a way to find out."""
        bench = self.bench
        if bench.runner is None or not bench.job.rule.plan_seconds or not draft.lossy:
            return None
        from onnx_ci.planner.forms import plannable
        from onnx_ci.planner.planner import Planner

        if bench.prover is None or not any(map(plannable, methods)):
            return None
        planner = stack.enter_context(
            Planner(
                draft,
                methods,
                rule=bench.job.rule,
                prover=bench.prover,
                scratch=bench.scratch,
                compressed=bool(bench.job.compressed),
                say=bench.say,
            )
        )
        bench.by_chance |= planner.hurried
        bench.plan = planner.nothing if planner.search is None and planner.hurried else None
        return planner if planner.search is not None else None

    def _gaining(self, draft: Draft, planner: Planner | None) -> Iterator[Candidate]:
        # A plan that ran out of time may have found nothing: then methods as a whole are better than none.
        whole = planner is None or planner.hurried
        planned = set() if planner is None or whole else {form.run.method.name for form in planner.forms}
        return self._noted(candidates(draft, planned))

    def _noted(self, made: Iterable[Candidate]) -> Iterator[Candidate]:
        """Those that gained something; of the others what they say of it."""
        for candidate in made:
            steps = (
                step for step in candidate.steps if not step.tensors and step.size_after == step.size_before
            )
            self.bench.idle.update({(step.method, step.note): step for step in steps})
            if candidate.gained:
                yield candidate

    def _ordered(self, found: list[Candidate]) -> Iterable[Staged]:
        """By size on disk; by compressed size where a candidate was made for that."""
        if not any(candidate.for_compression for candidate in found):
            return map(self.bench.stage, sorted(found, key=lambda candidate: candidate.size))
        return sorted(map(self.bench.stage, found), key=self._rank)

    def _rank(self, staged: Staged) -> int:
        return self.bench.compressed(staged.measure) if self.bench.job.compressed else staged.measure.size


def alternative(staged: Staged, verdict: str) -> Alternative:
    return Alternative(methods=staged.candidate.names, size=staged.measure.size, verdict=verdict)


def _unless_there(found: Sequence[Alternative], tried: Sequence[Alternative]) -> list[Alternative]:
    known = [(other.methods, other.size) for other in tried]
    return [one for one in found if (one.methods, one.size) not in known]


def _all_names(draft: Draft) -> set[str]:
    return {run.method.name for run in draft.lossy}


def _excess(over: dict[str, int], limits: dict[str, int]) -> int:
    """The bytes that have to go for the limit that is broken most."""
    return max((value - limits[name] for name, value in over.items() if name != "params"), default=0)
