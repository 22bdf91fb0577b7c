"""One model through the gate: opened, worked on, and whatever goes wrong turned into an outcome."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.errors import ModelError
from onnx_ci.gate.candidates import Job, Say
from onnx_ci.gate.decide import Facts, decide, limits_of
from onnx_ci.gate.rederive import AnewGate
from onnx_ci.model.load import open_model
from onnx_ci.model.model import display_path
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import is_unfinished
from onnx_ci.model.store import BackgroundHash
from onnx_ci.policy.load import override_for
from onnx_ci.policy.schema import Override, Rule
from onnx_ci.repo.content import ENDING, Part, Source
from onnx_ci.results import NOT_RUN, Finding, Measure, Outcome
from onnx_ci.util.advice import fetch_from_lfs
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.text import shell_path

if TYPE_CHECKING:
    from onnx_ci.sandbox.runner import Runner


def judge(job: Job, runner: Runner | None, say: Say = lambda _: None) -> Outcome:
    """The outcome for one model; without a runner nothing is verified.

    A model that can't be handled is an outcome too, never an exception.
    """
    outcome = Outcome(
        path=job.name, verdict="unreadable", rule_pattern=job.rule.pattern, rule_line=job.rule.line
    )
    try:
        hashing = job.hashing or (BackgroundHash(job.path) if job.identify else None)
        with open_model(job.path, root=job.root) as model, scratch_folder() as scratch:
            if not is_unfinished(model):
                return AnewGate(job, model, hashing, scratch, say, runner).run(outcome)
            if job.write is None:
                return replace(outcome, verdict="would_shrink", findings=(_unfinished(job),))
            job.write(model.copy(), model, model_digest(model))
        return judge(replace(job, hashing=None), runner, say)
    except ModelError as error:
        finding = Finding(code=error.code, severity=job.rule.severity, message=error.message, hint=error.hint)
        return replace(outcome, findings=(finding,))
    except OSError as error:
        return replace(outcome, verdict="unverified", findings=(disk_trouble(job.name, error),))


def disk_trouble(name: str, error: OSError) -> Finding:
    return Finding(
        code="OCI017",
        severity="error",
        message=f"{name}: could not be worked on: {error.strerror or error}",
        hint=f"candidates are tried out in {tempfile.gettempdir()}: make room there, or set TMPDIR",
    )


def _unfinished(job: Job) -> Finding:
    return Finding(
        code="OCI018",
        severity=job.rule.severity,
        message=f"{job.name}: a fix was interrupted before its data file got its name; the model still loads",
        hint=f"run: onnx-ci fix {job.call}",
    )


FROM_A_POINTER = ("size", "growth")  # the limits that need no content


def judge_absent(job: Job, source: Source) -> Outcome:
    """Size and growth are judged without a download; where more is asked for, say what is missing."""
    before = Measure(size=source.size, sha256=_digest(source))
    override = _override(job, before)
    known = {k: v for k, v in limits_of(job.rule, job.base_size).items() if k in FROM_A_POINTER}
    facts = Facts(
        name=job.name,
        call=job.call,
        rule=job.rule,
        policy_file=job.policy.file if job.policy else "",
        before=before,
        verification=NOT_RUN,
        limits=known,
        override=override,
    )
    verdict, findings = decide(facts)
    outcome = Outcome(
        path=job.name,
        verdict=verdict,
        rule_pattern=job.rule.pattern,
        rule_line=job.rule.line,
        before=before,
        findings=findings,
    )
    if override is not None or not needs_content(job.rule):
        return outcome
    missing = tuple(_finding(job, part) for part in source.absent)
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


def _override(job: Job, before: Measure) -> Override | None:
    if job.policy is None or not before.sha256:
        return None
    return override_for(job.policy, job.matched, before.sha256, date.today())


def _finding(job: Job, part: Part) -> Finding:
    keeper = part.pointer.keeper if part.pointer else ""
    missing = job.policy.lfs.missing if job.policy else ""
    data = "" if part.path == (job.known_as or job.path) else f"{job.name}: "
    return Finding(
        code="OCI007",
        severity="warning" if missing == "warning" else job.rule.severity,
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
