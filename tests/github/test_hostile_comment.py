"""Names that try to be something else, from a fork's report into a comment: shown, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from onnx_ci.action.comment import mark
from tests.support.action import Called
from tests.support.comments import comment_step, finished
from tests.support.github import GitHub
from tests.support.github_markdown import CALLS, html, shape, uncoded
from tests.support.hostile_names import EVERYTHING, HOSTILE
from tests.support.reports import run_report
from tests.support.workflows import REPOSITORY

pytestmark = pytest.mark.real

RUN = f"https://github.com/{REPOSITORY}/actions/runs/4711"
NAMES = (
    *HOSTILE,
    EVERYTHING,
    mark("default"),
    f"\n{mark('other')}\n",
    "--> <!-- ",
    "$(touch owned) `touch owned` ${{ github.token }} ; touch owned",
    "\n::add-mask::x\n::debug::y",
    "EOF\nexit-code=0\ncommitted<<EOF\ntrue\nEOF",
    "[!CAUTION]",
    "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
)


def commands(log: str) -> list[str]:
    """What the runner takes for commands: it looks at every line, but not where it was told to stop."""
    found, waiting_for = [], ""
    for line in re.split(r"[\r\n]", log):
        command = re.match(r"\s*::(.+?)(?:\s.*?)?::(.*)|.*?##\[(.+?)\]", line)
        if waiting_for:
            waiting_for = "" if line.strip() == f"::{waiting_for}::" else waiting_for
        elif command and command[1] == "stop-commands":
            waiting_for = command[2]
        elif command:
            found.append(command[1] or command[3])
    return found


@pytest.fixture(scope="module")
def plain(_running: GitHub, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Called]:
    """The same report with harmless names: what a hostile one may differ from in words only."""
    pull = _running.pull("plain", fork=True)
    step = comment_step(
        _running, tmp_path_factory.mktemp("plain"), run_report("plain", "plain"), finished(pull)
    )
    return _running.comments(pull["number"])[0]["body"], step


@pytest.mark.parametrize("name", NAMES)
def test_in_a_comment(github: GitHub, tmp_path: Path, plain: tuple[str, Called], name: str) -> None:
    pull = github.pull(f"comment {NAMES.index(name)}", fork=True)
    report = run_report(name, name)
    step = comment_step(github, tmp_path, replace(report, policy=name), finished(pull))
    [comment] = github.comments(pull["number"])
    page = html(comment["body"])
    assert shape(page) == shape(html(plain[0]))
    assert [link.attributes["href"] for link in page.all("a")] == [RUN]
    assert not CALLS.search(uncoded(page))
    assert comment["body"].split("\n")[0] == mark("default")
    assert commands(step.log) == []
    assert set(step.outputs) == {"comment-body", "exit-code", "verdict"}


@pytest.mark.parametrize("name", NAMES)
def test_in_log_and_summary_where_no_comment_may_be_written(
    github: GitHub, tmp_path: Path, name: str
) -> None:
    pull = github.pull(f"log {NAMES.index(name)}", fork=True)
    event = {"pull_request": pull}
    steps = [
        comment_step(github, tmp_path, run_report(each, each), event, name="pull_request", token="read")
        for each in ("plain", name)
    ]
    assert commands(steps[1].log) == commands(steps[0].log)
    assert shape(html(steps[1].summary)) == shape(html(steps[0].summary))
    assert set(steps[1].outputs) == {"comment-body", "exit-code", "verdict"}


BRANCHES = (
    "a&state=closed",
    "a?b#c",
    "a b",
    "../../other",
    "@x",
    "$(id)",
    "ä🌈",
    "a%0Ab",
    "<!--",
    "\n::error::x",
    "\ud800",
)


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_branch_is_a_name_and_no_part_of_an_address(github: GitHub, tmp_path: Path, branch: str) -> None:
    pull = github.pull(f"branch {BRANCHES.index(branch)}", fork=True)
    step = comment_step(github, tmp_path, run_report(), finished(pull, head_branch=branch))
    [asked] = [urlsplit(call.path) for call in github.calls if "/pulls?state" in call.path]
    assert asked.path == f"/repos/{REPOSITORY}/pulls"
    shown = branch.replace("\ud800", "?")
    assert dict(parse_qsl(asked.query)) == {"state": "open", "head": f"stranger:{shown}", "per_page": "100"}
    assert not github.comments(pull["number"])
    assert "no open pull request" in step.log
