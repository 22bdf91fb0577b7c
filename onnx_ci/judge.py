"""One model through the gate: candidates are made and proven, one is chosen, judged and put in place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from onnx_ci.decide import Facts, decide, limits_of, over_limits
from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.lineage import lineage, stamp
from onnx_ci.model.container import Model
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.model.load import open_model
from onnx_ci.model.measure import measure
from onnx_ci.model.replace import replace_model
from onnx_ci.model.save import write_model
from onnx_ci.plan import Candidate, candidates
from onnx_ci.policy.match import override_for
from onnx_ci.policy.schema import Override, Policy, Rule
from onnx_ci.prove import Prover
from onnx_ci.results import NOT_RUN, Alternative, Latency, Measure, Outcome, Verification
from onnx_ci.verify.client import Runner

Say = Callable[[str], None]
Write = Callable[[Model, Model], None]  # candidate and original, to where it belongs


@dataclass(frozen=True, kw_only=True)
class Job:
    """One model and all that is asked of it. `write` puts a proven candidate in place; None only looks."""

    path: Path
    name: str
    rule: Rule
    root: Path
    policy: Policy | None = None
    write: Write | None = None
    verify: bool = True
    insists: bool = False
    base_size: int | None = None
    digest: BackgroundHash | None = None

    @property
    def compressed(self) -> list[str]:
        return [name for name in self.rule.budget.size_like if name != "size"]


@dataclass(frozen=True)
class Staged:
    """A candidate as files in a scratch folder, measured: exactly what would be put in place."""

    candidate: Candidate
    model: Model
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
    return lambda candidate, original: replace_model(candidate, original, root=root)


def judge(job: Job, runner: Runner, say: Say = lambda _: None) -> Outcome:
    """The outcome for one model. A model that can't be handled is an outcome too, never an exception."""
    outcome = Outcome(
        path=job.name, verdict="unreadable", rule_pattern=job.rule.pattern, rule_line=job.rule.line
    )
    try:
        digest = job.digest or BackgroundHash(job.path)
        with open_model(job.path, root=job.root) as model, tempfile.TemporaryDirectory() as scratch:
            gate = Gate(job, model, digest, Path(scratch), say)
            outcome = replace(outcome, before=gate.before)
            return gate.run(outcome, runner)
    except ModelError as error:
        finding = Finding(code=error.code, severity=job.rule.severity, message=error.message, hint=error.hint)
        return replace(outcome, findings=(finding,))


class Gate:
    """The work on one open model."""

    def __init__(self, job: Job, model: Model, digest: BackgroundHash, scratch: Path, say: Say) -> None:
        self.job = job
        self.model = model
        self.scratch = scratch
        self.say = say
        say("measuring")
        self.before = measure(job.path, model.proto, digest=digest, compressed=job.compressed)
        self.limits = limits_of(job.rule, job.base_size)
        self.lineage = lineage(model, job.rule, self.before)
        self.count = 0

    def run(self, outcome: Outcome, runner: Runner) -> Outcome:
        choice = self.choose(runner)
        facts = Facts(
            name=self.job.name,
            rule=self.job.rule,
            policy_file=self.job.policy.file if self.job.policy else "",
            before=self.before,
            after=choice.staged.measure if choice.staged else None,
            methods=choice.staged.candidate.names if choice.staged else (),
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
            self.job.write(choice.staged.model, self.model)
        except ModelError as error:
            finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
            return replace(outcome, findings=(*outcome.findings, finding), after=None, verdict="would_shrink")
        return replace(outcome, written=True)

    def _override(self) -> Override | None:
        policy = self.job.policy
        return override_for(policy, self.job.name, self.before.sha256, date.today()) if policy else None

    def choose(self, runner: Runner) -> Choice:
        """Try candidates in the order the rule wants until one is proven."""
        if self.lineage.current:
            return Choice(None, NOT_RUN, ())
        prover = Prover(
            self.job.rule, self.model, runner, self.scratch, root=self.job.root, enabled=self.job.verify
        )
        tried: list[Alternative] = []
        failed: Verification | None = None
        failed_exact = False
        for staged in self._in_order(tried):
            if not self._worth_it(staged):
                continue
            self.say(f"verifying {', '.join(staged.candidate.names)}")
            proof = prover.prove(staged.path, staged.model, exact=staged.candidate.exact)
            if proof.accepted:
                return Choice(staged, proof.verification, tuple(tried), latency=proof.latency)
            tried.append(_alternative(staged, f"refused: {proof.verification.reason}"))
            failed = failed or proof.verification
            failed_exact = failed_exact or (staged.candidate.exact and proof.verification.status == "failed")
            if proof.verification.status == "not_run":
                break  # no other candidate can be verified either
        return Choice(None, failed or NOT_RUN, tuple(tried), failed_exact)

    def _in_order(self, tried: list[Alternative]) -> Iterator[Staged]:
        """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""
        mode = self.job.rule.mode
        found = candidates(
            self.model,
            self.job.rule.methods,
            size=self.before.size,
            exact_only=mode == "exact-only" or self.lineage.lossy,
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
        stamp(model, candidate.runs, self.lineage, verified=self.job.verify)
        self.count += 1
        path = self.scratch / f"candidate-{self.count}" / "model.onnx"
        path.parent.mkdir()
        write_model(model, path)
        return Staged(candidate, model, path, measure(path, model.proto, compressed=self.job.compressed))

    def _worth_it(self, staged: Staged) -> bool:
        if staged.measure.size >= self.before.size:
            return False
        saved = 1 - staged.measure.size / self.before.size
        helps = over_limits(self.before, self.limits) and not over_limits(staged.measure, self.limits)
        return bool(helps) or saved >= self.job.rule.minimum_gain


def _alternative(staged: Staged, verdict: str) -> Alternative:
    return Alternative(methods=staged.candidate.names, size=staged.measure.size, verdict=verdict)
