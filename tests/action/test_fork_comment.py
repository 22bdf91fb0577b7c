"""examples/fork-comment.yml in act: what the run of a fork left gets into its pull request."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.action.comment import mark
from onnx_ci.report.json import render_run
from tests.support import github as emulated
from tests.support.comments import finished, surroundings
from tests.support.git_repo import Repository
from tests.support.hostile_names import EVERYTHING
from tests.support.reports import run_report
from tests.support.workflows import PROJECT, Act, Ran

pytestmark = pytest.mark.real

ARTIFACT = "onnx-ci-check-models"


@pytest.fixture(scope="module")
def github() -> Iterator[emulated.GitHub]:
    with emulated.github() as found:
        yield found


def ran(act: Act, github: emulated.GitHub, folder: Path, event: dict[str, Any], token: str = "write") -> Ran:
    """The workflow in a repository of its own, with a hostile report as the artifact of the run before."""
    base = Repository(folder / "base")
    workflows = base.root / ".github" / "workflows"
    workflows.mkdir(parents=True)
    shutil.copy(PROJECT / "examples" / "fork-comment.yml", workflows)
    base.commit_all("the workflow")
    left = folder / "artifacts" / ARTIFACT
    left.mkdir(parents=True)
    (left / "report.json").write_text(render_run(run_report(EVERYTHING, EVERYTHING)))
    (left / "action.yml").write_text("not looked at")
    github.known_as["not-a-token"] = github.tokens[token]
    also: dict[str, Any] = {**surroundings(github)}
    return act.run(
        "workflow_run",
        event,
        folder=base.root,
        remote=base.root,
        artifacts=folder / "artifacts",
        **also,
    )


def test_the_report_gets_into_the_pull_request_of_the_fork(
    act: Act, github: emulated.GitHub, tmp_path: Path
) -> None:
    pull = github.pull("feature", fork=True)
    done = ran(act, github, tmp_path, finished(pull))
    assert done.code == 0, done.log
    [comment] = github.comments(pull["number"])
    assert comment["user"]["login"] == "github-actions[bot]"
    assert comment["body"].startswith(f"{mark('default')}\n> [!NOTE]\n")
    assert "::error::owned" not in [line.split("| ")[-1] for line in done.log.splitlines()]


def test_without_the_right_to_comment_the_job_still_ends_well(
    act: Act, github: emulated.GitHub, tmp_path: Path
) -> None:
    pull = github.pull("refused", fork=True)
    done = ran(act, github, tmp_path, finished(pull), token="read")
    assert done.code == 0, done.log
    assert done.said("no comment was written")
    assert not github.comments(pull["number"])


@pytest.mark.parametrize("changes", [{"event": "push"}, {"conclusion": "cancelled"}])
def test_other_runs_are_not_commented_on(
    act: Act, github: emulated.GitHub, tmp_path: Path, changes: dict[str, str]
) -> None:
    pull = github.pull(f"not {changes}", fork=True)
    github.calls.clear()
    done = ran(act, github, tmp_path, finished(pull, **changes))
    assert done.code == 0, done.log
    assert not github.calls
