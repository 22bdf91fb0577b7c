"""What is asked of one model, and how a candidate for it looks on its way through the gate."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.findings import Finding
from onnx_ci.methods.catalogue import method
from onnx_ci.model.container import Model
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.model.replace import replace_model, write_new
from onnx_ci.plan import Candidate
from onnx_ci.policy.schema import Policy, Rule
from onnx_ci.results import Alternative, Measure, OriginalState, Planned
from onnx_ci.shell import option_free, shell_word
from onnx_ci.shown import Latency, Proof, Verification

if TYPE_CHECKING:
    from onnx_ci.sources import Source

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
