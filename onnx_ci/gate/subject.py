"""One model and all that is asked of it, as values; and the ledger of what was tried."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.gate.decide import Measured
from onnx_ci.gate.lineage import Lineage
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import no_feeds
from onnx_ci.model.measure import files_of, largest_tensors, measure
from onnx_ci.model.model import Model
from onnx_ci.model.replace import replace_model, sharers, write_new
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.load import override_for
from onnx_ci.policy.schema import MethodChoice, Override, Policy, Rule
from onnx_ci.results import Alternative, Finding, Limit, Measure, Outcome, Planned, Severity, Step, Verdict
from onnx_ci.util.text import option_free, shell_word

if TYPE_CHECKING:
    from onnx_ci.gate.candidates import Choice
    from onnx_ci.repo.baseline import Baseline
    from onnx_ci.repo.content import Source
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.prove import Prover

Say = Callable[[str], None]


@dataclass(frozen=True)
class InPlace:
    """A proven candidate takes the place of its model; nothing outside of `root` is touched."""

    root: Path

    def write(self, candidate: Model, original: Model, digest: str) -> Path:
        return replace_model(candidate, original, root=self.root, digest=digest)


@dataclass(frozen=True)
class NewFile:
    """A proven candidate goes to another place; names of data files that are reserved are left to others."""

    path: Path
    reserved: Sequence[str] = ()

    def write(self, candidate: Model, original: Model, digest: str) -> Path:
        return write_new(candidate, original, self.path.resolve(), digest=digest, reserved=self.reserved)


@dataclass(frozen=True)
class Look:
    """A model whose share of a group depends on the others' is looked at twice: first for what becomes of
    it by its own rule. What is proven then is kept in a folder of this run, and not proven again."""

    folder: Path  # nobody else can read or write there
    first: bool


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is asked of one model, before its content is looked at."""

    path: Path
    name: str
    rule: Rule
    root: Path  # nothing outside of it is read or written
    home: Path  # what sample patterns are relative to, and where the user's own score runs
    policy: Policy | None = None
    output: InPlace | NewFile | None = None  # where a proven candidate is put; None only looks
    insists: bool = False  # the user named the methods: that none holds is an error, not a choice
    strict: bool = False  # True: what is written keeps its rule, or nothing is written
    base_size: int | None = None
    hashing: BackgroundHash | None = None
    share: int | None = None  # bytes that a group's budget leaves it; to plan for, not to be judged by
    repository: Path | None = None  # of git: where an original is looked for
    matched: str = ""  # its name relative to the policy, for patterns
    known_as: Path | None = None  # where the user knows the model, if it is read from elsewhere
    identify: bool = True  # False: no sha256 of anything, where nothing is lost that one could want back
    elsewhere: bool = False  # True: the model itself and its data stay, so nobody is robbed of them
    keeps_originals: bool = False  # an original that is replaced is kept where it can be had again
    baseline: Baseline | None = None  # what the model is compared with; None where nothing is
    cache: bool = True  # whether what an earlier run proved for this content may be used again
    look: Look | None = None  # None: it is looked at once
    search: bool = True  # False: no smaller form is looked for, but for what is certain at once

    @property
    def user_path(self) -> Path:
        return self.known_as or self.path

    @property
    def call(self) -> str:
        """How to name the model on the command line, from here."""
        return shell_word(option_free(os.path.relpath(self.user_path)))

    @property
    def changed(self) -> bool:
        """Whether the model is not what it was in the commit that it is compared with."""
        if self.baseline is None or self.repository is None:
            return False
        return not self.baseline.unchanged(self.user_path)

    @property
    def base(self) -> Source | None:
        """The model in the commit that it is compared with, if it is another and its content is here."""
        former = self.baseline.former_name(self.user_path) if self.baseline else None
        if self.baseline is None or former is None or self.baseline.unchanged(self.user_path):
            return None
        source = self.baseline.sources.of(former)
        return None if source.absent else source

    @property
    def limits(self) -> dict[str, int]:
        """The limits that its files have to meet, as absolute numbers."""
        budget = self.rule.budget
        limits = dict(budget.size_like)
        if budget.growth is not None and self.base_size is not None:
            limits["growth"] = int(self.base_size * (1 + budget.growth))
        if budget.params is not None:
            limits["params"] = budget.params
        return limits

    @property
    def compressed(self) -> list[str]:
        """The compressed sizes that count: those with a budget, or gzip if the user named a method for it."""
        limited = [name for name in self.rule.budget.size_like if name != "size"]
        rounds_for_it = any(method(choice.name).gains == "compressed" for choice in self.rule.methods)
        return ["gzip"] if self.insists and rounds_for_it and not limited else limited

    @property
    def only_compressed(self) -> bool:
        """Whether compressed sizes count, and none on disk is limited."""
        on_disk = self.share is not None or not self.limits.keys().isdisjoint(("size", "growth"))
        return bool(self.compressed) and not on_disk

    def finding(self, code: str, severity: Severity, message: str, hint: str = "") -> Finding:
        """A finding about the model; messages begin with its name."""
        return Finding(code=code, severity=severity, message=f"{self.name}: {message}", hint=hint)

    def outcome(self, verdict: Verdict, before: Measure | None = None) -> Outcome:
        """An outcome of the model, as far as the task itself tells."""
        rule = self.rule
        return Outcome(
            path=self.name,
            verdict=verdict,
            rule_pattern=rule.pattern,
            rule_line=rule.line,
            before=before,
            limits=tuple(Limit(name=name, limit=limit) for name, limit in self.limits.items()),
        )

    def override(self, content: str) -> Override | None:
        """What accepts this very content, by its sha256, as it is: then it is neither judged nor changed."""
        if self.policy is None or not content:
            return None
        return override_for(self.policy, self.matched, content, date.today())


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A task with its model open. What is measured is measured once, when it is first asked for."""

    task: Task
    model: Model
    lineage: Lineage
    hashing: BackgroundHash | None
    scratch: Path
    runner: Runner | None = None  # None: nothing is verified
    say: Say = lambda _: None
    began: float = field(default_factory=time.monotonic)

    @property
    def until(self) -> float:
        """When a search has to end, so that what it found can be proven within the user's limit."""
        return self.after(0.5)

    def after(self, share: float) -> float:
        """When so much of the time is over that the user's limit leaves; never where there is none."""
        limit = self.rule.limits.total_seconds
        return self.began + limit * share if limit else math.inf

    @property
    def late(self) -> bool:
        return time.monotonic() > self.until

    @property
    def rule(self) -> Rule:
        return self.task.rule

    @cached_property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    @cached_property
    def files(self) -> list[Path]:
        return files_of(self.task.path, self.model.proto)

    @cached_property
    def limits(self) -> dict[str, int]:
        return self.task.limits

    @cached_property
    def aims(self) -> dict[str, int]:
        """The limits to plan for: its own, and what a group leaves it."""
        return self.limits if self.task.share is None else {**self.limits, "group": self.task.share}

    @cached_property
    def before(self) -> Measure:
        """Asked for late: until then the file is hashed while other work goes on."""
        self.say("measuring")
        task, files = self.task, self.files
        return measure(
            task.path, self.model.proto, hashing=self.hashing, compressed=task.compressed, files=files
        )

    @cached_property
    def prover(self) -> Prover:
        """Loaded with all it needs when it is first asked for: what is remembered needs none of it."""
        if self.runner is None:
            raise ValueError("nothing is run without a runner")
        from onnx_ci.verify.prove import Prover

        return Prover(self.rule, self.model, self.runner, self.scratch, home=self.task.home, say=self.say)

    def feeds(self) -> Sequence[Mapping[str, Any]]:
        """Inputs for methods that calibrate; what makes them is loaded when one asks."""
        return self.prover.reference.feeds() if self.runner else no_feeds()

    @cached_property
    def sharers(self) -> list[Path]:
        """Models that have a data file in common with this one: shrinking one would store it twice."""
        return [] if self.task.elsewhere else sharers(self.model, self.task.root)

    @cached_property
    def override(self) -> Override | None:
        policy = self.task.policy
        return self.task.override(self.before.sha256) if policy and policy.overrides else None

    @cached_property
    def methods(self) -> tuple[MethodChoice, ...]:
        """Those of the rule. Where they were run already, only what says where bytes are kept: a model
        may have been stored otherwise since, and still be the same model."""
        chosen = self.rule.methods
        moving = tuple(choice for choice in chosen if method(choice.name).gains == "layout")
        return moving if self.lineage.current else chosen

    @property
    def hands_off(self) -> bool:
        """Whether nothing is to be done to the model, whatever could be."""
        return not self.methods or self.override is not None or bool(self.sharers)

    @property
    def remembers(self) -> bool:
        """Whether what was proven before may be used again: that of an earlier run, or of a first look."""
        return self.runner is not None and (self.task.cache or self.task.look is not None)

    @property
    def disowned(self) -> Subject:
        """The same model as if it had no receipt: a source of its own."""
        return replace(self, lineage=self.lineage.disowned)

    def compressed(self, found: Measure) -> int:
        return sum(getattr(found, name) for name in self.task.compressed)

    def measured(self, final: Model) -> Measured:
        """What the verdict depends on; `final` is the model that would be there in the end."""
        return Measured(
            task=self.task,
            before=self.before,
            limits=self.limits,
            override=self.override,
            largest=largest_tensors(final),
        )


@dataclass
class Ledger:
    """What was done for one model so far: the one thing that changes on the way."""

    tried: list[Alternative] = field(default_factory=list)
    idle: dict[tuple[str, str], Step] = field(default_factory=dict)  # methods that gained nothing, and why
    plan: Planned | None = None  # what the planner found out, whether anything came of it or not
    by_rule: Choice | None = None  # what a first look chose by its own rule, without its group
    by_chance: bool = False  # whether another run may find otherwise: time or memory ran out
    written: list[Path] = field(default_factory=list)  # what was put in place
