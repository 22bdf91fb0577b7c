"""Where the report of a run goes: annotations, summary, files, outputs, and a comment if wanted."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_ci.action import comment
from onnx_ci.action.inputs import Event, Inputs, Mode, read_event, read_inputs, write_outputs, write_summary
from onnx_ci.cli.output import write_to
from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.report import html, json, markdown
from onnx_ci.report.annotations import Annotation, render_github
from onnx_ci.report.markdown import prose
from onnx_ci.results import COULD_NOT, Finding, RunReport

JSON, HTML, MARKDOWN = "report.json", "report.html", "report.md"


@dataclass(frozen=True, kw_only=True)
class ActionResult:
    """What there is to tell. `refused` says why nothing was committed although something was to be."""

    report: RunReport
    changed: bool = False
    commit: str = ""
    pull: int = 0  # the pull request that the commit is in, where the mode opens one
    refused: str = ""
    notes: tuple[str, ...] = ()


def report_run(result: ActionResult, inputs: Inputs, event: Event, folder: Path) -> None:
    report = replace(result.report, notes=(*result.report.notes, *result.notes))
    refusal = f"> **Not committed:** {prose(result.refused)}\n\n" if result.refused else ""
    body = refusal + markdown.render_run(report, markdown.COMMENT - len(refusal.encode()))
    files = _write_files(report, body, folder, inputs.mode)
    write_to(render_github(report), "")
    if result.refused:
        sys.stdout.write(f"{Annotation(kind='error', message=result.refused)}\n")
    for note in result.notes:
        sys.stdout.write(f"{Annotation(kind='notice', message=note)}\n")
    sys.stdout.flush()
    write_summary(refusal + markdown.render_run(report, markdown.SUMMARY))
    severities = [finding.severity for finding in report.all_findings]
    warns = inputs.fail_on == "warning" and "warning" in severities
    code = report.exit_code or int(bool(result.refused) or warns)
    write_outputs(
        {
            "exit-code": str(code),
            "verdict": "0" if inputs.fail_on == "never" and code == 1 else str(code),
            "changed": str(result.changed).lower(),
            "committed": str(bool(result.commit)).lower(),
            "commit-sha": result.commit,
            "bytes-before": str(report.size_before),
            "bytes-after": str(report.size_after),
            "bytes-saved": str(report.size_before - report.size_after),
            "errors": str(severities.count("error")),
            "warnings": str(severities.count("warning")),
            "pull-request": str(result.pull or ""),
            "results-digest": _results_digest(),
            **files,
        }
    )
    if inputs.comment:
        comment.post(inputs, event, report, before=refusal)
    if inputs.status:
        comment.post_status(inputs, event, report, code=code, commit=result.commit)


def report_failure(error: OnnxCiError, step: str, environment: Mapping[str, str]) -> int:
    """Whatever went wrong, inputs and event included: then as much of it as can be read. Its exit code."""
    inputs = _readable_inputs(environment)
    finding = Finding(
        code=COULD_NOT,
        severity="error",
        message=error.message,
        hint=error.hint,
        file=error.file,
        line=error.line,
    )
    report = RunReport(command=inputs.mode, outcomes=(), findings=(finding,))
    text = markdown.render_run(report)
    write_summary(text)
    if step == "run" and inputs.mode != "comment":
        write_outputs(_write_files(report, text, report_folder(), inputs.mode))
    event = Event(name=environment.get("GITHUB_EVENT_NAME", ""))
    with contextlib.suppress(OnnxCiError):
        event = read_event(environment)
    if inputs.comment:
        comment.post(inputs, event, report)
    if inputs.status and event.head:
        comment.post_status(inputs, event, report, code=error.exit_code, commit="")
    return error.exit_code


def _readable_inputs(environment: Mapping[str, str]) -> Inputs:
    for names in ([*environment], ["INPUT_COMMENT", "INPUT_TOKEN"], ["INPUT_TOKEN"]):
        with contextlib.suppress(UsageError):
            return read_inputs({name: environment.get(name, "") for name in names})
    return Inputs()


def _write_files(report: RunReport, body: str, folder: Path, mode: Mode) -> dict[str, str]:
    """The report in all its forms; the outputs that say where."""
    write_to(body, str(folder / MARKDOWN))
    write_to(json.render_run(report), str(folder / JSON))
    write_to(html.render_run(report), str(folder / HTML))
    places = {"report": str(folder / JSON), "folder": str(folder)}
    return {**places, "artifact": artifact_name(mode), "comment-body": body}


def report_folder() -> Path:
    """A new one: an action may be used more than once in a job."""
    home = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "onnx-ci"
    home.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=home, prefix="report-"))


def artifact_name(mode: Mode) -> str:
    """Unlike that of any other job of the workflow; what an artifact may not be called is left out."""
    job = re.sub(r"[^A-Za-z0-9_.-]", "-", os.environ.get("GITHUB_JOB", ""))
    index = os.environ.get("ONNX_CI_JOB_INDEX", "")
    several = f"-{index}" if index.isdigit() and os.environ.get("ONNX_CI_JOB_TOTAL", "1") != "1" else ""
    return f"onnx-ci-{mode}-{job}{several}"


def _results_digest() -> str:
    """What is in the cache of results: it is saved under this name, and not again while nothing is added."""
    from onnx_ci.gate import cache

    try:
        names = sorted(path.name for path in cache.folder().iterdir() if path.suffix == cache.SUFFIX)
    except (OSError, RuntimeError):
        names = []
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] if names else ""
