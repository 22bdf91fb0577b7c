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
from onnx_ci.errors import OnnxCiError, PolicyError, UsageError
from onnx_ci.gate.cache import SUFFIX
from onnx_ci.gate.cache import folder as outcomes_folder
from onnx_ci.report import annotations as github
from onnx_ci.report import html, json, markdown
from onnx_ci.report.annotations import Annotation
from onnx_ci.report.markdown import prose
from onnx_ci.results import COULD_NOT, Command, Finding, RunReport

JSON, HTML, MARKDOWN = "report.json", "report.html", "report.md"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What there is to tell. `refused` says why nothing was committed although something was to be."""

    report: RunReport
    changed: bool = False
    commit: str = ""
    refused: str = ""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return self.report.exit_code or int(bool(self.refused))


def tell(told: Told, inputs: Inputs, event: Event, folder: Path) -> None:
    report = replace(told.report, notes=(*told.report.notes, *told.notes))
    body = _refusal(told) + markdown.render_run(report, markdown.COMMENT - len(_refusal(told).encode()))
    write_files(report, body, folder)
    write_to(github.render_github(report), "")
    _annotate(told)
    write_summary(_refusal(told) + markdown.render_run(report, markdown.SUMMARY))
    write_outputs(_outputs(told, inputs, folder, body))
    if inputs.comment:
        comment.post(inputs, event, report, before=_refusal(told))


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


def _refusal(told: Told) -> str:
    return f"> **Not committed:** {prose(told.refused)}\n\n" if told.refused else ""


def _annotate(told: Told) -> None:
    lines = [("error", told.refused)] if told.refused else []
    lines += [("notice", note) for note in told.notes]
    for kind, message in lines:
        shown = Annotation(kind=kind, file="", line=0, title="onnx-ci", message=message)
        sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


def _outputs(told: Told, inputs: Inputs, folder: Path, body: str) -> dict[str, str]:
    code = told.exit_code or int(inputs.fail_on == "warning" and _warns(told.report))
    return {
        "exit-code": str(code),
        "verdict": "0" if inputs.fail_on == "never" and code == 1 else str(code),
        "changed": str(told.changed).lower(),
        "committed": str(bool(told.commit)).lower(),
        "commit-sha": told.commit,
        "bytes-before": str(told.report.size_before),
        "bytes-after": str(told.report.size_after),
        "report": str(folder / JSON),
        "folder": str(folder),
        "artifact": artifact_name(inputs.mode),
        "results-digest": _results_digest(),
        "comment-body": body,
    }


def _warns(report: RunReport) -> bool:
    everything = [*report.findings, *(f for outcome in report.outcomes for f in outcome.findings)]
    return any(finding.severity == "warning" for finding in everything)


def artifact_name(mode: Mode) -> str:
    """Unlike that of any other job of the workflow; what an artifact may not be called is left out."""
    job = re.sub(r"[^A-Za-z0-9_.-]", "-", os.environ.get("GITHUB_JOB", ""))
    index = os.environ.get("ONNX_CI_JOB_INDEX", "")
    several = f"-{index}" if index.isdigit() and os.environ.get("ONNX_CI_JOB_TOTAL", "1") != "1" else ""
    return f"onnx-ci-{mode}-{job}{several}"


def _results_digest() -> str:
    """What is in the cache of results: it is saved under this name, and not again while nothing is added."""
    try:
        names = sorted(path.name for path in outcomes_folder().iterdir() if path.suffix == SUFFIX)
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
    file, line = (error.file, error.line) if isinstance(error, PolicyError) else ("", 0)
    found = Finding(
        code=COULD_NOT, severity="error", message=error.message, hint=error.hint, file=file, line=line
    )
    return RunReport(command=command, outcomes=(), findings=(found,))


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
