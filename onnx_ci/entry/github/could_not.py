"""A run that could not judge: told in report, summary and comment, where an older verdict may stand."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from onnx_ci.entry.github import comment
from onnx_ci.entry.github.event import Event, read_event
from onnx_ci.entry.github.inputs import DEFAULT_KEY, Inputs, comment_key, read_inputs
from onnx_ci.entry.github.outputs import write_outputs, write_summary
from onnx_ci.entry.github.tell import artifact_name, report_folder, write_files
from onnx_ci.errors import OnnxCiError, PolicyError, UsageError
from onnx_ci.findings import COULD_NOT, Finding
from onnx_ci.report import markdown
from onnx_ci.results import RunReport


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


def _report(error: OnnxCiError, command: str) -> RunReport:
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
