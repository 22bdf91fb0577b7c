"""One call of the action: what its step asks for, done, and whatever goes wrong as an annotation."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from onnx_ci.entry.github.event import Event, read_event
from onnx_ci.entry.github.inputs import Inputs, read_inputs
from onnx_ci.entry.github.outputs import write_outputs
from onnx_ci.entry.guard import guarded
from onnx_ci.errors import OnnxCiError, PolicyError, UsageError

STEPS = ("prepare", "install", "run")


def main(arguments: Sequence[str]) -> int:
    """`prepare` and `install` stop the job where they fail; `run` leaves that to the last step of the action,
    so that reports are kept and caches saved before."""
    given, errors = dict(os.environ), list[OnnxCiError]()
    code = guarded(lambda: _step(list(arguments)), errors.append)
    for error in errors:
        _complain(error, list(arguments), given)
    if code:
        write_outputs({"exit-code": str(code), "verdict": str(code)})
    return 0 if list(arguments) == ["run"] else code


def _step(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in STEPS:
        raise UsageError(f"found {arguments}, expected one of {', '.join(STEPS)}")
    inputs, event = read_inputs(os.environ), read_event(os.environ)
    for name in ("INPUT_TOKEN", "ONNX_CI_JOB_TOKEN"):  # nobody we start needs them
        os.environ.pop(name, None)
    if arguments[0] == "run":
        return _run(inputs, event)
    from onnx_ci.entry.github import install

    if arguments[0] == "prepare":
        install.prepare(inputs, event, os.environ)
    else:
        install.install(inputs, os.environ)
    return 0


def _run(inputs: Inputs, event: Event) -> int:
    if inputs.mode == "comment":
        from onnx_ci.entry.github import comment

        code = comment.run(inputs, event)
        write_outputs({"exit-code": str(code), "verdict": str(code)})
        return 0
    from onnx_ci.entry.github.modes import run_mode

    run_mode(inputs, event)
    return 0


def _complain(error: OnnxCiError, arguments: list[str], given: dict[str, str]) -> None:
    """First in the log, which always works; then wherever else somebody may look."""

    def told() -> int:
        from onnx_ci.entry.github.could_not import tell_of

        tell_of(error, " ".join(arguments), given)
        return 0

    annotate(error)
    guarded(told, annotate)


def annotate(error: OnnxCiError) -> None:
    """As an annotation, on the line of the policy where it is about that."""
    from onnx_ci.report.github import Annotation
    from onnx_ci.report.style import one_line

    file, line = (error.file, error.line) if isinstance(error, PolicyError) else ("", 0)
    message = "\n".join(filter(None, [error.message, error.hint]))
    shown = Annotation(kind="error", file=file, line=line, title="onnx-ci", message=message)
    sys.stdout.write(f"{shown}\n")
    sys.stderr.write(f"onnx-ci: {one_line(error.message)}\n")
