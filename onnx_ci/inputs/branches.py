"""Both branches of every If: which ones the samples take, and samples that take the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onnx_ci.inputs.dims import STEPS
from onnx_ci.inputs.generate import Attempt, Deriver
from onnx_ci.inputs.goals import Goal, Goals
from onnx_ci.inputs.graph import Branch, Wiring
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import Limits
from onnx_ci.verify.branch_marks import Mark, marked
from onnx_ci.verify.client import Feeds, RunFailed, Runner

_RUNS = 48  # of the model, in search of samples for branches not taken
_VARIANTS = 2 * STEPS
_FAILURES = 2  # crashes and the like before the search is given up
_ALIKE = 4  # samples that take a branch one way, at most


class Side(NamedTuple):
    """One branch of an If; `key` tells the If from others of the same name."""

    key: str
    name: str
    holds: bool

    @property
    def words(self) -> str:
        return f"the {'then' if self.holds else 'else'} branch of If {self.name!r}"


class Watched:
    """A copy of a model that tells which branches ran."""

    def __init__(self, runner: Runner, path: Path, marks: Sequence[Mark], limits: Limits) -> None:
        self.runner = runner
        self.path = path
        self.marks = marks
        self.limits = limits

    def taken(self, feeds: Sequence[Feeds]) -> set[tuple[str, bool]]:
        outputs = self.runner.using(optimize=False).run(self.path, feeds, limits=self.limits)
        return {
            (mark.key, side == 0)
            for mark in self.marks
            for side in (0, 1)
            if any(sample[mark.value][side] > 0 for sample in outputs)
        }


def watch(runner: Runner, original: Path, limits: Limits) -> Watched | None:
    """None where the model has no Ifs, or they can't be watched."""
    with open_model(original) as model:
        copy = model.copy()
        marks = marked(copy.proto)
        if not marks:
            return None
        path = runner.folder() / "watched.onnx"
        write_model(copy, path)
    return Watched(runner, path, marks, limits)


@dataclass(frozen=True, kw_only=True)
class Found:
    """Samples beyond those that were there, and the branches that none of all takes."""

    more: Sequence[Feeds] = ()
    untaken: Sequence[Side] = ()


def sides_of(wiring: Wiring) -> list[Side]:
    """All branches of a model. An If in a function is one, wherever it is called."""
    found = {}
    for branch in wiring.branches:
        name = branch.op.node.name or next(iter(branch.op.node.output), "")
        for holds in (True, False):
            found[branch.key, holds] = Side(branch.key, name, holds)
    return list(found.values())


def without(taken: Collection[tuple[str, bool]], wiring: Wiring) -> list[Side]:
    return [side for side in sides_of(wiring) if (side.key, side.holds) not in taken]


class Way(NamedTuple):
    """What samples have to be to take a branch."""

    goal: Goal
    attempt: Attempt
    first: Feeds


class Search:
    """Looks for samples that take the branches which `feeds` do not."""

    def __init__(self, watched: Watched, deriver: Deriver) -> None:
        self.watched = watched
        self.deriver = deriver
        ranks = {one.name: len(one.dims or ()) for one in deriver.inputs}
        self.goals = Goals(deriver.wiring, ranks)
        self.left = _RUNS
        self.failures = 0

    def beyond(self, feeds: Sequence[Feeds], stored: Feeds) -> Found:
        taken = self.watched.taken(feeds)
        more: list[Feeds] = []
        found: list[tuple[Way, set[tuple[str, bool]]]] = []
        for branch in self.deriver.wiring.branches:
            for holds in (True, False):
                for way in self._ways(branch, holds):
                    if (branch.key, holds) in taken or self._is_over:
                        break
                    new = self._try({**way.first, **stored}) - taken
                    if new:
                        more.append({**way.first, **stored})
                        found.append((way, new))
                    taken |= new
        more += self._alike(found, stored)
        return Found(more=more, untaken=without(taken, self.deriver.wiring))

    @property
    def _is_over(self) -> bool:
        return self.left <= 0 or self.failures >= _FAILURES

    def _alike(self, found: Sequence[tuple[Way, set[tuple[str, bool]]]], stored: Feeds) -> Iterator[Feeds]:
        """Other samples that go the same ways: one sample says little of what is computed there."""
        for index in range(1, min(self.deriver.spec.count, _ALIKE)):
            for way, sides in found:
                sample = None if self._is_over else self.deriver.towards(way.goal, way.attempt, index)
                if sample is None or _is_same(sample, way.first):
                    continue
                if self._try({**sample, **stored}) & sides:
                    yield {**sample, **stored}

    def _ways(self, branch: Branch, holds: bool) -> Iterator[Way]:
        goals = self.goals.all_of([*branch.under, (branch.condition, holds)])
        if not self.goals.reach(branch.condition, float(holds)):
            return  # nothing to go by, and what leads here alone was tried with the If around it
        # A goal may need sizes of its own: a cache that is not empty, half as many samples at half the rate.
        for variant in range(_VARIANTS):
            for goal in goals:
                attempt = Attempt(step=variant // 2, past=variant % 2, varied=False)
                sample = self.deriver.towards(goal, attempt, 0)
                if sample is not None:
                    yield Way(goal, attempt, sample)

    def _try(self, sample: Feeds) -> set[tuple[str, bool]]:
        self.left -= 1
        try:
            return self.watched.taken([sample])
        except RunFailed as error:
            self.failures += error.kind != "error"
            return set()


def _is_same(sample: Feeds, other: Feeds) -> bool:
    """Whether the way there leaves nothing open: all is given, or absent."""
    pairs = [(sample[name], other[name]) for name in sample]
    return all(
        one is two
        or (isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and np.array_equal(one, two))
        for one, two in pairs
    )


def both_ways(
    runner: Runner, original: Path, deriver: Deriver, feeds: Sequence[Feeds], *, stored: Feeds, limits: Limits
) -> Found:
    """Further samples, so that all branches are taken that inputs can reach. A model that can't be watched
    has nothing found."""
    if not deriver.wiring.branches:
        return Found()
    try:
        watched = watch(runner, original, limits)
        return Found() if watched is None else Search(watched, deriver).beyond(feeds, stored)
    except RunFailed:
        return Found()


def not_taken(
    runner: Runner, original: Path, wiring: Wiring, feeds: Sequence[Feeds], *, limits: Limits
) -> Sequence[Side]:
    """The branches that given samples do not take."""
    if not wiring.branches:
        return ()
    try:
        watched = watch(runner, original, limits)
        return () if watched is None else without(watched.taken(feeds), wiring)
    except RunFailed:
        return ()
