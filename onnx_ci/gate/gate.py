"""The work on one open model: candidates are tried in the order the rule wants, until one is proven."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.gate.attempts import Attempts, Workbench, alternative
from onnx_ci.gate.candidates import Choice, Job, Staged
from onnx_ci.gate.decide import Facts, decide, over_limits
from onnx_ci.methods.catalogue import method
from onnx_ci.model.load import opened_files, read_skeleton
from onnx_ci.model.measure import by_name, files_of, largest_tensors
from onnx_ci.model.model import Model, display_path
from onnx_ci.model.replace import left_behind, other_users, sharers
from onnx_ci.model.store import combined_sha256, file_sha256
from onnx_ci.policy.load import override_for
from onnx_ci.policy.schema import MethodChoice, Override
from onnx_ci.results import (
    NOT_RUN,
    Alternative,
    Finding,
    Measure,
    OpCount,
    OriginalState,
    Outcome,
    Planned,
    Proof,
    Severity,
    Step,
    Verdict,
    Verification,
)
from onnx_ci.util.advice import GIVE_SAMPLES
from onnx_ci.util.sizes import format_percent
from onnx_ci.util.text import shell_word

LEAVE_OUT = "leave the method out for this model, or report the failure to the library it comes from"

FUSIONS_HINT = (
    "its outputs hold, it may only be slower: `onnx-ci compare` times it, budget: {latency: 110%} bounds it;"
    " or leave the method out"
)


def about_sharers(job: Job, sharers: Sequence[Path]) -> Iterator[Finding]:
    """Models that have a data file in common with this one."""
    if sharers:
        others = ", ".join(display_path(path) for path in sharers[:3])
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{job.name}: has a data file in common with {others}, so it is left as it is:"
            " shrunk alone it would need data of its own",
        )


def about_failures(job: Job, steps: Iterable[Step]) -> Iterator[Finding]:
    """Libraries that broke down on the model; the other methods went on without them."""
    for step in steps:
        if step.failed:
            message = f"{job.name}: {step.note}"
            yield Finding(code="OCI022", severity="warning", message=message, hint=LEAVE_OUT)


def about_unseen(job: Job, plan: Planned | None) -> Iterator[Finding]:
    """Weights that nothing vouches for are not rounded; that is no fault, but it costs bytes."""
    if plan is not None and plan.unseen:
        count = len(plan.unseen)
        names = ", ".join(plan.unseen[:2]) + (", …" if count > 2 else "")
        yield Finding(
            code="OCI005",
            severity="note",
            message=f"{job.name}: {count} tensor{'s'[: count != 1]} left as they are, since no output moves"
            f" whatever is done to them: {names}",
            hint="give inputs that reach them: " + GIVE_SAMPLES,
        )


def about_dims(job: Job, model: Model) -> Iterator[Finding]:
    """Names that mean nothing here. A rule for many models may name what only some of them have."""
    if not job.rule.inputs.dims:
        return
    from onnx_ci.inputs.graph import unknown_dims

    wrong = unknown_dims(model.proto, job.rule.inputs.dims)
    if wrong:
        alone = job.rule.pattern.lstrip("/") == job.matched
        yield Finding(
            code="OCI005",
            severity="warning" if alone else "note",
            message=f"{job.name}: inputs.dims of its rule: {wrong}",
            hint="correct the name, or leave it out" if alone else "",
        )


def about_left_behind(job: Job, original: Model, written: Path) -> Iterator[Finding]:
    """Files that are not called after the model are never touched; say so, and how to be rid of them."""
    names = left_behind(original, written) if original.path.resolve() == written else []
    if names:
        files = " ".join(shell_word(name) for name in names)
        users = [user for name in names for user in other_users(written.parent / name, written, job.root)]
        why = (
            f"it stays, for {display_path(users[0])} can't be read and may need it"
            if users
            else "onnx-ci removes only data files that are called after their model"
        )
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{job.name}: no longer needs {', '.join(names)}; {why}",
            hint=f"if nothing else needs it, in {display_path(written.parent)}: git rm {files}",
        )


def about_fusions(name: str, verification: Verification) -> Iterator[Finding]:
    """At most one finding for a model: lost fusions first, then work that is done at every run."""
    found = verification.optimized
    if found is None:
        return
    parts = []
    if found.lost or found.instead:
        parts.append(
            f"onnxruntime fuses less of it than of its original ({found.nodes_before} nodes before,"
            f" {found.nodes_after} after): {_counts([*found.lost, *found.instead])}"
        )
    if found.repeated:
        parts.append(
            f"stored tensors are computed anew at every run instead of once"
            f" ({found.repeated_values:,} values): {_counts(found.repeated)}"
        )
    if parts:
        severity: Severity = "warning" if found.lost or found.instead else "note"
        message = f"{name}: {'; '.join(parts)}"
        yield Finding(code="OCI030", severity=severity, message=message, hint=FUSIONS_HINT)


def _counts(counts: Sequence[OpCount]) -> str:
    return ", ".join(f"{one.op} {one.before} to {one.after}" for one in counts)


RAN_OUT = "OCI013"  # what a machine under load, or with less memory, may do otherwise


class Gate(Workbench):
    """The work on one open model."""

    def run(self, outcome: Outcome) -> Outcome:
        choice = self.choose()
        facts = Facts(
            name=self.job.name,
            call=self.job.call,
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
            largest=largest_tensors(choice.staged.model if choice.staged else self.model),
            override=self.override,
            stale=choice.stale,
            as_it_is=choice.as_it_is,
        )
        verdict, findings = decide(facts)
        if self.override is None and self.runner is not None:
            from onnx_ci.gate.load_check import load_check

            verdict, running = load_check(self, choice.verification, verdict)
            findings = (*findings, *running)
        done = replace(
            outcome,
            verdict=verdict,
            before=self.before,
            after=facts.after,
            steps=choice.staged.candidate.steps if choice.staged else tuple(self.idle.values()),
            verification=choice.verification,
            findings=(
                *self.about_lineage(verdict),
                *about_sharers(self.job, self.sharers),
                *about_failures(self.job, self.idle.values()),
                *about_dims(self.job, self.model),
                *about_unseen(self.job, choice.plan),
                *about_fusions(self.job.name, choice.verification),
                *findings,
            ),
            alternatives=choice.alternatives,
            plan=choice.plan,
            latency=choice.latency,
            original=self.original,
        )
        return self._write(choice, done)

    def about_lineage(self, verdict: Verdict) -> tuple[Finding, ...]:
        return self.lineage.findings(self.job.name, over=verdict == "over_budget")

    def _write(self, choice: Choice, outcome: Outcome) -> Outcome:
        if self.job.write is None or choice.staged is None:
            return outcome
        if self.job.strict and any(finding.severity == "error" for finding in outcome.findings):
            return replace(outcome, after=None)
        self.say("writing")
        try:
            original = self.kept(choice.staged)
            written = self.job.write(choice.staged.model, self.model, choice.staged.digest)
        except ModelError as error:
            finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
            return replace(outcome, findings=(*outcome.findings, finding), after=None, verdict="would_shrink")
        findings = (*outcome.findings, *about_left_behind(self.job, self.model, written))
        after = self._as_written(choice.staged, written)
        return replace(outcome, after=after, written=True, findings=findings, original=original)

    def kept(self, staged: Staged) -> OriginalState | None:
        """Where the original is, once the model is replaced. What is the same bit for bit is not lost, and
        what was rounded before is none."""
        if self.job.keep is None or staged.candidate.bitwise or self.lineage.lossy:
            return self.original
        return self.job.keep(files_of(self.job.path, self.model.proto))

    def _as_written(self, staged: Staged, written: Path) -> Measure:
        """Data files got their names when they were written, and the model has these names in it."""
        after, named = staged.measure, opened_files(staged.model)
        files = files_of(written, read_skeleton(written)) if named else [written]
        if named:
            after = replace(after, size=sum(file.stat().st_size for file in files))
        if self.job.identify and (named or not after.sha256):
            digests = {name: file_sha256(file) for name, file in by_name(files).items()}
            after = replace(after, sha256=combined_sha256(digests))
        return after

    @cached_property
    def sharers(self) -> list[Path]:
        """Models that have a data file in common with this one: shrinking one would store it twice."""
        return [] if self.job.elsewhere else sharers(self.model, self.job.root)

    @cached_property
    def override(self) -> Override | None:
        """What accepts this very content as it is: then it is neither judged nor changed."""
        policy = self.job.policy
        if policy is None or not policy.overrides:
            return None
        return override_for(policy, self.job.matched, self.before.sha256, date.today())

    @property
    def hands_off(self) -> bool:
        """Whether nothing is to be done to the model, whatever could be."""
        return not self.methods or self.override is not None or bool(self.sharers)

    def choose(self) -> Choice:
        """What an earlier run chose for the same content, or what comes of trying."""
        if self.hands_off:
            return Choice(None, NOT_RUN, ())
        if self.runner is None or not self.job.cache:
            return self._choose()
        from onnx_ci.gate.cache import memory

        content = self.before.sha256 + (" without its receipt" if self.lineage.foreign else "")
        kept = memory(self.job, self.model, self.hashing, content, self.aims, self.scratch)
        known = kept.recall()
        if known is None:
            choice = self._choose()
            kept.keep(choice, tuple(self.idle.values()), by_chance=self.by_chance)
            return choice
        choice, idle = known
        self.idle = {(step.method, step.note): step for step in idle}
        return choice

    def _choose(self) -> Choice:
        """Try candidates in the order the rule wants until one is proven."""
        choice = self._try(self.methods)
        own = [one for one in self.methods if method(one.name).fidelity != "exact*"]
        if choice.staged is None and choice.misled and len(own) < len(self.methods):
            again = self._try(own)
            tried = (*choice.alternatives, *again.alternatives)
            choice = replace(again if again.staged else choice, alternatives=tried)
        return choice

    def _try(self, methods: Sequence[MethodChoice]) -> Choice:
        tried: list[Alternative] = []
        failed: Verification | None = None
        failed_exact = misled = False
        idle = NOT_RUN
        for staged in Attempts(self).in_order(methods, tried):
            if not self.worth_it(staged):
                idle = self._not_worth(staged)
                continue
            staged, proof = self._proven(staged, tried)
            if proof.accepted:
                plan = staged.candidate.planned or self.plan
                return Choice(staged, proof.verification, tuple(tried), latency=proof.latency, plan=plan)
            tried.append(alternative(staged, f"refused: {proof.verification.reason}"))
            failed = failed or proof.verification
            if proof.verification.status == "not_run" and not _unseen(proof):
                break  # no other candidate can be verified either
            failed_exact = failed_exact or staged.candidate.bitwise
            misled = misled or (staged.candidate.exact and not staged.candidate.bitwise)
        return Choice(None, failed or idle, tuple(tried), failed_exact, misled, plan=self.plan)

    def _not_worth(self, staged: Staged) -> Verification:
        """Nothing was run, and why: a small model gains less than the receipt of it takes."""
        made, size = f"with {', '.join(staged.candidate.names)}", staged.measure.size
        told = f"{made} it would be {size:,} bytes, its receipt included, instead of {self.size:,}"
        if 0 < self.size - size < self.size * self.job.rule.minimum_gain:
            told += f"; savings under {format_percent(self.job.rule.minimum_gain)} are left alone"
        return replace(NOT_RUN, reason=f"{NOT_RUN.reason}: {told}")

    @cached_property
    def methods(self) -> tuple[MethodChoice, ...]:
        """Those of the rule. Where they were run already, only what says where bytes are kept: a model
        may have been stored otherwise since, and still be the same model."""
        chosen = self.job.rule.methods
        moving = tuple(choice for choice in chosen if method(choice.name).gains == "layout")
        return moving if self.lineage.current else chosen

    def _proven(self, staged: Staged, tried: list[Alternative]) -> tuple[Staged, Proof]:
        """The proof of a candidate, or of the same without the tensors that nothing vouches for."""
        proof, again = self._prove(staged), staged.candidate.again
        if not _unseen(proof) or again is None:
            return staged, proof
        spared = self.stage(again(_unseen(proof)))
        worse = over_limits(spared.measure, self.limits).keys() - over_limits(staged.measure, self.limits)
        if not spared.candidate.gained or worse or not self.worth_it(spared):
            return staged, proof
        other = self._prove(spared)
        if not other.accepted:
            return staged, proof
        tried.append(alternative(staged, f"refused: {proof.verification.reason}"))
        return spared, other

    def _prove(self, staged: Staged) -> Proof:
        if self.prover is None:
            reason = "verification was turned off"
            return Proof(accepted=True, verification=Verification(status="not_run", reason=reason))
        self.say(f"verifying {', '.join(staged.candidate.names)}")
        from onnx_ci.verify.prove import Submission

        made = staged.candidate
        proof = self.prover.prove(
            Submission(
                path=staged.path,
                model=staged.model,
                changes=made.changes,
                bitwise=made.bitwise,
                rounded=made.rounded,
            )
        )
        coverage = proof.verification.coverage
        self.by_chance |= proof.verification.code == RAN_OUT or bool(coverage and coverage.hurried)
        return proof

    def worth_it(self, staged: Staged) -> bool:
        if staged.candidate.moved and staged.candidate.exact:
            return True  # where bytes are kept is what was asked for
        before, after = over_limits(self.before, self.limits), over_limits(staged.measure, self.limits)
        if after.keys() - before.keys():
            return False  # paid for with a limit that was kept until now
        saved = 1 - staged.measure.size / self.size
        if staged.candidate.for_compression and staged.candidate.size <= self.size:
            # The receipt alone may make such a file larger; what is worth it shows when it is compressed.
            saved = 1 - self.compressed(staged.measure) / self.compressed(self.before)
        if saved <= 0:
            return False
        return bool(before and not after) or saved >= self.job.rule.minimum_gain


def _unseen(proof: Proof) -> tuple[str, ...]:
    """The changed tensors that a proof does not speak for."""
    coverage = proof.verification.coverage
    return (*coverage.unseen, *coverage.blind) if coverage else ()
