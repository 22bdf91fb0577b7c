"""One call of the action: what its step asks for, done, and whatever goes wrong as an annotation."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onnx_ci.action import comment, install
from onnx_ci.action.inputs import Event, Inputs, read_event, read_inputs, write_outputs
from onnx_ci.action.reports import ActionResult, report_failure, report_folder, report_run
from onnx_ci.cli.main import guarded
from onnx_ci.errors import OnnxCiError, UsageError
from onnx_ci.repo.git import find_root
from onnx_ci.report.annotations import Annotation
from onnx_ci.util.text import one_line

STEPS = ("prepare", "install", "run")


def main(arguments: Sequence[str]) -> int:
    """`prepare` and `install` stop the job where they fail; `run` leaves that to the last step of the action,
    so that reports are kept and caches saved before."""
    step, given = list(arguments), dict(os.environ)

    def complain(error: OnnxCiError) -> None:
        """First in the log, which always works; then wherever else somebody may look."""
        annotate(error)
        guarded(lambda: report_failure(error, " ".join(step), given), annotate)

    code = guarded(lambda: _step(step), complain)
    if code:
        write_outputs({"exit-code": str(code), "verdict": str(code)})
    return 0 if step == ["run"] else code


def _step(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in STEPS:
        raise UsageError(f"found {arguments}, expected one of {', '.join(STEPS)}")
    inputs, event = read_inputs(os.environ), read_event(os.environ)
    for name in ("INPUT_TOKEN", "ONNX_CI_JOB_TOKEN"):  # nobody we start needs them
        os.environ.pop(name, None)
    if arguments[0] == "prepare":
        install.prepare(inputs, event)
    elif arguments[0] == "install":
        install.install(inputs)
    elif inputs.mode == "comment":
        comment.run(inputs, event)
        write_outputs({"exit-code": "0", "verdict": "0"})
    else:
        run_mode(inputs, event)
    return 0


def annotate(error: OnnxCiError) -> None:
    """As an annotation, on the line of the policy where it is about that."""
    message = "\n".join(filter(None, [error.message, error.hint]))
    annotation = Annotation(kind="error", message=message, file=error.file, line=error.line)
    sys.stdout.write(f"{annotation}\n")
    sys.stderr.write(f"onnx-ci: {one_line(error.message)}\n")


def run_mode(inputs: Inputs, event: Event) -> None:
    """All modes but `comment`. What they load is there only after the step `install`."""
    from onnx_ci.action.commit import run_commit, run_pull_request
    from onnx_ci.action.push import git_settings, judged, lfs_filter, refuse_other_checkout, signed_in

    _give_cache_a_key(event)
    inputs = _in_its_repository(inputs)
    folder, root = report_folder(), find_root(Path.cwd())
    place = root or Path.cwd()
    # In a container the checkout belongs to another user, and git would refuse to look at it.
    with git_settings((("safe.directory", str(place)),)), git_settings(lfs_filter(place)):
        if root is not None:
            with signed_in(inputs.token):
                refuse_other_checkout(event, root)
        if inputs.mode == "commit":
            result = run_commit(inputs, event, root, folder)
        elif inputs.mode == "pull-request":
            result = run_pull_request(inputs, event, root, folder)
        else:
            report = judged(inputs.mode, inputs, event)
            result = ActionResult(report=report, changed=any(outcome.written for outcome in report.outcomes))
    report_run(result, inputs, event, folder)


def _in_its_repository(inputs: Inputs) -> Inputs:
    """With `path` of the checkout the repository is in a folder below: that of the policy or the paths."""
    here = Path.cwd().resolve()
    named = [(here / name).resolve() for name in (inputs.policy, *inputs.paths) if name]
    roots = {find_root(path if path.is_dir() else path.parent) for path in named}
    root = roots.pop() if len(roots) == 1 else None
    if find_root(here) is not None or root is None or not root.is_relative_to(here):
        return inputs
    os.chdir(root)
    policy = str(here / inputs.policy) if inputs.policy else ""
    return replace(inputs, policy=policy, paths=tuple(str(here / name) for name in inputs.paths))


def _give_cache_a_key(event: Event) -> None:
    """Entries are believed if they are signed. Without a secret the repository's name signs them, and only
    where GitHub itself keeps strangers from writing to the cache that is restored."""
    if event.trusts_cache and event.repository and os.environ.get("GITHUB_ACTIONS") == "true":
        os.environ.setdefault("ONNX_CI_CACHE_KEY", f"github-actions:{event.repository}")
