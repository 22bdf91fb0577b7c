"""One model through the gate: opened, worked on, and whatever goes wrong turned into an outcome."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.errors import ModelError
from onnx_ci.gate.attempts import choose
from onnx_ci.gate.candidates import Choice
from onnx_ci.gate.decide import Measured, decide
from onnx_ci.gate.lineage import lineage
from onnx_ci.gate.outcome import outcome_of, put_in_place
from onnx_ci.gate.rederive import choose_by_origin, source_of
from onnx_ci.gate.subject import Ledger, Say, Subject, Task
from onnx_ci.model.load import open_model
from onnx_ci.model.model import display_path
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import is_unfinished
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.schema import Rule
from onnx_ci.repo.content import ENDING, Part, Source
from onnx_ci.results import NOT_RUN, Finding, Measure, Outcome
from onnx_ci.util.advice import fetch_from_lfs
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.text import shell_path

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import Runner


def judge(task: Task, runner: Runner | None, ledger: Ledger, say: Say = lambda _: None) -> Outcome:
    """The outcome for one model; without a runner nothing is verified.

    A model that can't be handled is an outcome too, never an exception.
    """
    outcome = Outcome(
        path=task.name, verdict="unreadable", rule_pattern=task.rule.pattern, rule_line=task.rule.line
    )
    try:
        hashing = task.hashing or (BackgroundHash(task.path) if task.identify else None)
        with open_model(task.path, root=task.root) as model, scratch_folder() as scratch:
            if not is_unfinished(model):
                subject = Subject(
                    task=task,
                    model=model,
                    lineage=lineage(model, task.rule),
                    hashing=hashing,
                    scratch=scratch,
                    runner=runner,
                    say=say,
                )
                return _walk(subject, ledger)
            if task.output is None:
                return replace(outcome, verdict="would_shrink", findings=(_unfinished(task),))
            ledger.written.append(task.output.write(model.copy(), model, model_digest(model)))
        return judge(replace(task, hashing=None), runner, ledger, say)
    except ModelError as error:
        finding = Finding(
            code=error.code, severity=task.rule.severity, message=error.message, hint=error.hint
        )
        return replace(outcome, findings=(finding,))
    except OSError as error:
        return replace(outcome, verdict="unverified", findings=(disk_trouble(task.name, error),))


def _walk(subject: Subject, ledger: Ledger) -> Outcome:
    """An open model, from where it comes from to what is put in its place."""
    with ExitStack() as opened:
        origin = source_of(subject, opened)
        if origin is None:
            choice = choose(subject, ledger)
        else:
            subject, choice = choose_by_origin(subject, origin, ledger)
        final = choice.staged.model if choice.staged else subject.model
        verdict, findings = decide(subject.measured(final), choice)
        first_look = subject.task.look is not None and subject.task.look.first
        if subject.override is None and subject.runner is not None and not first_look:
            from onnx_ci.gate.load_check import load_check

            verdict, loading = load_check(subject, choice.verification, verdict)
            findings = (*findings, *loading)
        outcome = outcome_of(subject, choice, verdict, findings, ledger)
        return put_in_place(subject, choice, outcome, ledger)


def disk_trouble(name: str, error: OSError) -> Finding:
    return Finding(
        code="OCI017",
        severity="error",
        message=f"{name}: could not be worked on: {error.strerror or error}",
        hint=f"candidates are tried out in {tempfile.gettempdir()}: make room there, or set TMPDIR",
    )


def _unfinished(task: Task) -> Finding:
    return Finding(
        code="OCI018",
        severity=task.rule.severity,
        message=f"{task.name}: a fix was interrupted before its data file got its name;"
        " the model still loads",
        hint=f"run: onnx-ci fix {task.call}",
    )


FROM_A_POINTER = ("size", "growth")  # the limits that need no content


def judge_pointer(task: Task, source: Source) -> Outcome:
    """Size and growth are judged without a download; where more is asked for, say what is missing."""
    before = Measure(size=source.size, sha256=_digest(source))
    limits = {name: limit for name, limit in task.limits.items() if name in FROM_A_POINTER}
    override = task.override(before.sha256)
    pointed = Measured(task=task, before=before, limits=limits, override=override)
    verdict, findings = decide(pointed, Choice(None, NOT_RUN, ()))
    outcome = Outcome(
        path=task.name,
        verdict=verdict,
        rule_pattern=task.rule.pattern,
        rule_line=task.rule.line,
        before=before,
        findings=findings,
    )
    if override is not None or not needs_content(task.rule):
        return outcome
    missing = tuple(_finding(task, part) for part in source.absent)
    return replace(
        outcome,
        verdict="unreadable" if verdict == "ok" else verdict,
        findings=(*findings, *missing),
    )


def needs_content(rule: Rule) -> bool:
    """Whether a rule asks for more than a pointer can tell."""
    budget = rule.budget
    return bool(rule.methods or budget.params or [n for n in budget.size_like if n not in FROM_A_POINTER])


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
        return f"run: dvc pull {shell_path(path.with_name(path.name + ENDING))}"
    call = f"git lfs pull --include {shell_path(path)}"
    if fetching:
        return fetch_from_lfs(f"it could not be fetched; try: {call}")
    return fetch_from_lfs(
        f"run: {call}; or let onnx-ci fetch what it needs: lfs: {{missing: fetch}} in the policy"
    )
