"""What goes to a log: CI services read theirs for commands, and no name may give one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx_ci.report import annotations as gitlab
from onnx_ci.report import annotations as junit
from onnx_ci.report import html, json, markdown, sarif, text
from onnx_ci.util.text import Style
from tests.support.cli import call
from tests.support.hostile_names import EVERYTHING, HOSTILE
from tests.support.reports import outcome, run_report

COMMAND = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)
SHOWN: dict[str, Callable[[str], str]] = {
    "text": lambda name: text.render_run(run_report(name, name), Style()),
    "one model": lambda name: text.render_outcome(outcome(name, name), Style(), title=name),
    "json": lambda name: json.render_run(run_report(name, name)),
    "markdown": lambda name: markdown.render_run(run_report(name, name)),
    "sarif": lambda name: sarif.render_run(run_report(name, name)),
    "junit": lambda name: junit.render_junit(run_report(name, name)),
    "gitlab": lambda name: gitlab.render_gitlab(run_report(name, name)),
    "html": lambda name: html.render_run(run_report(name, name)),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_no_name_is_a_command(shown: str) -> None:
    for name in (*HOSTILE, EVERYTHING):
        assert not COMMAND.search(SHOWN[shown](name)), name


def test_nor_in_what_is_said_where_nothing_is_to_do(tmp_path: Path) -> None:
    name = "##vso[task.setvariable variable=X]y.txt"
    (tmp_path / name).write_text("")
    done = call("check", name, cwd=tmp_path)
    assert done.code == 2
    assert "no model, nor the data of one" in done.err
    assert not COMMAND.search(done.out + done.err)
    assert not COMMAND.search(call("check", f"{name}.onnx", cwd=tmp_path).err)
