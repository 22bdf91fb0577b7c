"""Mixes of forms tried out on the model: how far outputs move, how many trials there were, and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_ci.planner.shelf import Shelf
from onnx_ci.policy.schema import Tolerance
from onnx_ci.sandbox.runner import RunFailed
from onnx_ci.shown import OutputDelta
from onnx_ci.verify.compare import Outputs, compare_outputs, outside, same_outputs
from onnx_ci.verify.metrics import NOTHING_IN_COMMON, SQNR_CAP
from onnx_ci.verify.trials import WeightSwapSession

Mix = Mapping[str, int]  # the form of each tensor that has one


class OutOfTime(Exception):
    """The time for planning is used up."""


@dataclass(frozen=True)
class Tried:
    """What came of one mix. `noise` is the power of the error over that of the signal, over all outputs."""

    mix: Mix
    deltas: tuple[OutputDelta, ...]
    moved: bool  # any bit of any output, against the same session with no mix
    safe: bool = False  # holds with room to spare

    @property
    def holds(self) -> bool:
        return not any(delta.problem for delta in self.deltas)

    @property
    def noise(self) -> float:
        return sum(10 ** (-delta.sqnr / 10) for delta in self.deltas if delta.sqnr < SQNR_CAP)

    @property
    def sqnr(self) -> float:
        return min((delta.sqnr for delta in self.deltas), default=SQNR_CAP)

    @property
    def cosine(self) -> float:
        return min((delta.cosine for delta in self.deltas), default=1.0)

    @property
    def problem(self) -> str:
        return next((f"output {delta.name!r}: {delta.problem}" for delta in self.deltas if delta.problem), "")


class Trials:
    """Runs mixes in one session. The first, of no mix at all, is what later ones are said to move from."""

    def __init__(
        self,
        session: WeightSwapSession,
        shelf: Shelf,
        inputs: Mapping[str, list[str]],
        reference: Outputs,
        tolerance: Tolerance,
        margin: Tolerance,
        *,
        batched: Collection[str],
        seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self.session = session
        self.shelf = shelf
        self.inputs = inputs
        self.reference = reference
        self.batched = batched
        self.tolerance = tolerance
        self.margin = margin  # what a search that goes to the edge has to hold
        self.until = time.monotonic() + seconds
        self.say = say
        self.made: dict[tuple[tuple[str, int], ...], Tried] = {}
        self.unchanged = session.run({})
        began = time.monotonic()
        session.run({})  # the first also loads the model
        self.cost = time.monotonic() - began

    @property
    def affordable(self) -> float:
        """How many trials there is time for, about."""
        return max(0.0, self.until - time.monotonic()) / max(self.cost, 1e-6)

    def tried(self, mix: Mix) -> Tried | None:
        """What came of a mix, if it was tried."""
        return self.made.get(tuple(sorted(mix.items())))

    def run(self, mix: Mix) -> Tried:
        key = tuple(sorted(mix.items()))
        if key not in self.made:
            self._check_clock()
            self.say(f"planning: trial {len(self.made) + 1}")
            self.made[key] = self._tried(mix)
        return self.made[key]

    def _tried(self, mix: Mix) -> Tried:
        try:
            outputs = self.session.run(dict(self._weights(mix)))
        except RunFailed as error:
            worst = vars(NOTHING_IN_COMMON)
            failed = OutputDelta(name="all", exact=False, problem=error.message, **worst)
            return Tried(mix, (failed,), moved=True)
        deltas = compare_outputs(self.reference, outputs, self.tolerance, batched=self.batched)
        safe = not any(delta.problem or any(outside(delta, self.margin)) for delta in deltas)
        return Tried(mix, deltas, self._moves(outputs), safe)

    def shows(self, name: str) -> bool:
        """Whether any output moves when a tensor is damaged for good."""
        self._check_clock()
        return self._moves(
            self.session.run(dict(zip(self.inputs[name], self.shelf.damaged(name), strict=True)))
        )

    def _moves(self, outputs: Outputs) -> bool:
        return not same_outputs(self.unchanged, outputs)

    def _weights(self, mix: Mix) -> Iterable[tuple[str, Path]]:
        for (name, _), files in self.shelf.files(mix.items()).items():
            yield from zip(self.inputs[name], files, strict=True)

    def _check_clock(self) -> None:
        if time.monotonic() > self.until:
            raise OutOfTime
