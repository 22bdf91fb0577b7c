"""A model that nothing is done to is loaded and run once all the same: whether it works, and how far its
outputs are from those that it had in the commit it is compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from onnx_ci.errors import ModelError
from onnx_ci.gate.cache import run_memory
from onnx_ci.gate.decide import LOADING_HINT, softened
from onnx_ci.gate.subject import Subject
from onnx_ci.model.graph import foreign_nodes, mentions_type, opset, tensors
from onnx_ci.model.load import open_model
from onnx_ci.model.measure import measure
from onnx_ci.model.model import Model, clear_values
from onnx_ci.model.proto import TensorProto
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import Tolerance
from onnx_ci.results import Finding, Float16Range, Moved, Severity, Verdict, Verification
from onnx_ci.util.advice import GIVE_SAMPLES
from onnx_ci.util.text import counted

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import RunFailed
    from onnx_ci.verify.prove import Prover


# "loaded": no inputs were found that run it. "elsewhere": this onnxruntime lacks what it needs, others may
# have it. "broken": no onnxruntime would take it. "ran out": it crashed, or went past its limits.
State = Literal["ran", "loaded", "elsewhere", "broken", "ran out"]
NOT_RUN: dict[State, tuple[str, Severity, str]] = {
    "loaded": ("OCI053", "warning", "onnxruntime loads it, but it was not run: "),
    "elsewhere": ("OCI053", "warning", "could not be loaded here: "),
    "broken": ("OCI053", "error", ""),
    "ran out": ("OCI013", "error", ""),
}
TURN_OFF = "load_check: off in the rule leaves it out"
STANDARD = ("", "ai.onnx", "ai.onnx.ml")  # domains in which an unknown operator is a mistake
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What came of running a model once."""

    state: State
    said: str = ""  # why it was not run
    hint: str = ""
    lost: tuple[str, ...] = ()  # outputs without a single finite number
    all_lost: bool = False  # every output that could have one
    samples: int = 0


Fact = TypeVar("Fact", Ran, Moved, Float16Range)


def load_check(
    subject: Subject, verification: Verification, verdict: Verdict
) -> tuple[Verdict, tuple[Finding, ...], Moved | None]:
    """The verdict with what running the model adds to it, and how far outputs moved since the base if only
    weights changed. A proof has run the original already."""
    rule = subject.rule
    if subject.runner is None or subject.task.policy is None or not rule.load_check:
        return verdict, (), None
    if verification.code and verification.status == "not_run":
        return verdict, (), None  # it was tried, and what came of it is told
    if not verification.outputs:
        subject.say("running it once")
        ran = _remembered(subject, Ran, lambda: _run(subject))
    else:
        lost = tuple(delta.name for delta in verification.outputs if delta.kind == "nan")
        ran = Ran(state="ran", lost=lost, samples=verification.samples)
    findings, moved = [*_about(subject, ran)], None
    if ran.state == "ran" and subject.task.search:
        moved = _moved(subject)
        findings += [*_about_float16(subject, verification), *_about_move(subject, moved)]
    if verdict == "ok" and any(finding.severity == "error" for finding in findings):
        verdict = "unverified"
    findings = softened(findings, "warning") if rule.severity == "warning" else findings
    return verdict, tuple(findings), moved


def loading_check(subject: Subject, verdict: Verdict) -> tuple[Verdict, tuple[Finding, ...]]:
    """The verdict with what loading the model takes, where the rule limits that."""
    rule, policy = subject.rule, subject.task.policy
    if policy is None or not rule.budget.loading:
        return verdict, ()
    subject.say("loading it")
    over = subject.prover.loading_over(subject.prover.reference.original)
    if not over:
        return verdict, ()
    where = f" ({policy.file}:{rule.line_of('budget')})" if policy.file else ""
    finding = subject.task.finding("OCI060", rule.severity, over + where, LOADING_HINT)
    return ("over_budget" if verdict == "ok" else verdict), (finding,)


def _run(subject: Subject) -> Ran:
    from onnx_ci.sandbox.exchange import is_float
    from onnx_ci.sandbox.runner import RunFailed, Unrunnable
    from onnx_ci.verify.observation import observation_of
    from onnx_ci.verify.reference import has_no_number

    reference = subject.prover.reference
    try:
        outputs = reference.outputs()
    except Unrunnable as error:
        return _failed(subject, error.failure, error)
    except ModelError as error:  # there are no inputs: then loading it is all that can be done
        try:
            reference.runner.load(reference.original, limits=subject.rule.limits)
        except RunFailed as failure:
            return _failed(subject, failure, failure)
        return _not_run(subject, error)
    values: dict[str, list[bool]] = {}
    for sample in outputs:
        for name, array in sample.items():
            if is_float(array.dtype) and array.size and not observation_of(name):
                values.setdefault(name, []).append(has_no_number(array))
    lost = tuple(name for name, found in values.items() if all(found))
    return Ran(state="ran", lost=lost, all_lost=bool(lost) and len(lost) == len(values), samples=len(outputs))


def _failed(subject: Subject, failure: RunFailed, error: ModelError) -> Ran:
    said = failure.message
    if failure.kind != "error":
        hint = "give the model more room: limits: {seconds: ..., memory: ...}"
        return Ran(state="ran out", said=error.message, hint=hint)
    if failure.stage == "run":
        return _not_run(subject, error)
    if failure.stage == "load":
        missing = _missing_here(subject, failure)
        if missing:
            return Ran(state="elsewhere", said=said, hint=missing)
        return Ran(state="broken", said=f"onnxruntime can't load it: {said}", hint="export it again")
    return Ran(state="broken", said=said, hint=error.hint)


def _not_run(subject: Subject, error: ModelError) -> Ran:
    """A model that loads: its samples have to run it, inputs that were made up need not."""
    state: State = "broken" if subject.rule.inputs.samples else "loaded"
    return Ran(state=state, said=error.message, hint=error.hint)


def _missing_here(subject: Subject, failure: RunFailed) -> str:
    """What would help a model that is not at fault itself; nothing where it is.

    Decided by what the model asks for and what this onnxruntime has, not by what it says."""
    from onnx_ci.sandbox.runner import RunFailed
    from onnx_ci.sandbox.versions import NAME_IT, custom_operators

    proto, runner = subject.model.proto, subject.prover.runner
    newer = "run it with another onnxruntime: a newer one, or one for other hardware"
    if not runner.libraries.names and custom_operators(proto):
        return NAME_IT
    if failure.status == "NotImplemented":
        return newer
    used = {(node.domain, node.op_type) for node in foreign_nodes(proto)}
    extensions = {one for one in used if one[0] not in STANDARD}
    if extensions and not runner.libraries.names:
        with contextlib.suppress(RunFailed):  # one that can't say what it has
            if extensions - runner.operators():
                return newer
    return "" if _takes_versions(subject) else newer


def _takes_versions(subject: Subject) -> bool:
    """Whether onnxruntime takes a model of one node with the same IR version and opsets."""
    from onnx import TensorProto, helper, save

    from onnx_ci.sandbox.runner import RunFailed

    proto = subject.model.proto
    if proto.ir_version <= 0 or any(entry.version <= 0 for entry in proto.opset_import):
        return True  # no onnxruntime has those
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "graph", values[:1], values[1:])
    model = helper.make_model(graph, ir_version=proto.ir_version)
    del model.opset_import[:]
    model.opset_import.extend(proto.opset_import)
    if not opset(proto):
        model.opset_import.add(version=1)  # for the node itself
    path = subject.scratch / "versions.onnx"
    save(model, path)
    try:
        subject.prover.runner.load(path, limits=subject.rule.limits)
    except RunFailed:
        return False
    return True


def _about(subject: Subject, ran: Ran) -> Iterator[Finding]:
    kind = "the samples given" if subject.rule.inputs.samples else "inputs made up for it"
    if ran.state == "ran" and ran.lost:
        named = ", ".join(map(repr, ran.lost[:_SHOWN])) + (", …" if len(ran.lost) > _SHOWN else "")
        what = "all its outputs are" if ran.all_lost else f"all of {named} is"
        severity: Severity = "error" if ran.all_lost else "warning"
        damaged = "its weights may be damaged: export it again; where it needs other inputs, "
        hint = damaged + GIVE_SAMPLES + f"; {TURN_OFF}"
        yield subject.task.finding("OCI054", severity, f"{what} NaN or infinite, on {kind}", hint)
    elif ran.state != "ran":
        code, severity, what = NOT_RUN[ran.state]
        yield subject.task.finding(code, severity, what + ran.said, ran.hint + f"; {TURN_OFF}")


def _about_float16(subject: Subject, verification: Verification) -> tuple[Finding, ...]:
    """What hardware that computes in float16 would lose, unless that is told of a candidate already."""
    told = verification.status == "passed" and verification.float16 is not None
    if told or not mentions_type(subject.model.proto, TensorProto.FLOAT16):
        return ()
    found = _remembered(subject, Float16Range, lambda: subject.prover.float16 or Float16Range())
    return found.findings(subject.task.name)


def _moved(subject: Subject) -> Moved | None:
    """How far outputs are from what they were, where only weights changed."""
    source = subject.task.base
    if source is None:
        return None
    try:
        with open_model(source.path, root=source.root) as base:
            if _without_values(base) != _without_values(subject.model):
                return None
            then = measure(source.path, base.proto, hashing=BackgroundHash(source.path))
            moved = _remembered(subject, Moved, lambda: _compared(base, subject.prover), then.sha256)
    except (ModelError, OSError):
        return None  # what was there before is nobody's fault now
    return moved if moved.comparable else None


def _about_move(subject: Subject, moved: Moved | None) -> Iterator[Finding]:
    if moved is None:
        return
    told = "outputs are the same to the last bit"
    if moved.odd:
        told = f"{moved.output!r} has NaN or infinity at other places than before"
    elif moved.output:
        told = f"{moved.output!r} moved most, to a cosine of {moved.cosine:.5f} (max_abs {moved.max_abs:.3g})"
    message = f"only weights changed: on {counted(moved.samples, 'input')}, {told}"
    yield subject.task.finding("OCI055", "warning" if moved.odd else "note", message)


def _without_values(model: Model) -> bytes:
    """What two models have in common that are the same graph around other values."""
    copy = model.copy().proto
    for tensor in tensors(copy):
        clear_values(tensor)
    for name in ("producer_name", "producer_version", "model_version", "doc_string", "metadata_props"):
        copy.ClearField(name)
    return bytes(copy.SerializeToString(deterministic=True))


def _compared(base: Model, prover: Prover) -> Moved:
    from onnx_ci.verify.noise import Baked
    from onnx_ci.verify.prove import Submission

    try:
        deltas = prover.compare(Submission(path=base.path, model=base), Tolerance()).deltas
    except (ModelError, Baked):
        return Moved()
    samples = prover.reference.sample_count
    odd = next((delta for delta in deltas if "odd values" in delta.breaches), None)
    worst = odd or min(deltas, key=lambda delta: (delta.cosine, -delta.max_abs), default=None)
    if worst is None or all(delta.exact for delta in deltas):
        return Moved(comparable=True, samples=samples)
    return Moved(
        comparable=True,
        output=worst.name,
        cosine=worst.cosine,
        max_abs=worst.max_abs,
        odd=odd is not None,
        samples=samples,
    )


def _remembered(subject: Subject, kind: type[Fact], find: Callable[[], Fact], *against: str) -> Fact:
    """What an earlier run found for the same content and inputs, or what is found now. What a busy machine
    may do otherwise is not kept."""
    kept = run_memory(subject, kind.__name__, *against)
    found = kept.recall(kind)
    if found is None:
        found = find()
        by_chance = getattr(found, "state", "") == "ran out" or getattr(found, "unseen", "")
        kept.keep(found, lasting=not by_chance)
    return found
