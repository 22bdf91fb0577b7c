"""Mode pull-request and the commit status, with a server for git that is a folder, and GitHub's emulator."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.support.action import Called, call
from tests.support.git_repo import Repository
from tests.support.github import GitHub
from tests.support.models import bloated
from tests.support.pull_requests import Hosted
from tests.support.workflows import REPOSITORY

pytestmark = pytest.mark.real
BRANCH = "onnx-ci/shrink"


def propose(clone: Repository, github: GitHub, proven: Path, **inputs: str) -> Called:
    also = {
        "GITHUB_API_URL": github.url,
        "GITHUB_RUN_ID": "42",
        "ONNX_CI_CACHE": str(proven),
        "ONNX_CI_CACHE_KEY": "of these tests",
        "GITHUB_SHA": clone.git("rev-parse", "HEAD").strip(),
    }
    given = {"mode": "pull-request", "token": "token-of-owner", "status": "true", **inputs}
    return call(clone.root, "schedule", {"schedule": "0 4 * * 1"}, also=also, **given)  # type: ignore[arg-type]


def test_a_pull_request_is_opened_kept_up_to_date_and_not_forced(github: GitHub, tmp_path: Path) -> None:
    host = Hosted(tmp_path)
    host.add_model()
    host.push("a bloated model")
    proven = tmp_path / "proven"

    clone = host.clone("clone", "--depth=1")
    first = propose(clone, github, proven, commit_message="Shrink {models} model by {saved}")
    assert (first.code, first.outputs["committed"]) == ("0", "true"), first.log
    number = first.outputs["pull-request"]
    pull = github.ask("GET", f"/repos/{REPOSITORY}/pulls/{number}")
    assert (pull["title"], pull["head"]["ref"], pull["base"]["ref"]) == (
        "Shrink 1 model by 48.9 kB",
        BRANCH,
        "main",
    )
    assert "models/a.onnx" in pull["body"]
    assert "/actions/runs/42" in pull["body"]
    assert host.log(BRANCH) == ["Shrink 1 model by 48.9 kB", "a bloated model", "start"]
    assert host.log() == ["a bloated model", "start"], "the branch itself stays where it is"
    (errors, warnings, saved) = (first.outputs[name] for name in ("errors", "warnings", "bytes-saved"))
    assert (errors, warnings, int(saved)) == ("0", "0", 65829 - 16888)

    again = propose(host.clone("again", "--depth=1"), github, proven)
    assert again.outputs["pull-request"] == number
    assert again.outputs["commit-sha"] == first.outputs["commit-sha"], "nothing new, nothing pushed"

    onnx.save(bloated(seed=3), host.author.root / "models" / "b.onnx")
    host.push("another")
    more = propose(host.clone("more", "--depth=1"), github, proven)
    assert more.outputs["pull-request"] == number
    assert host.log(BRANCH)[1:] == ["another", "a bloated model", "start"], "one commit, made anew"
    body = github.ask("GET", f"/repos/{REPOSITORY}/pulls/{number}")["body"]
    assert "models/b.onnx" in body

    host.author.git("fetch", "--quiet", "origin")
    host.author.git("checkout", "--quiet", "-B", "theirs", f"origin/{BRANCH}")
    (host.author.root / "notes").write_text("by hand")
    host.push("by hand", BRANCH)
    refused = propose(host.clone("refused", "--depth=1"), github, proven)
    assert refused.code == "1"
    assert "has commits of others on top" in refused.summary
    assert host.log(BRANCH)[0] == "by hand"


def test_what_keeps_it_from_being_opened(github: GitHub, tmp_path: Path) -> None:
    host = Hosted(tmp_path)
    nothing = propose(host.clone("nothing"), github, tmp_path / "proven")
    assert (nothing.code, nothing.outputs["committed"]) == ("0", "false")
    host.add_model()
    host.push("a bloated model")
    same = propose(host.clone("same"), github, tmp_path / "proven", branch="main")
    assert (same.code, "input 'branch'" in same.log) == ("2", True)
    said = b'{"message": "GitHub Actions is not permitted to create or approve pull requests."}'

    def forbidden(made: object) -> tuple[int, dict[str, str], bytes] | None:
        posted = getattr(made, "method", "") == "POST" and "graphql" not in getattr(made, "path", "")
        return (403, {}, said) if posted else None

    github.fault = forbidden
    may_not = propose(host.clone("may-not"), github, tmp_path / "proven", branch="shrink")
    assert may_not.code == "1"
    assert "has to let workflows open pull requests" in may_not.summary
    assert "no commit status was written" in may_not.log
    assert may_not.patch.exists()

    tip = host.origin.git("rev-parse", "shrink").strip()
    closed = json.dumps([{"head": {"sha": tip}}]).encode()
    github.fault = lambda made: (200, {}, closed) if "state=closed" in made.path else None
    declined = propose(host.clone("declined"), github, tmp_path / "proven", branch="shrink")
    assert (declined.code, declined.outputs["pull-request"]) == ("0", "")
    assert "it is not opened again" in declined.log


def test_a_commit_status_has_the_figures(github: GitHub, tmp_path: Path) -> None:
    host = Hosted(tmp_path)
    host.add_model()
    host.push("a bloated model")
    github.fault = lambda made: (201, {}, b"{}") if "/statuses/" in made.path else None
    clone = host.clone("clone")
    propose(clone, github, tmp_path / "proven", mode="check", status="models")
    (made,) = (made for made in github.calls if "/statuses/" in made.path)
    assert made.path == f"/repos/{REPOSITORY}/statuses/{clone.git('rev-parse', 'HEAD').strip()}"
    assert made.body == {
        "state": "failure",
        "context": "models",
        "description": "1 model, 16.9 kB, 1 error, 48.9 kB of 65.8 kB could be saved",
        "target_url": f"https://github.com/{REPOSITORY}/actions/runs/42",
    }
