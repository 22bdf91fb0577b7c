"""The outcome of one model: what was chosen for it put into a report, and put in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.gate.candidates import Choice, Staged
from onnx_ci.gate.rederive import about_lineage
from onnx_ci.gate.subject import Ledger, Subject, Task
from onnx_ci.model.load import opened_files, read_skeleton
from onnx_ci.model.measure import by_name, files_of
from onnx_ci.model.model import Model, display_path
from onnx_ci.model.replace import left_behind, other_users
from onnx_ci.model.store import combined_sha256, file_sha256
from onnx_ci.repo.original import keep_original
from onnx_ci.results import (
    Finding,
    Measure,
    OpCount,
    OriginalState,
    Outcome,
    Planned,
    Severity,
    Step,
    Verdict,
    Verification,
)
from onnx_ci.util.advice import GIVE_SAMPLES
from onnx_ci.util.text import shell_word

LEAVE_OUT = "leave the method out for this model, or report the failure to the library it comes from"

FUSIONS_HINT = (
    "its outputs hold, it may only be slower: `onnx-ci compare` times it, budget: {latency: 110%} bounds it;"
    " or leave the method out"
)


def about_sharers(task: Task, sharers: Sequence[Path]) -> Iterator[Finding]:
    """Models that have a data file in common with this one."""
    if sharers:
        others = ", ".join(display_path(path) for path in sharers[:3])
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{task.name}: has a data file in common with {others}, so it is left as it is:"
            " shrunk alone it would need data of its own",
        )


def about_failures(task: Task, steps: Iterable[Step]) -> Iterator[Finding]:
    """Libraries that broke down on the model; the other methods went on without them."""
    for step in steps:
        if step.failed:
            message = f"{task.name}: {step.note}"
            yield Finding(code="OCI022", severity="warning", message=message, hint=LEAVE_OUT)


def about_unseen(task: Task, plan: Planned | None) -> Iterator[Finding]:
    """Weights that nothing vouches for are not rounded; that is no fault, but it costs bytes."""
    if plan is not None and plan.unseen:
        count = len(plan.unseen)
        names = ", ".join(plan.unseen[:2]) + (", …" if count > 2 else "")
        yield Finding(
            code="OCI005",
            severity="note",
            message=f"{task.name}: {count} tensor{'s'[: count != 1]} left as they are, since no output moves"
            f" whatever is done to them: {names}",
            hint="give inputs that reach them: " + GIVE_SAMPLES,
        )


def about_dims(task: Task, model: Model) -> Iterator[Finding]:
    """Names that mean nothing here. A rule for many models may name what only some of them have."""
    if not task.rule.inputs.dims:
        return
    from onnx_ci.inputs.graph import unknown_dims

    wrong = unknown_dims(model.proto, task.rule.inputs.dims)
    if wrong:
        alone = task.rule.pattern.lstrip("/") == task.matched
        yield Finding(
            code="OCI005",
            severity="warning" if alone else "note",
            message=f"{task.name}: inputs.dims of its rule: {wrong}",
            hint="correct the name, or leave it out" if alone else "",
        )


def about_left_behind(task: Task, original: Model, written: Path) -> Iterator[Finding]:
    """Files that are not called after the model are never touched; say so, and how to be rid of them."""
    names = left_behind(original, written) if original.path.resolve() == written else []
    if names:
        files = " ".join(shell_word(name) for name in names)
        users = [user for name in names for user in other_users(written.parent / name, written, task.root)]
        why = (
            f"it stays, for {display_path(users[0])} can't be read and may need it"
            if users
            else "onnx-ci removes only data files that are called after their model"
        )
        yield Finding(
            code="OCI021",
            severity="note",
            message=f"{task.name}: no longer needs {', '.join(names)}; {why}",
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


def outcome_of(
    subject: Subject, choice: Choice, verdict: Verdict, findings: Iterable[Finding], ledger: Ledger
) -> Outcome:
    task, staged = subject.task, choice.staged
    return Outcome(
        path=task.name,
        verdict=verdict,
        rule_pattern=task.rule.pattern,
        rule_line=task.rule.line,
        before=subject.before,
        after=staged.measure if staged else None,
        steps=staged.candidate.steps if staged else tuple(ledger.idle.values()),
        verification=choice.verification,
        findings=(
            *about_lineage(subject, choice, over=verdict == "over_budget"),
            *about_sharers(task, subject.sharers),
            *about_failures(task, ledger.idle.values()),
            *about_dims(task, subject.model),
            *about_unseen(task, choice.plan),
            *about_fusions(task.name, choice.verification),
            *findings,
        ),
        alternatives=choice.alternatives,
        plan=choice.plan,
        latency=choice.latency,
        original=choice.original,
    )


def put_in_place(subject: Subject, choice: Choice, outcome: Outcome, ledger: Ledger) -> Outcome:
    """Write what was chosen, if anything is to be written."""
    task, staged = subject.task, choice.staged
    if task.output is None or staged is None:
        return outcome
    if task.strict and any(finding.severity == "error" for finding in outcome.findings):
        return replace(outcome, after=None)
    subject.say("writing")
    try:
        original = _kept_original(subject, choice)
        written = task.output.write(staged.model, subject.model, staged.digest)
    except ModelError as error:
        finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
        return replace(outcome, findings=(*outcome.findings, finding), after=None, verdict="would_shrink")
    ledger.written.append(written)
    findings = (*outcome.findings, *about_left_behind(task, subject.model, written))
    after = _as_written(staged, written, identify=task.identify)
    return replace(outcome, after=after, written=True, findings=findings, original=original)


def _kept_original(subject: Subject, choice: Choice) -> OriginalState | None:
    """Where the original is, once the model is replaced. What was rounded before is none."""
    task, found = subject.task, choice.derived_from
    if not task.keeps_originals:
        return choice.original
    if found is not None:
        if found.state.place != "objects":
            return found.state
        # Nothing may hold it yet.
        return keep_original(task.repository, files_of(found.path, read_skeleton(found.path)))
    if subject.lineage.lossy:
        return choice.original
    return keep_original(task.repository, subject.files)


def _as_written(staged: Staged, written: Path, *, identify: bool) -> Measure:
    """Data files got their names when they were written, and the model has these names in it."""
    after, named = staged.measure, opened_files(staged.model)
    files = files_of(written, read_skeleton(written)) if named else [written]
    if named:
        after = replace(after, size=sum(file.stat().st_size for file in files))
    if identify and (named or not after.sha256):
        digests = {name: file_sha256(file) for name, file in by_name(files).items()}
        after = replace(after, sha256=combined_sha256(digests))
    return after
