"""One model through the gate: candidates are made and proven, one is chosen, judged and put in place."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.decide import Facts, decide, limits_of, over_limits
from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.lineage import lineage, stamp
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import no_feeds
from onnx_ci.model.container import Model
from onnx_ci.model.external import opened_files
from onnx_ci.model.hashing import BackgroundHash, file_sha256
from onnx_ci.model.layout import lay_out
from onnx_ci.model.load import open_model, read_skeleton
from onnx_ci.model.measure import files_of, measure, parameters
from onnx_ci.model.replace import replace_model
from onnx_ci.model.save import write_model
from onnx_ci.plan import Candidate, candidates
from onnx_ci.policy.match import override_for
from onnx_ci.policy.schema import MethodChoice, Override, Policy, Rule
from onnx_ci.results import NOT_RUN, Alternative, Latency, Measure, Outcome, Proof, Verification

if TYPE_CHECKING:
    from onnx_ci.prove import Prover
    from onnx_ci.verify.client import Runner

Say = Callable[[str], None]
Write = Callable[[Model, Model, str], Path]  # candidate, original, the candidate's digest: where it now is


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
    base_size: int | None = None
    hashing: BackgroundHash | None = None
    identify: bool = True  # False: no sha256 of anything, where nothing is lost that one could want back

    @property
    def compressed(self) -> list[str]:
        return [name for name in self.rule.budget.size_like if name != "size"]


@dataclass(frozen=True)
class Staged:
    """A candidate with its receipt, as files in a scratch folder: exactly what would be put in place."""

    candidate: Candidate
    model: Model
    digest: str
    path: Path
    measure: Measure


@dataclass(frozen=True)
class Choice:
    """What came of trying the candidates."""

    staged: Staged | None
    verification: Verification
    alternatives: tuple[Alternative, ...]
    failed_exact: bool = False
    latency: Latency | None = None


def write_in_place(root: Path) -> Write:
    return lambda candidate, original, digest: replace_model(candidate, original, root=root, digest=digest)


def judge(job: Job, runner: Runner | None, say: Say = lambda _: None) -> Outcome:
    """The outcome for one model; without a runner nothing is verified.

    A model that can't be handled is an outcome too, never an exception.
    """
    outcome = Outcome(
        path=job.name, verdict="unreadable", rule_pattern=job.rule.pattern, rule_line=job.rule.line
    )
    try:
        hashing = job.hashing or (BackgroundHash(job.path) if job.identify else None)
        with open_model(job.path, root=job.root) as model, tempfile.TemporaryDirectory() as scratch:
            return Gate(job, model, hashing, Path(scratch), say, runner).run(outcome)
    except ModelError as error:
        finding = Finding(code=error.code, severity=job.rule.severity, message=error.message, hint=error.hint)
        return replace(outcome, findings=(finding,))


class Gate:
    """The work on one open model."""

    def __init__(
        self,
        job: Job,
        model: Model,
        hashing: BackgroundHash | None,
        scratch: Path,
        say: Say,
        runner: Runner | None,
    ) -> None:
        self.job = job
        self.model = model
        self.runner = runner
        self.hashing = hashing
        self.scratch = scratch
        self.say = say
        self.size = sum(file.stat().st_size for file in files_of(job.path, model.proto))
        self.limits = limits_of(job.rule, job.base_size)
        self.lineage = lineage(model, job.rule)
        self.count = 0

    @cached_property
    def before(self) -> Measure:
        """Asked for late: until then the file is hashed while other work goes on."""
        self.say("measuring")
        return measure(self.job.path, self.model.proto, hashing=self.hashing, compressed=self.job.compressed)

    def run(self, outcome: Outcome) -> Outcome:
        choice = self.choose()
        facts = Facts(
            name=self.job.name,
            call=shlex.quote(os.path.relpath(self.job.path)),
            rule=self.job.rule,
            policy_file=self.job.policy.file if self.job.policy else "",
            before=self.before,
            after=choice.staged.measure if choice.staged else None,
            methods=choice.staged.candidate.names if choice.staged else (),
            moved=choice.staged.candidate.moved if choice.staged else (),
            verification=choice.verification,
            writes=self.job.write is not None,
            insists=self.job.insists,
            limits=self.limits,
            latency=choice.latency,
            alternatives=choice.alternatives,
            failed_exact=choice.failed_exact,
            override=self._override(),
        )
        verdict, findings = decide(facts)
        done = replace(
            outcome,
            verdict=verdict,
            before=self.before,
            after=facts.after,
            steps=choice.staged.candidate.steps if choice.staged else (),
            verification=choice.verification,
            findings=(*self.lineage.findings(self.job.name, over=verdict == "over_budget"), *findings),
            alternatives=choice.alternatives,
            latency=choice.latency,
        )
        return self._write(choice, done)

    def _write(self, choice: Choice, outcome: Outcome) -> Outcome:
        if self.job.write is None or choice.staged is None:
            return outcome
        if self.job.insists and outcome.verdict == "over_budget":
            return replace(outcome, after=None)
        self.say("writing")
        try:
            written = self.job.write(choice.staged.model, self.model, choice.staged.digest)
        except ModelError as error:
            finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
            return replace(outcome, findings=(*outcome.findings, finding), after=None, verdict="would_shrink")
        return replace(outcome, after=self._as_written(choice.staged, written), written=True)

    def _as_written(self, staged: Staged, written: Path) -> Measure:
        """Data files got their names when they were written, and the model has these names in it."""
        after, named = staged.measure, opened_files(staged.model)
        if named:
            files = files_of(written, read_skeleton(written))
            after = replace(after, size=sum(file.stat().st_size for file in files))
        if self.job.identify and (named or not after.sha256):
            after = replace(after, sha256=file_sha256(written))
        return after

    def _override(self) -> Override | None:
        policy = self.job.policy
        return override_for(policy, self.job.name, self.before.sha256, date.today()) if policy else None

    def choose(self) -> Choice:
        """Try candidates in the order the rule wants until one is proven."""
        if not self.methods:
            return Choice(None, NOT_RUN, ())
        tried: list[Alternative] = []
        failed: Verification | None = None
        failed_exact = False
        for staged in self._in_order(tried):
            if not self._worth_it(staged):
                continue
            proof = self._prove(staged)
            if proof.accepted:
                return Choice(staged, proof.verification, tuple(tried), latency=proof.latency)
            tried.append(_alternative(staged, f"refused: {proof.verification.reason}"))
            failed = failed or proof.verification
            failed_exact = failed_exact or (staged.candidate.exact and proof.verification.status == "failed")
            if proof.verification.status == "not_run":
                break  # no other candidate can be verified either
        return Choice(None, failed or NOT_RUN, tuple(tried), failed_exact)

    @cached_property
    def methods(self) -> tuple[MethodChoice, ...]:
        """Those of the rule. Where they were run already, only what says where bytes are kept: a model
        may have been stored otherwise since, and still be the same model."""
        chosen = self.job.rule.methods
        moving = tuple(choice for choice in chosen if method(choice.name).gains == "layout")
        return moving if self.lineage.current else chosen

    @cached_property
    def prover(self) -> Prover | None:
        """Loaded with all it needs when it is first asked for; None where nothing is to be verified."""
        if self.runner is None:
            return None
        from onnx_ci.prove import Prover

        return Prover(self.job.rule, self.model, self.runner, self.scratch, home=self.job.home)

    def _prove(self, staged: Staged) -> Proof:
        if self.prover is None:
            reason = "verification was turned off"
            return Proof(accepted=True, verification=Verification(status="not_run", reason=reason))
        self.say(f"verifying {', '.join(staged.candidate.names)}")
        made = staged.candidate
        return self.prover.prove(staged.path, staged.model, bitwise=made.bitwise, changes=made.changes)

    def _in_order(self, tried: list[Alternative]) -> Iterator[Staged]:
        """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""
        mode = self.job.rule.mode
        found = candidates(
            self.model,
            self.methods,
            size=self.size,
            exact_only=mode == "exact-only" or self.lineage.lossy,
            feeds=self.prover.feeds if self.prover else no_feeds,
        )
        if mode == "smallest":
            yield from map(self._stage, sorted(found, key=lambda candidate: candidate.size))
            return
        exact: Staged | None = None
        fits_as_it_is = not over_limits(self.before, self.limits)
        for staged in map(self._stage, found):
            if staged.candidate.exact:
                exact = staged
                if fits_as_it_is or not over_limits(staged.measure, self.limits):
                    break
            elif fits_as_it_is:
                return
            elif over_limits(staged.measure, self.limits):
                tried.append(_alternative(staged, "too large"))
            else:
                yield staged
        if exact is not None:
            yield exact

    def _stage(self, candidate: Candidate) -> Staged:
        """Write the candidate, receipt included, into the scratch folder and measure it there."""
        self.say(f"trying {', '.join(candidate.names)}")
        model = candidate.model.copy()
        digest = stamp(model, candidate.runs, self.lineage, self.before, verified=self.runner is not None)
        if self.runner is None and not self.job.compressed:
            # Nothing will be run or compressed, so no scratch copy is needed either.
            found = Measure(size=lay_out(model).size, params=parameters(model.proto))
            return Staged(candidate, model, digest, self.scratch, found)
        self.count += 1
        path = self.scratch / f"candidate-{self.count}" / "model.onnx"
        path.parent.mkdir()
        write_model(model, path)
        found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=self.job.compressed)
        return Staged(candidate, model, digest, path, found)

    def _worth_it(self, staged: Staged) -> bool:
        if staged.candidate.moved and staged.candidate.exact:
            return True  # where bytes are kept is what was asked for
        if staged.measure.size >= self.size:
            return False
        saved = 1 - staged.measure.size / self.size
        helps = over_limits(self.before, self.limits) and not over_limits(staged.measure, self.limits)
        return bool(helps) or saved >= self.job.rule.minimum_gain


def _alternative(staged: Staged, verdict: str) -> Alternative:
    return Alternative(methods=staged.candidate.names, size=staged.measure.size, verdict=verdict)
