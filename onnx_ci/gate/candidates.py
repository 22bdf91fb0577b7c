"""Which methods are tried, and in which order: the mildest that fits, or the smallest that holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, no_feeds, run_chain
from onnx_ci.model.model import Model
from onnx_ci.policy.schema import MethodChoice
from onnx_ci.repo.original import Original
from onnx_ci.results import (
    Alternative,
    Finding,
    Latency,
    Measure,
    OriginalState,
    Planned,
    Proof,
    Step,
    Verification,
    Work,
)

if TYPE_CHECKING:
    from onnx_ci.methods.catalogue import Feeds


@dataclass(frozen=True)
class Candidate:
    """A smaller form of the model, not yet proven: the methods that made it, and its size."""

    model: Model
    runs: tuple[Run, ...]
    steps: tuple[Step, ...]
    size: int
    planned: Planned | None = None  # how the forms of its tensors were chosen
    rounded: tuple[Model, Model] | None = None  # before and after what is not exact by construction
    origin: Origin | None = None  # None where it was not made in this run
    gained: bool = True  # False: its methods found nothing to do, or no more than those of another candidate

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
    def for_compression(self) -> bool:
        """Whether it was made for a compressed size: the file itself may be as large as before."""
        return any(run.method.gains == "compressed" for run in self.runs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.method.name for run in self.runs)

    def sparing(self, names: Collection[str]) -> Candidate | None:
        """The same once more, without touching the tensors named; None where it can't be made again."""
        if self.origin is None:
            return None
        draft, runs = self.origin
        spared = (run.sparing(names) for run in runs)
        return draft.with_runs([run for run in spared if run is not None])


@dataclass(frozen=True)
class Draft:
    """The model after the exact methods that come first, and the runs that come last."""

    given: Model
    start: Candidate
    lossy: tuple[Run, ...]
    late: tuple[Run, ...]
    feeds: Feeds

    def with_runs(self, runs: Sequence[Run]) -> Candidate:
        """A candidate of these lossy runs. None starts from another's output."""
        lossy = _extended(self.start, sorted(runs, key=_stage), self.feeds)
        made = _extended(lossy, sorted(self.late, key=_stage), self.feeds)
        first = self.start.model if self.start.bitwise else self.given
        return replace(made, rounded=(first, lossy.model), origin=(self, tuple(runs)))


Origin = tuple[Draft, tuple[Run, ...]]  # what a candidate was made from, and the lossy runs it is made with


def drafted(
    model: Model,
    choices: Sequence[MethodChoice],
    *,
    size: int,
    exact_only: bool,
    compressed: bool = False,
    feeds: Feeds = no_feeds,
) -> Draft:
    runs = [Run(method(choice.name), choice.options) for choice in choices]
    runs = [run for run in runs if compressed or run.method.gains != "compressed"]
    exact = sorted((run for run in runs if run.method.exact), key=_stage)
    lossy = [] if exact_only else [run for run in runs if not run.method.exact]
    first = min((run.method.stage for run in lossy), default=0)
    early = [run for run in exact if run.method.stage < first]
    late = [run for run in exact if run.method.stage >= first]
    start = _extended(Candidate(model, (), (), size), early, feeds)
    return Draft(model, start, tuple(lossy), tuple(late), feeds)


def candidates(made: Draft, planned: Collection[str] = ()) -> Iterator[Candidate]:
    """Mildest first: the exact methods, then each approximate one with them, then all together.

    Within one candidate methods run by their stage, not by the order of the policy. What one method
    has encoded the next leaves alone, so nothing is rounded twice. Exact encodings run after the lossy
    ones of a candidate (a weight that is fp16 without loss would be out of reach for int8 otherwise), and
    what only moves bytes comes last. Methods that gain nothing but compressed size run only where that is
    what counts. Candidates that gained nothing are among them: their steps say why. Methods that are
    `planned` elsewhere, tensor by tensor, are not tried by themselves, only together with others.
    """
    base = made.with_runs(())
    yield replace(base, gained=bool(base.runs))
    apart = [run for run in made.lossy if run.method.name not in planned]
    combinations = [[run] for run in apart] + ([list(made.lossy)] if apart and len(made.lossy) > 1 else [])
    combinations += [[replace(run, options=more)] for run in apart for more in _further(run)]
    seen = [base.runs]
    for combination in combinations:
        candidate = made.with_runs(combination)
        yield replace(candidate, gained=candidate.runs not in seen)
        seen.append(candidate.runs)


def _further(run: Run) -> Iterator[Mapping[str, object]]:
    """What a method can do beyond what it does by itself, where the rule leaves that open. Embeddings that
    are rounded make a model much smaller, and some do not bear it."""
    if run.method.name == "dynamic-int8" and not run.options.get("ops"):
        from onnx_ci.methods.ort_quantize import DYNAMIC_OPS

        yield {**run.options, "ops": [*DYNAMIC_OPS, "Gather"]}


def _stage(run: Run) -> int:
    return run.method.stage


def _extended(before: Candidate, runs: Sequence[Run], feeds: Feeds) -> Candidate:
    """Only the methods that were of use count as having made the candidate."""
    chained = run_chain(before.model, runs, size=before.size, feeds=feeds)
    return Candidate(
        model=chained.model,
        runs=(*before.runs, *chained.kept),
        steps=(*before.steps, *chained.steps),
        size=chained.size,
    )


@dataclass(frozen=True)
class Staged:
    """A candidate with its receipt, as files in a scratch folder: exactly what would be put in place."""

    candidate: Candidate
    model: Model
    digest: str
    path: Path
    measure: Measure


@dataclass(frozen=True)
class Held:
    """The model that is there, held against the original that its receipt names."""

    proof: Proof
    same: bool  # it is a form of it, whether it keeps its rule or not
    original: OriginalState

    @property
    def outputs_hold(self) -> bool:
        """Also where it is too slow, or has a worse score: outputs held before that was asked."""
        return self.proof.accepted or self.proof.verification.code in ("OCI010", "OCI016")


@dataclass(frozen=True)
class Choice:
    """What came of trying the candidates."""

    staged: Staged | None
    verification: Verification
    alternatives: tuple[Alternative, ...]
    failed_exact: bool = False
    misled: bool = False  # what a method presumes did not hold: it is worth trying without
    searched: bool = True  # False: only what is certain at once was looked at
    latency: Latency | None = None
    plan: Planned | None = None  # what was tried tensor by tensor, chosen or not
    work: Work | None = None  # what finding it took, in this run or in the one that is remembered
    stale: Finding | None = None  # why the model may not stay as it is, whatever its size
    as_it_is: bool = False  # what was verified is the model that is there, against its original
    missing: str = ""  # why there is no original
    notes: tuple[Finding, ...] | None = None  # what to say of its original, where there is one
    original: OriginalState | None = None  # where it is, as far as that was asked
    derived_from: Original | None = None  # what the candidate is made from, if not from the model
