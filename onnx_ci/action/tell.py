"""Tells what came of a run: annotations, summary, report files, outputs, and a comment if wanted."""

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
from onnx_ci.action.inputs import (
    DEFAULT_KEY,
    Event,
    Inputs,
    Mode,
    comment_key,
    read_event,
    read_inputs,
    write_outputs,
    write_summary,
)
from onnx_ci.cli.output import write_to
from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.report import html, json, markdown
from onnx_ci.report.annotations import Annotation, render_github
from onnx_ci.report.markdown import prose
from onnx_ci.results import COULD_NOT, Command, Finding, RunReport

JSON, HTML, MARKDOWN = "report.json", "report.html", "report.md"


@dataclass(frozen=True, kw_only=True)
class ActionResult:
    """What there is to tell. `refused` says why nothing was committed although something was to be."""

    report: RunReport
    changed: bool = False
    commit: str = ""
    refused: str = ""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return self.report.exit_code or int(bool(self.refused))


def tell(result: ActionResult, inputs: Inputs, event: Event, folder: Path) -> None:
    report = replace(result.report, notes=(*result.report.notes, *result.notes))
    body = _refusal(result) + markdown.render_run(report, markdown.COMMENT - len(_refusal(result).encode()))
    write_files(report, body, folder)
    write_to(render_github(report), "")
    _annotate(result)
    write_summary(_refusal(result) + markdown.render_run(report, markdown.SUMMARY))
    write_outputs(_outputs(result, inputs, folder, body))
    if inputs.comment:
        comment.post(inputs, event, report, before=_refusal(result))


def write_files(report: RunReport, body: str, folder: Path) -> str:
    """The report in all its forms; where the JSON is."""
    write_to(body, str(folder / MARKDOWN))
    write_to(json.render_run(report), str(folder / JSON))
    write_to(html.render_run(report), str(folder / HTML))
    return str(folder / JSON)


def report_folder() -> Path:
    """A new one: an action may be used more than once in a job."""
    home = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "onnx-ci"
    home.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=home, prefix="report-"))


def _refusal(result: ActionResult) -> str:
    return f"> **Not committed:** {prose(result.refused)}\n\n" if result.refused else ""


def _annotate(result: ActionResult) -> None:
    if result.refused:
        sys.stdout.write(f"{Annotation(kind='error', message=result.refused)}\n")
    for note in result.notes:
        sys.stdout.write(f"{Annotation(kind='notice', message=note)}\n")
    sys.stdout.flush()


def _outputs(result: ActionResult, inputs: Inputs, folder: Path, body: str) -> dict[str, str]:
    code = result.exit_code or int(inputs.fail_on == "warning" and _warns(result.report))
    return {
        "exit-code": str(code),
        "verdict": "0" if inputs.fail_on == "never" and code == 1 else str(code),
        "changed": str(result.changed).lower(),
        "committed": str(bool(result.commit)).lower(),
        "commit-sha": result.commit,
        "bytes-before": str(result.report.size_before),
        "bytes-after": str(result.report.size_after),
        "report": str(folder / JSON),
        "folder": str(folder),
        "artifact": artifact_name(inputs.mode),
        "results-digest": _results_digest(),
        "comment-body": body,
    }


def _warns(report: RunReport) -> bool:
    return any(finding.severity == "warning" for finding in report.all_findings)


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


def tell_of(error: OnnxCiError, step: str, environment: Mapping[str, str]) -> None:
    """Whatever went wrong, inputs and event included: then as much of it as can be read."""
    inputs, event = _inputs(environment), _event(environment)
    report = _report(error, inputs.mode)
    text = markdown.render_run(report)
    write_summary(text)
    if step == "run" and inputs.mode != "comment":
        folder = report_folder()
        kept = {"report": write_files(report, text, folder), "folder": str(folder)}
        write_outputs({**kept, "artifact": artifact_name(inputs.mode), "comment-body": text})
    if inputs.comment:
        comment.post(inputs, event, report)


def _report(error: OnnxCiError, command: Command) -> RunReport:
    finding = Finding(
        code=COULD_NOT,
        severity="error",
        message=error.message,
        hint=error.hint,
        file=error.file,
        line=error.line,
    )
    return RunReport(command=command, outcomes=(), findings=(finding,))


def _inputs(environment: Mapping[str, str]) -> Inputs:
    with contextlib.suppress(UsageError):
        inputs = read_inputs(environment)
        key = inputs.comment or (DEFAULT_KEY if inputs.mode == "comment" else "")
        return Inputs(mode=inputs.mode, comment=key, token=inputs.token)
    key = ""
    with contextlib.suppress(UsageError):
        key = comment_key(environment)
    return Inputs(comment=key, token=environment.get("INPUT_TOKEN", "").strip())


def _event(environment: Mapping[str, str]) -> Event:
    with contextlib.suppress(OnnxCiError):
        return read_event(environment)
    return Event(name=environment.get("GITHUB_EVENT_NAME", ""))
