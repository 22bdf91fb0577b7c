"""Which methods are tried, and in which order: the mildest that fits, or the smallest that holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Chained, Run, no_feeds, run_chain
from onnx_ci.model.container import Model
from onnx_ci.policy.schema import MethodChoice
from onnx_ci.results import Step

if TYPE_CHECKING:
    from onnx_ci.methods.base import Feeds


@dataclass(frozen=True)
class Candidate:
    """A smaller form of the model, not yet proven: the methods that made it, and its size."""

    model: Model
    runs: tuple[Run, ...]
    steps: tuple[Step, ...]
    size: int

    @property
    def exact(self) -> bool:
        """Nothing was lost."""
        return all(run.method.exact for run in self.runs)

    @property
    def bitwise(self) -> bool:
        """Not a single bit of an output may have moved."""
        return all(run.method.bitwise for run in self.runs)

    @property
    def changes(self) -> tuple[str, ...]:
        """The parts of the interface that its methods are meant to change."""
        return tuple(topic for run in self.runs for topic in run.method.changes)

    @property
    def moved(self) -> tuple[str, ...]:
        """What was moved out of the model or into it, in words."""
        layout = {run.method.name for run in self.runs if run.method.gains == "layout"}
        steps = (step for step in self.steps if step.method in layout)
        return tuple(f"{step.tensors} tensor{'s'[: step.tensors != 1]}: {step.note}" for step in steps)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.method.name for run in self.runs)


def candidates(
    model: Model, choices: Sequence[MethodChoice], *, size: int, exact_only: bool, feeds: Feeds = no_feeds
) -> Iterator[Candidate]:
    """Mildest first: the exact methods, then each approximate one after them, then all together.

    Within one candidate methods run by their stage, not by the order of the policy, and what moves bytes
    comes last in each. What one method has encoded the next leaves alone, so nothing is rounded twice.
    """
    runs = [Run(method(choice.name), choice.options) for choice in choices]
    layout = sorted((run for run in runs if run.method.gains == "layout"), key=_stage)
    exact = sorted((run for run in runs if run.method.exact and run not in layout), key=_stage)
    lossy = [] if exact_only else [run for run in runs if not run.method.exact]
    base = run_chain(model, exact, size=size, feeds=feeds)
    combinations = [[run] for run in lossy] + ([sorted(lossy, key=_stage)] if len(lossy) > 1 else [])
    for combination in [[], *combinations]:
        added = run_chain(base.model, [*combination, *layout], size=base.size, feeds=feeds)
        made = _candidate(base, added)
        if any(run in combination for run in added.kept) or (made.runs and not combination):
            yield made


def _stage(run: Run) -> int:
    return run.method.stage


def _candidate(base: Chained, added: Chained) -> Candidate:
    """Only the methods that were of use count as having made the candidate."""
    return Candidate(
        model=added.model,
        runs=(*base.kept, *added.kept),
        steps=(*base.steps, *added.steps),
        size=added.size,
    )
