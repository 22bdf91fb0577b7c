"""Inputs that are wrong are named; events say what to look at and whom to trust."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from onnx_ci.action.inputs import Event, Inputs, cut, read_event, read_inputs, write_outputs, write_summary
from onnx_ci.errors import EnvironmentFault, UsageError
from tests.support.workflows import PROJECT

HERE = "octo/models"


def test_what_is_not_given_has_its_default() -> None:
    assert read_inputs({}) == Inputs()
    assert read_inputs({"INPUT_MODE": "", "INPUT_FAIL_ON": " "}) == Inputs()


def test_every_input_is_read() -> None:
    given = {
        "INPUT_MODE": "commit",
        "INPUT_PATHS": "a b.onnx\n\n  models/ \n",
        "INPUT_FAIL_ON": "warning",
        "INPUT_POLICY_FROM": "base",
        "INPUT_COMMENT": "nightly",
        "INPUT_PUSH_ATTEMPTS": "5",
        "INPUT_CACHE": "False",
        "INPUT_EXTRAS": "simplify, compression",
        "INPUT_TOKEN": "secret",
        "ONNX_CI_JOB_TOKEN": "another",
    }
    inputs = read_inputs(given)
    assert inputs.paths == ("a b.onnx", "models/")
    assert (inputs.mode, inputs.fail_on, inputs.comment) == ("commit", "warning", "nightly")
    assert inputs.policy_from == "base"
    assert (inputs.push_attempts, inputs.cache, inputs.own_token) == (5, False, True)
    assert inputs.extras == ("simplify", "compression")
    assert "secret" not in repr(inputs)
    assert not read_inputs({**given, "ONNX_CI_JOB_TOKEN": "secret"}).own_token


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mode", "chek", "one of check, fix, commit, pull-request, comment"),
        ("fail-on", "errors", "one of error, warning, never"),
        ("policy-from", "main", "one of head, base"),
        ("all", "yes", "true or false"),
        ("cache", "1", "true or false"),
        ("push-attempts", "0", "a whole number from 1 to 20"),
        ("push-attempts", "99999999999999999999", "a whole number from 1 to 20"),
        ("push-attempts", "²", "a whole number from 1 to 20"),
        ("comment", "a/b", "true, false or a key: up to 50 letters"),
        ("comment", "a--b", "true, false or a key"),
        ("comment", "k" * 51, "true, false or a key"),
        ("extras", "simplify;rm", "names such as"),
        ("extras", "--index-url=http://x", "names such as"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(name: str, value: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_inputs({f"INPUT_{name.upper().replace('-', '_')}": value})
    assert f"input {name!r}: found " in caught.value.message
    assert expected in caught.value.message


def test_every_input_that_can_be_wrong_is_seen_before_anything_is_done() -> None:
    """A key of a comment was found to be wrong after the push."""
    action = yaml.safe_load((PROJECT / "action.yml").read_text())
    (prepare,) = (step for step in action["runs"]["steps"] if step.get("id") == "prepare")
    checked = {
        "mode",
        "paths",
        "since",
        "all",
        "fail-on",
        "comment",
        "push-attempts",
        "cache",
        "extras",
        "policy-from",
    }
    assert {f"INPUT_{name.upper().replace('-', '_')}" for name in checked} <= set(prepare["env"])


def test_two_ways_to_choose_models_are_one_too_many() -> None:
    with pytest.raises(UsageError, match="'since' and 'all'"):
        read_inputs({"INPUT_SINCE": "main", "INPUT_ALL": "true"})


def pull(source: str | None, name: str = "pull_request") -> Event:
    repo = None if source is None else {"full_name": source}
    head = {"ref": "feature", "sha": "a" * 40, "repo": repo}
    return Event(
        name=name, repository=HERE, ref="refs/pull/7/merge", payload={"pull_request": {"head": head}}
    )


def test_whose_code_it_is_and_whose_cache() -> None:
    assert not pull(HERE).is_fork
    assert pull(HERE).trusts_cache
    assert pull("stranger/models").is_fork
    assert not pull("stranger/models").trusts_cache
    assert pull(None).is_fork  # the fork was deleted
    assert not pull(HERE, "pull_request_target").trusts_cache
    run: dict[str, Any] = {"head_repository": {"full_name": "stranger/models"}, "head_branch": "main"}
    assert Event(name="workflow_run", repository=HERE, payload={"workflow_run": run}).is_fork
    assert not Event(name="workflow_run", repository=HERE, payload={"workflow_run": run}).trusts_cache
    assert Event(name="push", repository=HERE).trusts_cache


def test_what_is_compared_with() -> None:
    push = Event(name="push", ref="refs/heads/a/b", payload={"before": "b" * 40})
    assert (push.branch, push.since, push.everything) == ("a/b", "b" * 40, False)
    new = Event(name="push", ref="refs/heads/new", payload={"before": "0" * 40})
    assert (new.since, new.everything) == ("", True)
    queue = Event(name="merge_group", payload={"merge_group": {"base_sha": "c" * 40}})
    assert (queue.since, queue.everything) == ("c" * 40, False)
    assert Event(name="schedule", ref="refs/heads/main").everything
    assert not pull(HERE).everything
    assert Event(name="push", ref="refs/tags/v1").branch == ""


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "\udcff"])
def test_an_event_that_can_not_be_read_is_an_error_of_the_environment(content: str, tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(content, errors="surrogateescape")
    with pytest.raises(EnvironmentFault, match="GITHUB_EVENT_PATH"):
        read_event({"GITHUB_EVENT_PATH": str(tmp_path / "event.json")})


@pytest.mark.parametrize("payload", [[], {"pull_request": 3}, {"pull_request": {"head": None}}, None])
def test_an_event_of_another_shape_is_nobodys(payload: object, tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(json.dumps(payload))
    given = {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_EVENT_NAME": "pull_request"}
    event = read_event({**given, "GITHUB_REPOSITORY": HERE})
    assert (event.is_fork, event.branch, event.since) == (True, "", "")


def test_no_value_becomes_an_output_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    write_outputs({"a": "x\nevil=1\nEOF\nb<<EOF\n", "b": "y"})
    lines = (tmp_path / "out").read_text().split("\n")
    first, second = lines[0].removeprefix("a<<"), lines[-4].removeprefix("b<<")
    assert first != second
    assert len(first) > 30
    assert lines.count(first) == 1
    assert lines[1:5] == ["x", "evil=1", "EOF", "b<<EOF"]


def test_the_summary_stays_within_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary"
    path.write_text("said before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    write_summary("é line\n" * 200_000)
    assert path.stat().st_size <= 1 << 20
    assert path.read_text().endswith("the whole report is in the artifact.\n")
    assert cut("short", 10) == "short"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["check", "comment"])
def test_a_python_without_any_package_prepares_the_action(tmp_path: Path, mode: str) -> None:
    start = PROJECT / "onnx_ci" / "action" / "start.py"
    outputs = tmp_path / "outputs"
    environment = {"INPUT_MODE": mode, "RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(outputs)}
    command = [sys.executable, "-I", "-S", str(start)]
    subprocess.run([*command, "prepare"], env=environment, check=True)
    assert "results-key<<" in outputs.read_text()
    if mode == "comment":  # which needs no package either
        done = subprocess.run(
            [*command, "run"], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert "there is no report" in done.stdout
