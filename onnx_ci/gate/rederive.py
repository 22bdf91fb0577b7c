"""A model that was rounded under another rule: what this rule makes of its original, where that is found."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_ci.errors import ModelError
from onnx_ci.gate.candidates import Choice, Held, Staged
from onnx_ci.gate.decide import over_limits
from onnx_ci.gate.gate import RAN_OUT, Gate
from onnx_ci.methods.catalogue import METHODS, method
from onnx_ci.model.load import open_model, read_skeleton
from onnx_ci.model.measure import files_of
from onnx_ci.model.receipt import Receipt
from onnx_ci.model.save import write_model
from onnx_ci.model.store import BackgroundHash
from onnx_ci.repo.original import Original, find_original
from onnx_ci.results import NOT_RUN, Finding, OriginalState, Outcome, Proof, Severity, Verdict, Verification
from onnx_ci.util.sizes import format_size

if TYPE_CHECKING:
    from onnx_ci.gate.cache import Memory


class AnewGate(Gate):
    """Works on a model as it is, unless only its original can give what the rule asks for.

    The original goes through a gate of its own, so what comes out is what it would have become under
    this rule, byte for byte. Here it is weighed against the model that is there: a model may become larger
    only where its rule forbids it to stay as it is.
    """

    def run(self, outcome: Outcome) -> Outcome:
        self.missing = ""  # why there is no original
        self.notes: tuple[Finding, ...] | None = None  # what to say where there is one
        self.derived_from: Original | None = None
        with ExitStack() as self.opened:
            return super().run(outcome)

    def about_lineage(self, verdict: Verdict) -> tuple[Finding, ...]:
        if self.notes is not None:
            return self.notes
        receipt = self.lineage.outdated
        return self.lineage.findings(
            self.job.name,
            over=verdict == "over_budget",
            missing=self.missing,
            forbidden=self._forbidden(receipt) if receipt and self.missing and self._exact_only else "",
        )

    def choose(self) -> Choice:
        receipt = self.lineage.receipt
        if receipt is None or not self.job.rule.methods or self.override is not None or self.sharers:
            return super().choose()
        if self.lineage.current:
            return self._vouched_for(receipt) if self.job.changed() else super().choose()
        return self._derived_anew(receipt) if receipt.lossy else super().choose()

    def _derived_anew(self, receipt: Receipt) -> Choice:
        """What the rule makes of the original, if the model is a form of it."""
        source = self._source(receipt)
        if source is None:
            return super().choose()
        found, gate = source
        held = self._known(receipt) or self._held(gate, receipt, found)
        if not held.same:
            return self._as_a_new_source(receipt, held)
        self.idle = gate.idle
        return self._weighed(gate.choose(), receipt, found, held.proof.verification)

    def _vouched_for(self, receipt: Receipt) -> Choice:
        """A model that changed and has a receipt of this very rule: anyone can write that, so the model is
        run against its original, as it was when it was shrunk."""
        held = self._known(receipt)
        if held is None:
            source = self._source(receipt)
            if source is None:
                return self._without_original(receipt)
            held = self._held(source[1], receipt, source[0])
        if not held.same and held.proof.verification.status == "failed":
            return self._as_a_new_source(receipt, held)
        self.original = replace(held.original, verified=held.proof.accepted)
        found, latency = held.proof.verification, held.proof.latency
        if held.proof.accepted:
            choice = super().choose()
            return choice if choice.staged else replace(choice, verification=found, latency=latency)
        if found.status == "failed":
            hint = (
                f"derive it anew: onnx-ci restore --original {self.job.call} && onnx-ci fix {self.job.call}"
            )
            found = replace(found, reason=f"against its original: {found.reason}", hint=hint)
        return Choice(None, found, (), failed_exact=True, latency=latency, as_it_is=True)

    def _without_original(self, receipt: Receipt) -> Choice:
        """What was rounded must not be rounded again, so there is nothing but the receipt's word. Anything
        else can be judged as a model that has none."""
        self.original = OriginalState(sha256=receipt.source_sha256)
        if not receipt.lossy:
            self.lineage = self.lineage.disowned
            return super().choose()
        finding = Finding(
            code="OCI050",
            severity="warning",
            message=f"{self.job.name}: shrunk with {', '.join(receipt.names)} by its receipt's word alone:"
            f" its original {self.missing}",
            hint="commit the original before the model that was made from it, or fetch what has it",
        )
        self.notes = (finding,)
        return super().choose()

    def _as_a_new_source(self, receipt: Receipt, held: Held) -> Choice:
        """The receipt names something else: the model is judged as if it had none."""
        self.lineage = self.lineage.disowned
        finding = Finding(
            code="OCI049",
            severity="warning",
            message=f"{self.job.name}: is not what its receipt says it was made from (sha256"
            f" {receipt.source_sha256[:12]}…): {held.proof.verification.reason}; it is a new source",
            hint=f"to see both: onnx-ci restore --original {self.job.call} other.onnx &&"
            f" onnx-ci compare other.onnx {self.job.call}",
        )
        self.notes = (finding,)
        return super().choose()

    def _source(self, receipt: Receipt) -> tuple[Original, Gate] | None:
        """The original, and a gate for it; or `missing` says why there is none."""
        found = self._look_for(receipt)
        if found is None:
            return None
        try:
            return found, self._gate_of(found)
        except ModelError:
            self.missing = "was found, but can't be read any more"
            return None

    def _memory(self, receipt: Receipt) -> Memory | None:
        if not self.job.cache or self.runner is None:
            return None
        from onnx_ci.gate.cache import memory

        content = f"{self.before.sha256} made from {receipt.source_sha256}"
        return memory(self.job, self.model, self.hashing, content, {}, self.scratch)

    def _known(self, receipt: Receipt) -> Held | None:
        kept = self._memory(receipt)
        return kept.recall_held() if kept else None

    def _held(self, source: Gate, receipt: Receipt, found: Original) -> Held:
        """The model that is there against its original, under the rule of today."""
        if source.prover is None:
            return Held(Proof(accepted=False, verification=NOT_RUN), True, found.state)
        from onnx_ci.verify.prove import Submission

        self.say("verifying what is there")
        path = self.scratch / "there" / "model.onnx"
        path.parent.mkdir()
        write_model(self.model, path)
        changes = [topic for m in METHODS if m.name in receipt.names for topic in m.changes]
        # Not tensor by tensor: which of them exact methods left out for good reason, only the run that made
        # it knew.
        there = Submission(path=path, model=self.model, changes=changes, each=False)
        proof = source.prover.prove(there)
        found_out = proof.verification
        # Too slow, or a worse score: outputs held before that was asked.
        same = proof.accepted or found_out.code in ("OCI010", "OCI016")
        same = same or (found_out.status == "failed" and source.prover.resembles(there))
        held = Held(proof, same, found.state)
        kept = self._memory(receipt)
        if kept and found_out.code != RAN_OUT:
            kept.keep_held(held)
        return held

    def _look_for(self, receipt: Receipt) -> Original | None:
        if self.job.repository is None and self.job.insists:
            return None  # a single model, without a policy: nobody spoke of a repository
        self.say("looking for its original")
        found = find_original(
            receipt, self.job.known_as or self.job.path, self.job.repository, self.scratch / "original"
        )
        if isinstance(found, Original):
            return found
        self.missing = found
        return None

    def _gate_of(self, found: Original) -> Gate:
        """What is to be made of the original, as if it were there instead; nothing is written."""
        folder = found.path.parent
        job = replace(self.job, path=found.path, root=folder, policy=None, write=None, hashing=None)
        original = self.opened.enter_context(open_model(found.path, root=folder))
        scratch = self.scratch / "anew"
        scratch.mkdir()
        return Gate(job, original, BackgroundHash(found.path), scratch, self.say, self.runner)

    def _weighed(self, choice: Choice, receipt: Receipt, found: Original, kept: Verification) -> Choice:
        staged = choice.staged
        self.notes = ()
        if staged is not None and staged.digest == receipt.digest:
            return super().choose()  # the same model; it may still have to be stored otherwise
        if staged is not None and self.worth_it(staged):
            self.notes = (self._derived(receipt),)
            self.derived_from = found
            return choice
        why = self._forbidden(receipt) or (kept.reason if kept.status == "failed" else "")
        if not why:
            self.notes = (self._stays(receipt, staged, found),)
            self.original = replace(found.state, verified=kept.status == "passed")
            return Choice(None, kept if kept.status == "passed" else NOT_RUN, choice.alternatives)
        if staged is not None and self._may_take_its_place(staged):
            self.derived_from = found
            self.notes = (self._derived(receipt),) if self.job.write else ()
            return replace(choice, stale=self._to_be_replaced(why, staged))
        stale = self._to_be_restored(why, staged, found)
        return replace(choice, staged=None, verification=kept, stale=stale)

    def kept(self, staged: Staged) -> OriginalState | None:
        found = self.derived_from
        if found is None or self.job.keep is None:
            return super().kept(staged)
        if found.state.place != "objects":
            return found.state
        return self.job.keep(files_of(found.path, read_skeleton(found.path)))  # nothing may hold it yet

    def _may_take_its_place(self, staged: Staged) -> bool:
        """A larger model has to keep every limit; one that is no larger must not break others."""
        over = over_limits(staged.measure, self.limits)
        if staged.measure.size > self.before.size:
            return not over
        return over.keys() <= over_limits(self.before, self.limits).keys()

    @property
    def _exact_only(self) -> bool:
        """Whether no loss is allowed at all: then a rounded model must not pass for want of its original."""
        rule = self.job.rule
        return rule.mode == "exact-only" or all(method(choice.name).exact for choice in rule.methods)

    def _forbidden(self, receipt: Receipt) -> str:
        """The methods that rounded it, where the rule does not allow them (any more)."""
        rule = self.job.rule
        allowed = set() if rule.mode == "exact-only" else {choice.name for choice in rule.methods}
        exact = {method.name for method in METHODS if method.exact}
        lost = [name for name in receipt.names if name not in exact | allowed]
        return f"its rule does not allow {', '.join(dict.fromkeys(lost))}" if lost else ""

    def _derived(self, receipt: Receipt) -> Finding:
        return self._finding("note", f"{_shrunk(receipt)}; derived anew from its original")

    def _stays(self, receipt: Receipt, staged: Staged | None, found: Original) -> Finding:
        """It keeps the rule of today, so it stays, though that would make something else of its original."""
        other = f"would be {_form(staged)}" if staged else "would stay as it was"
        return self._finding(
            "note",
            f"{_shrunk(receipt)}, and keeps this one; under it the original {other}",
            f"to have that instead: {found.restore}{self._then_fix(staged)}",
        )

    def _to_be_replaced(self, why: str, staged: Staged) -> Finding:
        size = format_size(self.before.size)
        message = f"{why}; derived anew from its original it is {_form(staged)}, instead of {size}"
        return self._finding("error", message, f"run: onnx-ci fix {self.job.call}")

    def _to_be_restored(self, why: str, staged: Staged | None, found: Original) -> Finding:
        """Nothing is put in its place: it would be over its budget, or there is nothing but the original."""
        size = format_size(self.before.size)
        other = (
            f"derived anew from its original it would be {_form(staged)}, which breaks its budget"
            if staged
            else "under this rule its original stays as it was"
        )
        return self._finding(
            "error",
            f"{why}; {other}, so it is left as it is ({size})",
            f"change the rule, or put the original back: {found.restore}{self._then_fix(staged)}",
        )

    def _then_fix(self, staged: Staged | None) -> str:
        return f" && onnx-ci fix {self.job.call}" if staged else ""

    def _finding(self, severity: Severity, message: str, hint: str = "") -> Finding:
        message = f"{self.job.name}: {message}"
        return Finding(code="OCI011", severity=severity, message=message, hint=hint)


def _shrunk(receipt: Receipt) -> str:
    return f"was shrunk with {', '.join(receipt.names)} under another rule"


def _form(staged: Staged) -> str:
    return f"{format_size(staged.measure.size)} with {', '.join(staged.candidate.names)}"
