"""The work on one open model: candidates are tried in the order the rule wants, until one is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from pathlib import Path

from onnx_ci.attempts import Attempts, alternative
from onnx_ci.decide import Facts, decide, over_limits
from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.job import Choice, Staged
from onnx_ci.methods.catalogue import method
from onnx_ci.model.external import opened_files
from onnx_ci.model.hashing import combined_sha256, file_sha256
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.measure import by_name, files_of, largest_tensors
from onnx_ci.model.ownership import sharers
from onnx_ci.policy.match import override_for
from onnx_ci.policy.schema import MethodChoice, Override
from onnx_ci.remarks import (
    about_dims,
    about_failures,
    about_fusions,
    about_left_behind,
    about_sharers,
    about_unseen,
)
from onnx_ci.results import Alternative, Measure, OriginalState, Outcome
from onnx_ci.shown import NOT_RUN, Proof, Verification
from onnx_ci.sizes import format_percent
from onnx_ci.workbench import Workbench

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
            from onnx_ci.load_check import load_check

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

    def about_lineage(self, verdict: str) -> tuple[Finding, ...]:
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
        from onnx_ci.cache.choices import memory

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
