"""Which methods are tried, and in which order: the mildest that fits, or the smallest that holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, no_feeds, run_chain
from onnx_ci.model.model import Model
from onnx_ci.model.replace import replace_model, write_new
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import MethodChoice, Policy, Rule
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
)
from onnx_ci.util.text import option_free, shell_word

if TYPE_CHECKING:
    from onnx_ci.methods.catalogue import Feeds
    from onnx_ci.repo.content import Source


Again = Callable[[Collection[str]], "Candidate"]


@dataclass(frozen=True)
class Candidate:
    """A smaller form of the model, not yet proven: the methods that made it, and its size."""

    model: Model
    runs: tuple[Run, ...]
    steps: tuple[Step, ...]
    size: int
    planned: Planned | None = None  # how the forms of its tensors were chosen
    rounded: tuple[Model, Model] | None = None  # before and after what is not exact by construction
    again: Again | None = None  # makes it once more, without touching the tensors named
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
        return replace(made, rounded=(first, lossy.model), again=partial(self._sparing, runs))

    def _sparing(self, runs: Sequence[Run], names: Collection[str]) -> Candidate:
        spared = (run.sparing(names) for run in runs)
        return self.with_runs([run for run in spared if run is not None])


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
    seen = [base.runs]
    for combination in combinations:
        candidate = made.with_runs(combination)
        yield replace(candidate, gained=candidate.runs not in seen)
        seen.append(candidate.runs)


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


Say = Callable[[str], None]
Write = Callable[[Model, Model, str], Path]  # candidate, original, the candidate's digest: where it now is
Keep = Callable[[Sequence[Path]], OriginalState]  # the files of a model that is about to be replaced


@dataclass(frozen=True, kw_only=True)
class Job:
    """One model and all that is asked of it. `write` puts a proven candidate in place; None only looks."""

    path: Path
    name: str
    rule: Rule
    root: Path  # nothing outside of it is read or written
    home: Path  # what sample patterns are relative to, and where the user's own score runs
    policy: Policy | None = None
    write: Write | None = None
    insists: bool = False
    strict: bool = False  # True: what is written keeps its rule, or nothing is written
    base_size: int | None = None
    hashing: BackgroundHash | None = None
    target: int | None = None  # bytes that a group's budget leaves it; to plan for, not to be judged by
    repository: Path | None = None  # of git: where an original is looked for
    matched: str = ""  # its name relative to the policy, for patterns
    known_as: Path | None = None  # where the user knows the model, if it is read from elsewhere
    identify: bool = True  # False: no sha256 of anything, where nothing is lost that one could want back
    elsewhere: bool = False  # True: the model itself and its data stay, so nobody is robbed of them
    keep: Keep | None = None  # sees to it that an original can be had again; None where nothing is lost
    changed: Callable[[], bool] = lambda: False  # whether it is another than in the commit compared with
    base: Callable[[], Source | None] = lambda: None  # the model in the commit compared with, if another
    cache: bool = True  # whether what an earlier run proved for this content may be used again

    @property
    def call(self) -> str:
        """How to name the model on the command line, from here."""
        return shell_word(option_free(os.path.relpath(self.known_as or self.path)))

    @property
    def compressed(self) -> list[str]:
        """The compressed sizes that count: those with a budget, or gzip if the user named a method for it."""
        limited = [name for name in self.rule.budget.size_like if name != "size"]
        return limited or (["gzip"] if self.insists and self._rounds_for_compression else [])

    @property
    def _rounds_for_compression(self) -> bool:
        return any(method(choice.name).gains == "compressed" for choice in self.rule.methods)


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


@dataclass(frozen=True)
class Choice:
    """What came of trying the candidates."""

    staged: Staged | None
    verification: Verification
    alternatives: tuple[Alternative, ...]
    failed_exact: bool = False
    misled: bool = False  # a library's "the same mathematics" was not: it is worth trying without
    latency: Latency | None = None
    plan: Planned | None = None  # what was tried tensor by tensor, chosen or not
    stale: Finding | None = None  # why the model may not stay as it is, whatever its size
    as_it_is: bool = False  # what was verified is the model that is there, against its original


def write_to(target: Path, reserved: Collection[str] = ()) -> Write:
    """To another place; names of data files that are reserved are left to others."""
    return lambda candidate, original, digest: write_new(
        candidate, original, target.resolve(), digest=digest, reserved=reserved
    )


def write_in_place(root: Path) -> Write:
    return lambda candidate, original, digest: replace_model(candidate, original, root=root, digest=digest)


def noting(write: Write, wrote: list[Path]) -> Write:
    """The same, and what was written is put on a list."""

    def noted(candidate: Model, original: Model, digest: str) -> Path:
        wrote.append(write(candidate, original, digest))
        return wrote[-1]

    return noted
