"""Tensor by tensor: whether the check would notice damage to it, in a bounded number of runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from onnx_ci.doubt.stored import Stored
from onnx_ci.doubt.trials import Damage, Key, Outputs, Trials
from onnx_ci.model.container import Model
from onnx_ci.model.layout import lay_out
from onnx_ci.policy.schema import Tolerance
from onnx_ci.verify.bench import Bench
from onnx_ci.verify.client import Feeds, RunFailed
from onnx_ci.verify.compare import leaves, same_outputs
from onnx_ci.verify.damage import randomly, strongly
from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.verifier import Verifier

MOST = 128  # runs with a single sample; where there are more tensors, some are damaged with their neighbours
LEAST = 12  # such runs, however large the model is
WORK = 4 * 10**9  # bytes that all such runs together may read of the model: a number, not a clock, decides
PATIENCE = 120.0  # seconds after which that is given up; what is found then may be otherwise elsewhere
LONG = 5.0  # seconds by which a damaged model may be slower
DEATHS = 3  # damaged models that hang or crash, before it is given up
NOTICED, FAINT, UNSEEN = "noticed", "faint", "unseen"
States = dict[Key, str]


class Coverage:
    """What is known of the tensors of one model: asked for once, good for all its candidates."""

    def __init__(
        self, model: Model, verifier: Verifier, further: Callable[[], Verifier | None], folder: Path
    ) -> None:
        self.model = model
        self.verifier = verifier
        self.further = further
        self.folder = folder
        self.states: States = {}
        self.runs = 0
        self.alone = True
        self.hurried = False  # the clock had a say

    def ask(
        self, items: Sequence[Stored], tolerance: Tolerance, parts: Mapping[Key, Array] | None = None
    ) -> States:
        """ "noticed", "faint" (it moves outputs, but not beyond the tolerance) or "unseen", by tensor; or by
        the part of it that is asked about, which is not remembered."""
        parts = parts or {}
        new = [item for item in items if item.key in parts or item.key not in self.states]
        if new:
            with Trials(self.model, new, self.verifier, self.folder, parts) as trials:
                self._ask(trials, new, tolerance)
                self.runs += trials.runs
        found = {item.key: self.states[item.key] for item in items}
        for key in parts:
            self.states.pop(key, None)
        return found

    def _ask(self, trials: Trials, items: Sequence[Stored], tolerance: Tolerance) -> None:
        """First with one sample; what that leaves open with all there are, and with other damage."""
        feeds = self.verifier.feeds()
        first = _Round(trials, feeds[:1], tolerance)
        for group in self._in_time(list(grouped(items, self._affordable))):
            self._note(group, first.state(group, strongly))
            self.alone = self.alone and len(group) == 1
        left = [item for item in items if self.states[item.key] != NOTICED]
        every = _Round(trials, [*feeds, *self._other_feeds()], tolerance) if left else first
        for how in (strongly, randomly):
            for found in grouped(left, 1):
                self._settle(every, found, how)
            left = [item for item in left if self.states[item.key] != NOTICED]

    @property
    def _affordable(self) -> int:
        """The same for a model wherever it is asked, so that a slow machine finds what a fast one does."""
        return max(LEAST, min(MOST, WORK // lay_out(self.model).size))

    def _in_time(self, groups: Sequence[list[Stored]]) -> Iterator[list[Stored]]:
        """When patience is at its end, what is left of each graph goes together."""
        until = time.monotonic() + PATIENCE
        for number, group in enumerate(groups):
            if number >= LEAST and time.monotonic() > until:
                self.hurried = True
                yield from grouped([item for left in groups[number:] for item in left], 1)
                return
            yield group

    def _settle(self, every: _Round, items: Sequence[Stored], how: Damage) -> None:
        """Halved as long as something shows; what does not show together does not show alone."""
        state = every.state(items, how)
        if state == UNSEEN:
            return
        if len(items) > 1 and every.trials.runs < 2 * MOST:
            middle = len(items) // 2
            self._settle(every, items[:middle], how)
            self._settle(every, items[middle:], how)
        else:
            self._note(items, state)

    def _note(self, items: Sequence[Stored], state: str) -> None:
        self.states.update((item.key, state) for item in items)

    def _other_feeds(self) -> Sequence[Feeds]:
        other = self.further()
        return other.feeds() if other is not None else ()


class _Round:
    """Trials on the same inputs."""

    def __init__(self, trials: Trials, feeds: Sequence[Feeds], tolerance: Tolerance) -> None:
        self.trials = trials
        self.tolerance = tolerance
        self.bench: Bench = trials.on(feeds)
        self.before: Outputs = trials.unharmed(self.bench)
        began = time.monotonic()
        again = trials.unharmed(self.bench)  # the first also loads the model
        self.cost = time.monotonic() - began
        self.steady = same_outputs(self.before, again)
        self.bench.limits = replace(self.bench.limits, seconds=self._patience)

    @property
    def _patience(self) -> float:
        """Seconds that a damaged model may take: one that does not come to an end is not waited for."""
        return min(self.bench.limits.seconds, LONG + 10 * self.cost)

    def state(self, items: Sequence[Stored], how: Damage) -> str:
        """A model that no longer runs is noticed as well: it would be refused."""
        try:
            outputs = self.trials.run(self.bench, items, how)
        except RunFailed as error:
            self.trials.deaths += error.kind != "error"
            if self.trials.deaths > DEATHS:
                raise
            return NOTICED
        if leaves(self.before, outputs, self.tolerance):
            return NOTICED
        return FAINT if self.steady and not same_outputs(self.before, outputs) else UNSEEN


def grouped(items: Sequence[Stored], most: int) -> Iterator[list[Stored]]:
    """So many groups at most, but for one in each graph, so that a branch which no input takes is not hidden
    by what is around it: neighbours are together, the largest groups are halved first."""
    by_reader = sorted(items, key=_reader)
    groups = [list(found) for _, found in groupby(by_reader, key=_reader)]
    while groups and len(groups) < most:
        widest = max(range(len(groups)), key=lambda number: len(groups[number]))
        group = groups[widest]
        if len(group) == 1:
            break
        middle = len(group) // 2
        groups[widest : widest + 1] = [group[:middle], group[middle:]]
    yield from groups


def _reader(item: Stored) -> int:
    return item.read_in
