"""A pull request is judged by what it brings, never by the branch that it is to go to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.action import Called, call
from tests.support.git_repo import Repository
from tests.support.pull_requests import Hosted

pytestmark = pytest.mark.sampled(2)

WRONG = "is not in what is checked out"


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("proven"))


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hosted, dict[str, Any]]:
    """A pull request with a bloated model, and main, which has moved on since."""
    host = Hosted(tmp_path_factory.mktemp("host"))
    host.author.git("checkout", "--quiet", "-B", "work")
    host.add_model()
    event = host.pull_request("feature")
    host.author.git("checkout", "--quiet", "-B", "main", "origin/main")
    (host.author.root / "other.txt").write_text("x")
    host.push("other work")
    return host, event


def at(host: Hosted, name: str, ref: str, *arguments: str) -> Repository:
    clone = host.clone(name, *arguments)
    clone.git("fetch", "--quiet", *arguments, "origin", ref)
    clone.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    return clone


def check(folder: Path, event: dict[str, Any], proven: str, name: str, **inputs: Any) -> Called:
    also = {"GITHUB_BASE_REF": "main", "ONNX_CI_CACHE": proven, "GITHUB_SHA": "b" * 40}
    return call(folder, name, event, also=also, **inputs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["check", "fix", "commit"])
@pytest.mark.parametrize("depth", [(), ("--depth=1",)])
def test_the_base_is_not_judged_in_its_place(
    hosted: tuple[Hosted, dict[str, Any]], proven: str, mode: str, depth: tuple[str, ...]
) -> None:
    host, event = hosted
    clone = host.clone(f"base-{mode}-{len(depth)}", *depth, branch="main")
    for name in ("pull_request", "pull_request_target"):
        done = check(clone.root, event, proven, name, mode=mode)
        assert (done.code, done.outputs["verdict"]) == ("2", "2")
        assert WRONG in done.log
        assert "github.head_ref" in done.log


@pytest.mark.sampled(2)
@pytest.mark.parametrize("depth", [(), ("--depth=1",)])
@pytest.mark.parametrize("ref", ["refs/pull/7/merge", "refs/heads/feature"])
def test_what_has_the_head_is_judged(
    hosted: tuple[Hosted, dict[str, Any]], proven: str, ref: str, depth: tuple[str, ...]
) -> None:
    host, event = hosted
    clone = at(host, f"{ref.rpartition('/')[2]}-{len(depth)}", ref, *depth)
    done = check(clone.root, event, proven, "pull_request")
    assert (done.code, WRONG in done.log) == ("1", False), done.log
    assert [model["path"] for model in done.report["models"]] == ["models/a.onnx"]


def test_a_head_that_was_pushed_to_since_is_judged(
    hosted: tuple[Hosted, dict[str, Any]], proven: str
) -> None:
    host, event = hosted
    host.author.git("checkout", "--quiet", "-B", "later", "origin/feature")
    (host.author.root / "later.txt").write_text("x")
    host.push("later", "later")
    done = check(at(host, "moved", "refs/heads/later", "--depth=1").root, event, proven, "pull_request")
    assert (done.code, WRONG in done.log) == ("1", False), done.log


def test_a_fork_with_a_branch_of_the_same_name_is_not_the_base(
    hosted: tuple[Hosted, dict[str, Any]], proven: str
) -> None:
    host, event = hosted
    head = {**event["pull_request"]["head"], "ref": "main", "repo": {"full_name": "stranger/models"}}
    forked = {**event, "pull_request": {**event["pull_request"], "head": head}}
    done = check(host.clone("same-name", branch="main").root, forked, proven, "pull_request_target")
    assert (done.code, WRONG in done.log) == ("2", True)


def test_a_repository_in_a_folder_below_is_found_by_its_policy(
    hosted: tuple[Hosted, dict[str, Any]], proven: str
) -> None:
    host, event = hosted
    clone = at(host, "workspace/below", "refs/pull/7/merge", "--depth=1")
    workspace = clone.root.parent
    done = check(workspace, event, proven, "pull_request", policy="below/.onnx-ci.yaml")
    assert done.code == "1", done.log
    assert [model["path"] for model in done.report["models"]] == ["models/a.onnx"]
    assert "::error file=models/a.onnx,line=1" in done.log
    named = check(workspace, event, proven, "pull_request", paths="below/models")
    assert (named.code, len(named.report["models"])) == ("1", 1), named.log
    without = check(workspace, event, proven, "pull_request")
    assert without.code == "2"
    assert "name its policy in the input policy" in without.log
