"""A model that was shrunk before: held against its original, and derived anew from it under another rule."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from onnx_ci.errors import ModelError
from onnx_ci.gate.attempts import RAN_OUT, at_once, choose, worth_it
from onnx_ci.gate.cache import choice_memory
from onnx_ci.gate.candidates import Choice, Held, Staged
from onnx_ci.gate.decide import over_limits
from onnx_ci.gate.lineage import RESTORE_IT, lineage
from onnx_ci.gate.subject import Ledger, Subject
from onnx_ci.methods.catalogue import METHODS, method
from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import KEY, Receipt
from onnx_ci.model.save import write_model
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import Rule
from onnx_ci.repo.original import Original, find_original
from onnx_ci.results import NOT_RUN, Finding, OriginalState, Proof, Verification
from onnx_ci.util.advice import to_run
from onnx_ci.util.sizes import format_size


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is known of where a shrunk model comes from."""

    receipt: Receipt
    missing: str = ""  # why there is no original
    found: Original | None = None
    subject: Subject | None = None  # the original, as if it were there instead; nothing is written
    held: Held | None = None  # None: there was nothing to hold the model against


def source_of(subject: Subject, opened: ExitStack) -> Origin | None:
    """Where the model comes from; None where nothing depends on it. Its original stays open in `opened`.

    Anyone can write a receipt. A model that changed and has one of this very rule is run against its
    original, as it was when it was shrunk; one that was rounded also where there are samples, which may have
    come later. What was rounded under another rule can get what this one asks for from its original only.
    """
    receipt, edited = subject.lineage.receipt, subject.lineage.former
    receipt = receipt or edited
    if receipt is None or not subject.rule.methods or subject.override is not None or subject.sharers:
        return None
    asked = subject.task.changed or (receipt.lossy and bool(subject.rule.inputs.samples))
    if not (asked if subject.lineage.current else edited or receipt.lossy):
        return None
    made_from = f"{subject.before.sha256} made from {receipt.source_sha256}"
    kept = choice_memory(subject, made_from, {}) if subject.remembers else None
    held = kept.recall(Held) if kept else None
    if held is not None and subject.lineage.current:
        return Origin(receipt=receipt, held=held)
    found = _look_for(subject, receipt)
    if isinstance(found, str):
        unasked = subject.lineage.current and not subject.task.changed
        return None if unasked else Origin(receipt=receipt, missing=found)
    try:
        original = _opened(subject, found, opened)
    except ModelError:
        return Origin(receipt=receipt, missing="was found, but can't be read any more")
    if held is None:
        held = _hold(subject, original, receipt, found)
        status, code = held.proof.verification.status, held.proof.verification.code
        if kept:
            kept.keep(held, lasting=status in ("passed", "failed") and code != RAN_OUT)
    return Origin(receipt=receipt, found=found, subject=original, held=held)


def choose_by_origin(subject: Subject, origin: Origin, ledger: Ledger) -> tuple[Subject, Choice]:
    """The choice for a model with an origin; the subject is without its receipt where that is not believed.

    What comes out of an original is what it would have become under this rule, byte for byte. It is weighed
    against the model that is there: that may become larger only where its rule forbids it to stay as it is.
    """
    held = origin.held
    if subject.lineage.former is not None:
        return subject, _edited(subject, origin, ledger)
    if held is None:
        return _without_original(subject, origin, ledger)
    if not held.same and (not subject.lineage.current or held.proof.verification.status == "failed"):
        note = _another(subject, origin.receipt, held)
        subject = subject.disowned
        return subject, replace(choose(subject, ledger), notes=(note,))
    if subject.lineage.current:
        return subject, _vouched_for(subject, held, ledger)
    return subject, _derived_anew(subject, origin, held.proof.verification, ledger)


def about_lineage(subject: Subject, choice: Choice, *, over: bool) -> tuple[Finding, ...]:
    if choice.notes is not None:
        return choice.notes
    receipt, rule, name = subject.lineage.outdated, subject.rule, subject.task.name
    if receipt and over and not subject.task.search and not choice.missing:
        return ()  # its original was not looked for: `fix` does, and the budget's finding asks for that
    # Where no loss is allowed at all, a rounded model must not pass for want of its original.
    exact_only = rule.mode == "exact-only" or all(method(one.name).exact for one in rule.methods)
    forbidden = _forbidden(rule, receipt) if receipt and choice.missing and exact_only else ""
    found = subject.lineage.findings(name, over=over, missing=choice.missing, forbidden=forbidden)
    if receipt and choice.missing and subject.task.changed:
        found = (*found, _by_its_word(subject, receipt, choice.missing))
    return found


def _without_original(subject: Subject, origin: Origin, ledger: Ledger) -> tuple[Subject, Choice]:
    """What was rounded must not be rounded again, so there is nothing but the receipt's word. Anything
    else can be judged as a model that has none."""
    receipt, notes, original = origin.receipt, None, None
    if subject.lineage.current:
        original = OriginalState(sha256=receipt.source_sha256)
        if receipt.lossy:
            notes = (_by_its_word(subject, receipt, origin.missing),)
        else:
            subject = subject.disowned
    choice = choose(subject, ledger)
    return subject, replace(choice, missing=origin.missing, notes=notes, original=original)


def _edited(subject: Subject, origin: Origin, ledger: Ledger) -> Choice:
    """A model that was changed after it was shrunk is judged as a new one, unless it is known that it no
    longer computes what its original does."""
    held = origin.held
    if held is None or held.proof.verification.status != "failed" or held.outputs_hold:
        return choose(subject, ledger)
    found = held.proof.verification
    hint = RESTORE_IT.format(call=subject.task.call, key=KEY)
    reason = f"it was changed after onnx-ci shrank it; against its original: {found.reason}"
    found = replace(found, reason=reason, hint=hint)
    return Choice(None, found, (), failed_exact=True, as_it_is=True, notes=(), original=held.original)


def _vouched_for(subject: Subject, held: Held, ledger: Ledger) -> Choice:
    original = replace(held.original, verified=held.proof.accepted)
    found, latency = held.proof.verification, held.proof.latency
    if held.proof.accepted:
        choice = replace(choose(subject, ledger), original=original)
        return choice if choice.staged else replace(choice, verification=found, latency=latency)
    if found.status == "failed":
        call = subject.task.call
        hint = f"derive it anew: onnx-ci restore --original {call} && onnx-ci fix {call}"
        found = replace(found, reason=f"against its original: {found.reason}", hint=hint)
    return Choice(None, found, (), failed_exact=True, latency=latency, as_it_is=True, original=original)


def _derived_anew(subject: Subject, origin: Origin, kept: Verification, ledger: Ledger) -> Choice:
    """What the rule makes of the original, weighed against the model that is there."""
    receipt, found = origin.receipt, origin.found
    if found is None or origin.subject is None:
        raise ValueError("nothing is derived without an original")
    done = Ledger()
    choice = choose(origin.subject, done)
    ledger.idle = done.idle
    staged = choice.staged if choice.searched else None
    if staged is not None and staged.digest == receipt.digest:
        # The same model; it may still have to be stored otherwise.
        return replace(choose(subject, ledger), notes=())
    if staged is not None and worth_it(subject, staged):
        return replace(choice, notes=(_derived(subject, receipt),), derived_from=found)
    why = _forbidden(subject.rule, receipt) or (kept.reason if kept.status == "failed" else "")
    moving = [one for one in subject.rule.methods if method(one.name).gains == "layout"]
    if not why and not choice.searched and moving:
        moved = at_once(subject, ledger, moving)
        if moved.staged is not None:
            return replace(moved, notes=())
    if not why:
        passed = kept.status == "passed"
        return Choice(
            None,
            kept if passed else NOT_RUN,
            choice.alternatives,
            notes=(_stays(subject, receipt, staged, found),) if choice.searched else (),
            original=replace(found.state, verified=passed),
        )
    if staged is not None and _may_take_its_place(subject, staged):
        notes = (_derived(subject, receipt),) if subject.task.output else ()
        stale = _to_be_replaced(subject, why, staged)
        return replace(choice, stale=stale, notes=notes, derived_from=found)
    if not choice.searched:
        return replace(choice, staged=None, verification=kept, stale=_to_be_derived(subject, why), notes=())
    stale = _to_be_restored(subject, why, staged, found)
    return replace(choice, staged=None, verification=kept, stale=stale, notes=())


def _look_for(subject: Subject, receipt: Receipt) -> Original | str:
    """The original, or why there is none."""
    task = subject.task
    if task.repository is None and task.insists:
        return ""  # a single model, without a policy: nobody spoke of a repository
    subject.say("looking for its original")
    return find_original(receipt, task.user_path, task.repository, subject.scratch / "original")


def _opened(subject: Subject, found: Original, opened: ExitStack) -> Subject:
    folder = found.path.parent
    task = replace(subject.task, path=found.path, root=folder, policy=None, output=None, hashing=None)
    original = opened.enter_context(open_model(found.path, root=folder))
    scratch = subject.scratch / "anew"
    scratch.mkdir()
    return replace(
        subject,
        task=task,
        model=original,
        lineage=lineage(original, task.rule),
        hashing=BackgroundHash(found.path),
        scratch=scratch,
    )


def _hold(subject: Subject, original: Subject, receipt: Receipt, found: Original) -> Held:
    """The model that is there against its original, under the rule of today."""
    if original.runner is None:
        return Held(Proof(accepted=False, verification=NOT_RUN), True, found.state)
    from onnx_ci.verify.prove import Submission

    subject.say("verifying what is there")
    path = subject.scratch / "there" / "model.onnx"
    path.parent.mkdir()
    write_model(subject.model, path)
    changes = [topic for m in METHODS if m.name in receipt.names for topic in m.changes]
    if subject.lineage.former is not None:  # whoever edited it: what counts is what it computes
        changes += ["metadata", "producer", "opset", "ir", "functions"]
    # Not tensor by tensor: which of them exact methods left out for good reason, only the run that made
    # it knew.
    there = Submission(path=path, model=subject.model, changes=changes, each=False)
    proof = original.prover.prove(there)
    held = Held(proof, True, found.state)
    failed = proof.verification.status == "failed" and not held.outputs_hold
    return replace(held, same=held.outputs_hold or (failed and original.prover.resembles(there)))


def _may_take_its_place(subject: Subject, staged: Staged) -> bool:
    """A larger model has to keep every limit; one that is no larger must not break others."""
    over = over_limits(staged.measure, subject.limits)
    if staged.measure.size > subject.before.size:
        return not over
    return over.keys() <= over_limits(subject.before, subject.limits).keys()


def _forbidden(rule: Rule, receipt: Receipt) -> str:
    """The methods that rounded it, where the rule does not allow them (any more)."""
    allowed = set() if rule.mode == "exact-only" else {choice.name for choice in rule.methods}
    exact = {method.name for method in METHODS if method.exact}
    lost = [name for name in receipt.names if name not in exact | allowed]
    return f"its rule does not allow {', '.join(dict.fromkeys(lost))}" if lost else ""


def _by_its_word(subject: Subject, receipt: Receipt, missing: str) -> Finding:
    """Nobody can tell whether it computes what its original does: a warning where its receipt says that it
    was proven once, an error where not even that was done."""
    shrunk = f"shrunk with {', '.join(receipt.names)}"
    hint = "commit the original before the model that was made from it, or fetch what has it"
    if receipt.verified:
        message = f"{shrunk} by its receipt's word alone: its original {missing}"
        return subject.task.finding("OCI050", "warning", message, hint)
    message = f"{shrunk} and never verified, and its original {missing}"
    return subject.task.finding("OCI050", subject.rule.severity, message, hint)


def _another(subject: Subject, receipt: Receipt, held: Held) -> Finding:
    """The receipt names something else: the model is judged as if it had none."""
    call, why = subject.task.call, held.proof.verification.reason
    source = f"what its receipt says it was made from (sha256 {receipt.source_sha256[:12]}…)"
    compare = f"onnx-ci restore --original {call} other.onnx && onnx-ci compare other.onnx {call}"
    message = f"is not {source}: {why}; it is a new source"
    return subject.task.finding("OCI049", "warning", message, f"to see both: {compare}")


def _derived(subject: Subject, receipt: Receipt) -> Finding:
    return subject.task.finding("OCI011", "note", f"{_shrunk(receipt)}; derived anew from its original")


def _stays(subject: Subject, receipt: Receipt, staged: Staged | None, found: Original) -> Finding:
    """It keeps the rule of today, so it stays, though that would make something else of its original."""
    other = f"would be {_form(staged)}" if staged else "would stay as it was"
    message = f"{_shrunk(receipt)}, and keeps this one; under it the original {other}"
    hint = f"to have that instead: {found.restore}{_then_fix(subject, staged)}"
    return subject.task.finding("OCI011", "note", message, hint)


def _to_be_replaced(subject: Subject, why: str, staged: Staged) -> Finding:
    size = format_size(subject.before.size)
    message = f"{why}; derived anew from its original it is {_form(staged)}, instead of {size}"
    return subject.task.finding("OCI011", "error", message, to_run(f"onnx-ci fix {subject.task.call}"))


def _to_be_derived(subject: Subject, why: str) -> Finding:
    message = f"{why}; what this rule makes of its original was not looked for"
    return subject.task.finding("OCI011", "error", message, to_run(f"onnx-ci fix {subject.task.call}"))


def _to_be_restored(subject: Subject, why: str, staged: Staged | None, found: Original) -> Finding:
    """Nothing is put in its place: it would be over its budget, or there is nothing but the original."""
    other = "under this rule its original stays as it was"
    if staged:
        other = f"derived anew from its original it would be {_form(staged)}, which breaks its budget"
    message = f"{why}; {other}, so it is left as it is ({format_size(subject.before.size)})"
    hint = f"change the rule, or put the original back: {found.restore}{_then_fix(subject, staged)}"
    return subject.task.finding("OCI011", "error", message, hint)


def _then_fix(subject: Subject, staged: Staged | None) -> str:
    return f" && onnx-ci fix {subject.task.call}" if staged else ""


def _shrunk(receipt: Receipt) -> str:
    return f"was shrunk with {', '.join(receipt.names)} under another rule"


def _form(staged: Staged) -> str:
    return f"{format_size(staged.measure.size)} with {', '.join(staged.candidate.names)}"
