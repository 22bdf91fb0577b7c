"""Mode check with `comment: true`: the verdict in the pull request, and the same if it is not written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onnx_ci.action.comment import mark
from tests.support import github as emulated
from tests.support.action import Called, call
from tests.support.comments import surroundings
from tests.support.pull_requests import Hosted

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def github() -> Iterator[emulated.GitHub]:
    with emulated.github() as found:
        yield found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Hosted:
    made = Hosted(tmp_path_factory.mktemp("host"))
    made.add_model()
    made.push("a bloated model")
    return made


def checked(host: Hosted, github: emulated.GitHub, cache: str, branch: str, token: str) -> tuple[Called, int]:
    pull = github.pull(branch, fork=True)
    head = host.author.git("rev-parse", "HEAD").strip()
    also = {**surroundings(github), "ONNX_CI_CACHE": cache, "GITHUB_SHA": head}
    inputs: dict[str, Any] = {"comment": "true", "all": "true", "token": github.tokens[token]}
    return call(host.author.root, "pull_request", {"pull_request": pull}, also=also, **inputs), pull["number"]


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("proven"))


def test_the_comment_has_what_the_summary_has(host: Hosted, github: emulated.GitHub, proven: str) -> None:
    done, pull = checked(host, github, proven, "written", "write")
    [comment] = github.comments(pull)
    assert done.code == "1"
    assert comment["body"].startswith(f"{mark('default')}\n{done.outputs['comment-body']}")
    assert "models/a.onnx" in comment["body"]
    assert "actions/runs/77" in comment["body"]


def test_a_token_that_can_only_read_changes_nothing_else(
    host: Hosted, github: emulated.GitHub, proven: str
) -> None:
    done, pull = checked(host, github, proven, "refused", "read")
    assert (done.code, done.outputs["verdict"]) == ("1", "1")
    assert "examples/fork-comment.yml" in done.log
    assert done.summary.count("onnx-ci failed") == 1
    assert done.log.count("::error file=models/a.onnx") == 1
    assert not github.comments(pull)


@pytest.mark.parametrize(
    ("step", "wrong"),
    [("run", {"policy": "none.yaml"}), ("run", {"fail_on": "nothing"}), ("prepare", {"fail_on": "nothing"})],
)
def test_a_run_that_can_not_judge_does_not_leave_an_older_verdict(
    host: Hosted, github: emulated.GitHub, proven: str, step: str, wrong: dict[str, str]
) -> None:
    _, pull = checked(host, github, proven, f"could not {step} {wrong}", "write")
    event = {"pull_request": {"number": pull}}
    inputs: dict[str, Any] = {"comment": "true", "all": "true", "token": github.tokens["write"], **wrong}
    done = call(host.author.root, "pull_request", event, also=surroundings(github), step=step, **inputs)
    assert done.code == "2"
    [comment] = github.comments(pull)
    assert "onnx-ci could not run: no model was judged" in comment["body"]
    assert ("none.yaml" if "policy" in wrong else "fail-on") in comment["body"]
    assert "could not run" in done.summary
    assert "::error title=onnx-ci::" in done.log
    if step == "run":
        assert [finding["code"] for finding in done.report["findings"]] == ["OCI041"]
        assert done.outputs["artifact"].startswith("onnx-ci-check-")
