"""One model through the gate: opened, worked on, put in place; and all that is known of it as an outcome."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.errors import ModelError
from onnx_ci.gate.attempts import choose
from onnx_ci.gate.candidates import Choice, Staged
from onnx_ci.gate.decide import Measured, decide, over_limits
from onnx_ci.gate.lineage import lineage
from onnx_ci.gate.rederive import about_lineage, choose_by_origin, source_of
from onnx_ci.gate.requirements import about_requirements
from onnx_ci.gate.subject import Ledger, Say, Subject, Task
from onnx_ci.model.interface import ports
from onnx_ci.model.load import open_model, opened_files, read_skeleton
from onnx_ci.model.measure import by_name, files_of, tensor_changes
from onnx_ci.model.model import Model, display_path
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import is_unfinished, left_behind, other_users
from onnx_ci.model.store import BackgroundHash, combined_sha256, file_sha256
from onnx_ci.policy.schema import Require, Rule
from onnx_ci.repo.content import ENDING, Part, Source
from onnx_ci.repo.git import find_root
from onnx_ci.repo.original import keep_original
from onnx_ci.results import (
    NOT_RUN,
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
from onnx_ci.util.advice import GIVE_SAMPLES, fetch_from_lfs, to_run
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.text import relative_name, shell_path, shell_word

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import Runner

LEAVE_OUT = "leave the method out for this model, or report the failure to the library it comes from"

FUSIONS_HINT = (
    "its outputs hold, it may only be slower: `onnx-ci compare` times it, budget: {latency: 110%} bounds it;"
    " or leave the method out"
)


def judge(task: Task, runner: Runner | None, ledger: Ledger, say: Say = lambda _: None) -> Outcome:
    """The outcome for one model; without a runner nothing is verified.

    A model that can't be handled is an outcome too, never an exception.
    """
    try:
        with opened(task, runner, say) as subject:
            model = subject.model
            if not is_unfinished(model):
                return _walk(subject, ledger)
            if task.output is None:
                return replace(task.outcome("would_shrink"), findings=(_unfinished(task),))
            ledger.written.append(task.output.write(model.copy(), model, model_digest(model)))
        return judge(replace(task, hashing=None), runner, ledger, say)
    except ModelError as error:
        finding = Finding(
            code=error.code, severity=task.rule.severity, message=error.message, hint=error.hint
        )
        return replace(task.outcome("unreadable"), findings=(finding,))
    except OSError as error:
        return replace(task.outcome("unverified"), findings=(disk_trouble(task.name, error),))


@contextmanager
def opened(task: Task, runner: Runner | None, say: Say) -> Iterator[Subject]:
    """The model of a task, open, with a folder for what is tried."""
    hashing = task.hashing or (BackgroundHash(task.path) if task.identify else None)
    with open_model(task.path, root=task.root) as model, scratch_folder() as scratch:
        yield Subject(
            task=task,
            model=model,
            lineage=lineage(model, task.rule),
            hashing=hashing,
            scratch=scratch,
            runner=runner,
            say=say,
        )


def _walk(subject: Subject, ledger: Ledger) -> Outcome:
    """An open model, from where it comes from to what is put in its place."""
    with ExitStack() as originals:
        # A hook does not run what fails by its size anyway.
        failing = not subject.task.search and over_limits(subject.before, subject.limits)
        origin = None if failing else source_of(subject, originals)
        if origin is None:
            choice = choose(subject, ledger)
        else:
            subject, choice = choose_by_origin(subject, origin, ledger)
        final = choice.staged.model if choice.staged else subject.model
        verdict, findings = decide(subject.measured(final), choice)
        unmet = about_requirements(subject.task, final.proto) if subject.override is None else ()
        if unmet and verdict == "ok":
            verdict = "unfit"
        findings = (*findings, *unmet)
        moved = None
        first_look = subject.task.look is not None and subject.task.look.first
        enough = not subject.task.search and verdict != "ok"
        if subject.override is None and subject.runner is not None and not first_look and not enough:
            from onnx_ci.gate.load_check import load_check, loading_check

            verdict, loading, moved = load_check(subject, choice.verification, verdict)
            findings = (*findings, *loading)
            if choice.staged is None:  # what takes its place is proven to keep to it
                verdict, loading = loading_check(subject, verdict)
                findings = (*findings, *loading)
        lineage_findings = about_lineage(subject, choice, over=verdict == "over_budget")
        if verdict == "ok" and any(finding.severity == "error" for finding in lineage_findings):
            verdict = "unfit"
        findings = (*lineage_findings, *findings)
        outcome = replace(outcome_of(subject, choice, verdict, findings, ledger), moved=moved)
        return put_in_place(subject, choice, outcome, ledger)


def disk_trouble(name: str, error: OSError) -> Finding:
    return Finding(
        code="OCI017",
        severity="error",
        message=f"{name}: could not be worked on: {error.strerror or error}",
        hint=f"candidates are tried out in {tempfile.gettempdir()}: make room there, or set TMPDIR",
    )


def _unfinished(task: Task) -> Finding:
    message = "a fix was interrupted before its data file got its name; the model still loads"
    return task.finding("OCI018", task.rule.severity, message, to_run(f"onnx-ci fix {task.call}"))


def about_sharers(task: Task, sharers: Sequence[Path]) -> Iterator[Finding]:
    """Models that have a data file in common with this one."""
    if sharers:
        others = ", ".join(display_path(path) for path in sharers[:3])
        shared = f"has a data file in common with {others}, so it is left as it is"
        yield task.finding("OCI021", "note", f"{shared}: shrunk alone it would need data of its own")


def about_failures(task: Task, steps: Iterable[Step]) -> Iterator[Finding]:
    """Libraries that broke down on the model; the other methods went on without them."""
    for step in steps:
        if step.failed:
            yield task.finding("OCI022", "warning", step.note, LEAVE_OUT)


def about_plan(task: Task, plan: Planned | None) -> Iterator[Finding]:
    """What a search left: weights that nothing vouches for are not rounded, which costs bytes; and where it
    did not come to its end, what it found is proven, and may not be the smallest."""
    if plan is not None and plan.unseen:
        count = len(plan.unseen)
        names = ", ".join(plan.unseen[:2]) + (", …" if count > 2 else "")
        left = f"{count} tensor{'s'[: count != 1]} left as they are"
        message = f"{left}, since no output moves whatever is done to them: {names}"
        yield task.finding("OCI005", "note", message, "give inputs that reach them: " + GIVE_SAMPLES)
    if plan is not None and plan.untried:
        hint = (
            "raise plan_runs, or limits: {total_seconds: ...} if it is set; or give the size that is enough"
        )
        yield task.finding("OCI059", "note", f"not all was tried to make it smaller: {plan.untried}", hint)


def about_dims(task: Task, model: Model) -> Iterator[Finding]:
    """Names that mean nothing here. A rule for many models may name what only some of them have."""
    if not task.rule.inputs.dims:
        return
    from onnx_ci.inputs.graph import unknown_dims

    wrong = unknown_dims(model.proto, task.rule.inputs.dims)
    if wrong:
        alone = task.rule.pattern.lstrip("/") == task.matched
        hint = "correct the name, or leave it out" if alone else ""
        message = f"inputs.dims of its rule: {wrong}"
        yield task.finding("OCI005", "warning" if alone else "note", message, hint)


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
        hint = f"if nothing else needs it, in {display_path(written.parent)}: git rm {files}"
        yield task.finding("OCI021", "note", f"no longer needs {', '.join(names)}; {why}", hint)


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
    inputs, outputs = ports(subject.model.proto)
    return replace(
        task.outcome(verdict, subject.before),
        tensors=tensor_changes(subject.model, staged.model if staged else None),
        inputs=inputs,
        outputs=outputs,
        after=staged.measure if staged else None,
        steps=staged.candidate.steps if staged else tuple(ledger.idle.values()),
        verification=choice.verification,
        findings=(
            *about_sharers(task, subject.sharers),
            *about_failures(task, ledger.idle.values()),
            *about_dims(task, subject.model),
            *about_plan(task, choice.plan),
            *about_fusions(task.name, choice.verification),
            *choice.verification.findings(task.name),
            *findings,
        ),
        alternatives=choice.alternatives,
        plan=choice.plan,
        work=choice.work,
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


FROM_A_POINTER = ("size", "growth")  # the limits that need no content


def judge_pointer(task: Task, source: Source) -> Outcome:
    """Size and growth are judged without a download; where more is asked for, say what is missing."""
    before = Measure(size=source.size, sha256=_digest(source))
    limits = {name: limit for name, limit in task.limits.items() if name in FROM_A_POINTER}
    override = task.override(before.sha256)
    pointed = Measured(task=task, before=before, limits=limits, override=override)
    verdict, findings = decide(pointed, Choice(None, NOT_RUN, ()))
    if override is None and needs_content(task.rule):
        verdict = "unreadable" if verdict == "ok" else verdict
        findings = (*findings, *(_finding(task, part) for part in source.absent))
    return replace(task.outcome(verdict, before), findings=findings)


def needs_content(rule: Rule) -> bool:
    """Whether a rule asks for more than a pointer can tell."""
    budget = rule.budget
    measured = rule.methods or budget.params or budget.loading or rule.require != Require()
    return bool(measured or [n for n in budget.size_like if n not in FROM_A_POINTER])


def _digest(source: Source) -> str:
    """Git LFS names a content by its sha256, which is that of a model without external data."""
    (pointer, *others) = [part.pointer for part in source.parts]
    return pointer.digest if pointer and pointer.keeper == "Git LFS" and not others else ""


def _finding(task: Task, part: Part) -> Finding:
    keeper = part.pointer.keeper if part.pointer else ""
    missing = task.policy.lfs.missing if task.policy else ""
    data = "" if part.path == task.user_path else f"{task.name}: "
    return Finding(
        code="OCI007",
        severity="warning" if missing == "warning" else task.rule.severity,
        message=f"{data}{display_path(part.path)}: is a {keeper} pointer for {part.size:,} bytes, the content"
        " has not been downloaded, so only its size was judged",
        hint=how_to_get(part.path, keeper, fetching=missing == "fetch"),
    )


def how_to_get(path: Path, keeper: str, *, fetching: bool) -> str:
    if keeper == "DVC":
        return to_run(f"dvc pull {shell_path(path.with_name(path.name + ENDING))}")
    root = find_root(path.parent)  # which patterns of Git LFS are relative to, wherever one is
    name = shell_word(relative_name(path, root)) if root else shell_path(path)
    call = f"git lfs pull --include {name}"
    if fetching:
        return fetch_from_lfs(f"it could not be fetched; try: {call}")
    return fetch_from_lfs(
        f"run: {call}; or let onnx-ci fetch what it needs: lfs: {{missing: fetch}} in the policy"
    )
