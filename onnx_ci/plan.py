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
    def for_compression(self) -> bool:
        """Whether it was made for a compressed size: the file itself may be as large as before."""
        return any(run.method.gains == "compressed" for run in self.runs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.method.name for run in self.runs)


def candidates(
    model: Model,
    choices: Sequence[MethodChoice],
    *,
    size: int,
    exact_only: bool,
    compressed: bool = False,
    feeds: Feeds = no_feeds,
) -> Iterator[Candidate]:
    """Mildest first: the exact methods, then each approximate one after them, then all together.

    Within one candidate methods run by their stage, not by the order of the policy. What one method
    has encoded the next leaves alone, so nothing is rounded twice. Methods that gain nothing but
    compressed size run only where that is what counts.
    """
    runs = [Run(method(choice.name), choice.options) for choice in choices]
    runs = [run for run in runs if compressed or run.method.gains != "compressed"]
    exact = sorted((run for run in runs if run.method.exact), key=_stage)
    lossy = [] if exact_only else [run for run in runs if not run.method.exact]
    base = _candidate(run_chain(model, exact, size=size, feeds=feeds), exact)
    if base.runs:
        yield base
    combinations = [[run] for run in lossy] + ([sorted(lossy, key=_stage)] if len(lossy) > 1 else [])
    for combination in combinations:
        chained = run_chain(base.model, combination, size=base.size, feeds=feeds)
        made = _candidate(chained, combination, before=base)
        if len(made.runs) > len(base.runs):
            yield made


def _stage(run: Run) -> int:
    return run.method.stage


def _candidate(chained: Chained, runs: Sequence[Run], before: Candidate | None = None) -> Candidate:
    """Only the methods whose steps stayed count as having made the candidate."""
    useful = [run for run, step in zip(runs, chained.steps, strict=True) if step.kept]
    return Candidate(
        model=chained.model,
        runs=(*(before.runs if before else ()), *useful),
        steps=(*(before.steps if before else ()), *chained.steps),
        size=chained.size,
    )
