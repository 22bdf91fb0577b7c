"""Mode `comment`: a report that a run left, in the pull request that GitHub says the run was of."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.action.comment import LONGEST, mark
from onnx_ci.action.inputs import Event, Inputs
from tests.support.comments import comment_step, finished
from tests.support.github import GitHub
from tests.support.reports import outcome, run_report
from tests.support.workflows import REPOSITORY

pytestmark = pytest.mark.real


def test_the_report_of_a_fork_is_put_into_its_pull_request(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("of a fork", fork=True)
    step = comment_step(github, tmp_path, run_report(), finished(pull))
    [comment] = github.comments(pull["number"])
    assert step.code == "0"
    assert comment["body"] == f"{mark('default')}\n{step.outputs['comment-body']}"
    assert "models/encoder.onnx" in comment["body"]
    assert "made by a run of code from <code>stranger/models</code>" in comment["body"]
    assert "The run: failure." in comment["body"]
    assert f"https://github.com/{REPOSITORY}/actions/runs/4711" in comment["body"]
    assert step.summary == ""
    assert "::" not in step.log


def test_a_second_run_changes_it_in_place(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("again", fork=True)
    for path in ("first.onnx", "second.onnx", "second.onnx"):
        comment_step(github, tmp_path, run_report(path), finished(pull))
    [comment] = github.comments(pull["number"])
    assert "second.onnx" in comment["body"]
    assert len(github.made("PATCH")) == 1


def test_a_branch_of_the_repository_itself(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("of our own")
    comment_step(github, tmp_path, run_report(), finished(pull))
    [comment] = github.comments(pull["number"])
    assert "code from" not in comment["body"]


def test_in_a_pull_request_the_number_is_in_the_event(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("directly")
    step = comment_step(
        github, tmp_path, run_report(), {"pull_request": pull}, name="pull_request", comment="matrix"
    )
    [comment] = github.comments(pull["number"])
    assert comment["body"].startswith(mark("matrix"))
    assert f"/{REPOSITORY}/actions/runs/77" in comment["body"]
    assert not [call for call in github.calls if "/pulls" in call.path]
    assert step.code == "0"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"head_sha": "f" * 40}, "has moved on since"),
        ({"head_branch": "another"}, "no open pull request"),
        ({"event": "push"}, "not of a pull request"),
        ({"head_repository": None}, "is gone"),
        ({"head_repository": {"id": 1, "full_name": "x/y", "owner": {"login": "stranger"}}}, "no open pull"),
    ],
)
def test_no_other_pull_request_gets_it(
    github: GitHub, tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    """Whatever is the same: the branch's name, the owner, the commit."""
    pull = github.pull(f"not this {why}", fork=True)
    step = comment_step(github, tmp_path, run_report(), finished(pull, **changes))
    assert (step.code, github.made("POST"), github.made("PATCH")) == ("0", [], [])
    assert why in step.log
    assert "models/encoder.onnx" in step.summary


def test_a_closed_pull_request_gets_none(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("closed", fork=True)
    github.ask("PATCH", f"/repos/{REPOSITORY}/pulls/{pull['number']}", {"state": "closed"})
    step = comment_step(github, tmp_path, run_report(), finished(pull))
    assert "it was closed" in step.log
    assert not github.comments(pull["number"])


def test_two_with_the_same_head_are_told_apart_or_left_alone(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("twice")
    other = github.ask(
        "POST", f"/repos/{REPOSITORY}/pulls", {"title": "x", "head": "twice", "base": "release"}
    )
    comment_step(github, tmp_path, run_report(), finished(pull))
    assert (len(github.comments(pull["number"])), len(github.comments(other["number"]))) == (1, 0)
    step = comment_step(github, tmp_path, run_report(), finished(pull, pull_requests=[]))
    assert "2 open pull requests have this head" in step.log


@pytest.mark.parametrize(("state", "comments"), [("open", 1), ("closed", 0)])
def test_the_pull_request_is_found_by_its_commit_where_the_branch_says_nothing(
    github: GitHub, tmp_path: Path, state: str, comments: int
) -> None:
    """GitHub names closed ones too when it is asked by commit."""
    pull = github.pull(f"renamed since, {state}")
    found = json.dumps([{**pull, "state": state}]).encode()
    asked = f"/commits/{pull['head']['sha']}/pulls"
    github.fault = lambda call: (200, {}, found) if asked in call.path else None
    comment_step(github, tmp_path, run_report(), finished(pull, head_branch="before"))
    assert len(github.comments(pull["number"])) == comments


def test_where_github_does_not_say_who_we_are_it_is_its_own_bot(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("who", fork=True)
    unknown: tuple[int, dict[str, str], bytes] = (404, {}, b"{}")
    github.fault = lambda call: unknown if call.path in ("/graphql", "/user") else None
    for path in ("a.onnx", "b.onnx"):
        comment_step(github, tmp_path, run_report(path), finished(pull))
    [comment] = github.comments(pull["number"])
    assert "b.onnx" in comment["body"]


@pytest.mark.parametrize("token", ["read", "", "unknown"])
def test_where_the_token_may_not_write_the_summary_has_it(github: GitHub, tmp_path: Path, token: str) -> None:
    pull = github.pull(f"token {token or 'empty'}", fork=True)
    if token == "unknown":  # the emulator knows everyone
        github.fault = lambda _: (401, {}, b'{"message": "Bad credentials"}')
    step = comment_step(
        github, tmp_path, run_report(), {"pull_request": pull}, name="pull_request", token=token
    )
    assert step.code == "0"
    assert "::notice title=onnx-ci::no comment was written" in step.log
    assert "examples/fork-comment.yml" in step.log
    assert "::error file=" in step.log
    assert step.outputs["comment-body"] in step.summary
    assert not github.comments(pull["number"])


def test_without_the_permission_the_permission_is_named(github: GitHub, tmp_path: Path) -> None:
    """In a pull request of the repository itself, and in the workflow that comments for forks."""
    own, forks = github.pull("no permission"), github.pull("none either", fork=True)
    for name, event in (("pull_request", {"pull_request": own}), ("workflow_run", finished(forks))):
        step = comment_step(github, tmp_path, run_report(), event, name=name, token="read")
        assert "pull-requests: write" in step.log
        assert "fork-comment" not in step.log


def test_a_run_that_told_everything_only_says_why_there_is_no_comment(
    github: GitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnx_ci.action.comment import post

    monkeypatch.setenv("GITHUB_API_URL", github.url)
    for event in (
        Event(name="push", repository=REPOSITORY),
        Event(name="merge_group", repository=REPOSITORY),
    ):
        post(Inputs(comment="default", token=github.tokens["write"]), event, run_report())
    assert capsys.readouterr().out.count("this event is of no pull request") == 2
    assert not github.calls


def test_a_long_report_is_shortened_to_what_github_takes(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("long", fork=True)
    many = replace(run_report(), outcomes=tuple(outcome(f"models/{'🌈' * 50}{n}.onnx") for n in range(900)))
    comment_step(github, tmp_path, many, finished(pull))
    [comment] = github.comments(pull["number"])
    assert len(comment["body"]) <= LONGEST
    assert "left out" in comment["body"]
    assert "actions/runs/4711" in comment["body"]


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"[]", b'{"version": 2}', b'{"version": 1, "models": [{}]}', b"[" * 99_999],
)
def test_a_report_that_is_none_is_refused(github: GitHub, tmp_path: Path, content: bytes) -> None:
    pull = github.pull(f"bad {len(content)}", fork=True)
    step = comment_step(github, tmp_path, content, finished(pull))
    assert step.code == "2"
    assert re.search(r"::error title=onnx-ci::.*report\.json", step.log)
    [comment] = github.comments(pull["number"])
    assert "onnx-ci could not run: no model was judged" in comment["body"]


def test_an_older_verdict_does_not_stand_where_there_is_no_report(github: GitHub, tmp_path: Path) -> None:
    pull = github.pull("no report", fork=True)
    comment_step(github, tmp_path, run_report(), finished(pull))
    step = comment_step(github, tmp_path, run_report(), finished(pull), paths=str(tmp_path / "none"))
    assert step.code == "2"
    [comment] = github.comments(pull["number"])
    assert "onnx-ci could not run: no model was judged" in comment["body"]
    assert "there is no report" in comment["body"]


def test_a_link_is_no_report(github: GitHub, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside):
        folder.mkdir()
    (inside / "report.json").symlink_to("/etc/passwd")
    step = comment_step(github, outside, run_report(), {}, paths=str(inside))
    assert step.code == "2"
    assert "there is no report" in step.log


def test_mode_comment_takes_one_report(github: GitHub, tmp_path: Path) -> None:
    step = comment_step(github, tmp_path, run_report(), {}, paths="a\nb")
    assert step.code == "2"
    assert "found 2 names" in step.log
