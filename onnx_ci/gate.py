"""The work on one open model: candidates are tried in the order the rule wants, until one is proven."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.decide import Facts, decide, limits_of, over_limits
from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.lineage import lineage, stamp
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import no_feeds
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.hashing import BackgroundHash, file_sha256
from onnx_ci.model.layout import lay_out
from onnx_ci.model.measure import files_of, measure, parameters
from onnx_ci.model.ownership import sharers
from onnx_ci.model.replace import left_behind
from onnx_ci.model.save import write_model
from onnx_ci.plan import Candidate, candidates
from onnx_ci.policy.match import override_for
from onnx_ci.policy.schema import MethodChoice, Override
from onnx_ci.results import NOT_RUN, Alternative, Measure, Outcome, Proof, Step, Verification

if TYPE_CHECKING:
    from onnx_ci.prove import Prover
    from onnx_ci.verify.client import Runner
from onnx_ci.job import Choice, Job, Say, Staged

LEAVE_OUT = "leave the method out for this model, or report the failure to the library it comes from"


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
        self.idle: dict[tuple[str, str], Step] = {}  # methods that gained nothing, and why

    @cached_property
    def before(self) -> Measure:
        """Asked for late: until then the file is hashed while other work goes on."""
        self.say("measuring")
        return measure(self.job.path, self.model.proto, hashing=self.hashing, compressed=self.job.compressed)

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
            override=self.override,
        )
        verdict, findings = decide(facts)
        done = replace(
            outcome,
            verdict=verdict,
            before=self.before,
            after=facts.after,
            steps=choice.staged.candidate.steps if choice.staged else tuple(self.idle.values()),
            verification=choice.verification,
            findings=(
                *self.lineage.findings(self.job.name, over=verdict == "over_budget"),
                *self._about_sharers(),
                *self._failures(),
                *findings,
            ),
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
        after = choice.staged.measure
        if self.job.identify and not after.sha256:
            after = replace(after, sha256=file_sha256(written))
        findings = (*outcome.findings, *_left_behind(self.job, self.model, written))
        return replace(outcome, after=after, written=True, findings=findings)

    @cached_property
    def sharers(self) -> list[Path]:
        """Models that have a data file in common with this one: shrinking one would store it twice."""
        return sharers(self.model, self.job.root)

    def _about_sharers(self) -> tuple[Finding, ...]:
        if not self.sharers:
            return ()
        others = ", ".join(display_path(path) for path in self.sharers[:3])
        finding = Finding(
            code="OCI021",
            severity="note",
            message=f"{self.job.name}: has a data file in common with {others}, so it is left as it is:"
            " shrunk alone it would need data of its own",
        )
        return (finding,)

    @cached_property
    def override(self) -> Override | None:
        """What accepts this very content as it is: then it is neither judged nor changed."""
        policy = self.job.policy
        if policy is None or not policy.overrides:
            return None
        return override_for(policy, self.job.matched, self.before.sha256, date.today())

    def _failures(self) -> Iterator[Finding]:
        """Libraries that broke down on the model; the other methods went on without them."""
        for step in self.idle.values():
            if step.failed:
                message = f"{self.job.name}: {step.note}"
                yield Finding(code="OCI022", severity="warning", message=message, hint=LEAVE_OUT)

    def choose(self) -> Choice:
        """Try candidates in the order the rule wants until one is proven."""
        if not self.methods or self.override is not None or self.sharers:
            return Choice(None, NOT_RUN, ())
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
        for staged in self._in_order(methods, tried):
            if not self._worth_it(staged):
                continue
            proof = self._prove(staged)
            if proof.accepted:
                return Choice(staged, proof.verification, tuple(tried), latency=proof.latency)
            tried.append(_alternative(staged, f"refused: {proof.verification.reason}"))
            failed = failed or proof.verification
            if proof.verification.status == "not_run":
                break  # no other candidate can be verified either
            failed_exact = failed_exact or staged.candidate.bitwise
            misled = misled or (staged.candidate.exact and not staged.candidate.bitwise)
        return Choice(None, failed or NOT_RUN, tuple(tried), failed_exact, misled)

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

    def _in_order(self, methods: Sequence[MethodChoice], tried: list[Alternative]) -> Iterator[Staged]:
        """to-budget: the mildest that fits, else the exact one. smallest: the smallest first."""
        mode = self.job.rule.mode
        found = self._gaining(methods, exact_only=mode == "exact-only" or self.lineage.lossy)
        if mode == "smallest":
            yield from self._smallest_first(list(found))
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

    def _feeds(self) -> Sequence[Mapping[str, Any]]:
        """Asked for by methods that calibrate: most need no inputs, and most models need no proof."""
        return self.prover.feeds() if self.prover else no_feeds()

    def _gaining(self, methods: Sequence[MethodChoice], *, exact_only: bool) -> Iterator[Candidate]:
        made = candidates(
            self.model,
            methods,
            size=self.size,
            exact_only=exact_only,
            compressed=bool(self.job.compressed),
            feeds=self._feeds,
        )
        for candidate in made:
            idle = [
                step for step in candidate.steps if not step.tensors and step.size_after == step.size_before
            ]
            self.idle.update({(step.method, step.note): step for step in idle})
            if candidate.gained:
                yield candidate

    def _smallest_first(self, found: list[Candidate]) -> Iterable[Staged]:
        """By size on disk; by compressed size where a candidate was made for that."""
        if not any(candidate.for_compression for candidate in found):
            return map(self._stage, sorted(found, key=lambda candidate: candidate.size))
        return sorted(map(self._stage, found), key=lambda staged: self._compressed(staged.measure))

    def _compressed(self, found: Measure) -> int:
        return sum(getattr(found, name) for name in self.job.compressed)

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
        before, after = over_limits(self.before, self.limits), over_limits(staged.measure, self.limits)
        if after.keys() - before.keys():
            return False  # paid for with a limit that was kept until now
        saved = 1 - staged.measure.size / self.size
        if staged.candidate.for_compression and staged.candidate.size <= self.size:
            # The receipt alone may make such a file larger; what is worth it shows when it is compressed.
            saved = 1 - self._compressed(staged.measure) / self._compressed(self.before)
        if saved <= 0:
            return False
        return bool(before and not after) or saved >= self.job.rule.minimum_gain


def _alternative(staged: Staged, verdict: str) -> Alternative:
    return Alternative(methods=staged.candidate.names, size=staged.measure.size, verdict=verdict)


def _left_behind(job: Job, original: Model, written: Path) -> Iterator[Finding]:
    """Files that are not called after the model are never touched; say so, and how to be rid of them."""
    names = left_behind(original, written) if original.path.resolve() == written else []
    if names:
        files = " ".join(shlex.quote(name) for name in names)
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{job.name}: no longer needs {', '.join(names)}; onnx-ci removes only data files that"
            " are called after their model",
            hint=f"if nothing else needs it, in {display_path(written.parent)}: git rm {files}",
        )
