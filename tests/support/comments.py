"""Calls mode `comment` as a workflow does, with a report that an earlier run has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx_ci.report.json import render_run
from onnx_ci.results import RunReport
from tests.support.action import Called, call
from tests.support.github import GitHub
from tests.support.workflows import REPOSITORY


def comment_step(
    github: GitHub,
    folder: Path,
    report: RunReport | bytes,
    event: dict[str, Any],
    *,
    name: str = "workflow_run",
    token: str = "write",
    **inputs: str,
) -> Called:
    """`inputs` are those of the action, with _ for -."""
    left = folder / "left"
    left.mkdir(exist_ok=True)
    (left / "report.json").write_bytes(report if isinstance(report, bytes) else render_run(report).encode())
    given: dict[str, Any] = {
        "paths": str(left),
        "token": github.tokens.get(token, token),
        "mode": "comment",
        **inputs,
    }
    return call(left, name, event, also=surroundings(github), **given)


def surroundings(github: GitHub) -> dict[str, str]:
    """What a runner tells of where it is."""
    return {
        "GITHUB_API_URL": github.url,
        "GITHUB_GRAPHQL_URL": f"{github.url}/graphql",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "77",
    }


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
