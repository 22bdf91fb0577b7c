"""Calls mode `comment` as a workflow does: inputs and event in the environment, answers in files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from command import plain_environment
from emulated import REPOSITORY, GitHub

from onnx_ci.entry.github.comment import run
from onnx_ci.entry.github.event import read_event
from onnx_ci.entry.github.inputs import read_inputs
from onnx_ci.report.json import render_run
from onnx_ci.results import RunReport


@dataclass(frozen=True)
class Step:
    """What a step left."""

    code: int
    log: str
    summary: str
    outputs: dict[str, str]


def comment_step(
    github: GitHub,
    folder: Path,
    report: RunReport | bytes,
    event: dict[str, Any],
    *,
    name: str = "workflow_run",
    token: str = "write",
    **inputs: str,
) -> Step:
    """`inputs` are those of the action, with _ for -."""
    (folder / "report.json").write_bytes(report if isinstance(report, bytes) else render_run(report).encode())
    (folder / "event.json").write_text(json.dumps(event))
    for file in ("output", "summary"):
        (folder / file).write_text("")
    given = {"paths": str(folder), "token": github.tokens.get(token, token), "mode": "comment", **inputs}
    environment = {
        **plain_environment(),
        "GITHUB_API_URL": github.url,
        "GITHUB_GRAPHQL_URL": f"{github.url}/graphql",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "77",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        **{f"INPUT_{key.upper()}": value for key, value in given.items()},
    }
    log = io.StringIO()
    with mock.patch.dict(os.environ, environment, clear=True), contextlib.redirect_stdout(log):
        code = run(read_inputs(os.environ), read_event(os.environ))
    return Step(code, log.getvalue(), (folder / "summary").read_text(), outputs(folder / "output"))


def outputs(file: Path) -> dict[str, str]:
    """As the runner reads the file."""
    found = re.finditer(r"^(.+?)<<(.+)\n((?:.*\n)*?)\2\n", file.read_text(), re.MULTILINE)
    return {match[1]: match[3][:-1] for match in found}


def finished(pull: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The event of a run of a pull request, as GitHub tells it: those of forks it does not name."""
    source = pull["head"]["repo"]
    inside = source["full_name"] == REPOSITORY
    run = {
        "id": 4711,
        "event": "pull_request",
        "conclusion": "failure",
        "head_sha": pull["head"]["sha"],
        "head_branch": pull["head"]["ref"],
        "head_repository": source,
        "pull_requests": [{"number": pull["number"]}] if inside else [],
        **changes,
    }
    return {"action": "completed", "workflow_run": run}
