"""Workflow commands, read the way GitHub's runner reads them: annotations, and nothing a name asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import pytest

from onnx_ci.report.annotations import LIMIT, render_github
from onnx_ci.results import Finding, Outcome, RunReport
from onnx_ci.util.text import one_line
from tests.support.cli import call
from tests.support.git_repo import Repository, write_policy
from tests.support.hostile_names import EVERYTHING, HOSTILE
from tests.support.models import bloated
from tests.support.reports import outcome, run_report

COMMAND = re.compile(r"::(?P<name>[^ :]+)(?: (?P<properties>.*?))?::(?P<data>.*)")


@dataclass(frozen=True)
class Command:
    """What the runner makes of one line."""

    name: str
    properties: dict[str, str]
    data: str


def runner(log: str) -> tuple[list[Command], list[str]]:
    """Commands, and lines that are shown. Lines end at CR and LF; `::` counts at the beginning of a line,
    `##[` anywhere; between stop-commands and its token nothing counts."""
    commands, shown, token = [], [], None
    for line in re.split(r"\r\n|\n|\r", log):
        found = COMMAND.match(line.lstrip())
        if token is not None:
            if line.strip() == f"::{token}::":
                token = None
            else:
                shown.append(line)
        elif found and found["name"] == "stop-commands":
            token = found["data"]
        elif found:
            pairs = (pair.split("=", 1) for pair in (found["properties"] or "").split(","))
            properties = {key: unescaped(value) for key, value in pairs}
            commands.append(Command(found["name"], properties, unescaped(found["data"])))
        else:
            assert "##[" not in line
            shown.append(line)
    assert token is None
    return commands, shown


def unescaped(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_findings_are_on_the_model() -> None:
    commands, shown = runner(render_github(run_report()))
    errors = [command for command in commands if command.name == "error"]
    assert [(c.properties["file"], c.properties["line"]) for c in errors] == [
        ("models/encoder.onnx", "1"),
        ("models/broken.onnx", "1"),
    ]
    assert errors[0].properties["title"] == "OCI003 savings left on the table"
    assert errors[0].data == "models/encoder.onnx: can be 6.87 MB\nrun: fix models/encoder.onnx"
    assert [c.name for c in commands if c.name != "error"] == ["warning", "notice"]
    assert "3 models checked, 24 MB of 30.9 MB could be saved: failed" in shown


@pytest.mark.parametrize("name", [*HOSTILE, EVERYTHING])
def test_no_name_becomes_a_command(name: str) -> None:
    plain, _ = runner(render_github(run_report("plain", "plain")))
    hostile, shown = runner(render_github(run_report(name, name)))
    assert [(c.name, list(c.properties)) for c in hostile] == [(c.name, list(c.properties)) for c in plain]
    assert hostile[0].properties["file"] == one_line(name)
    assert any(one_line(name) in line for line in shown)


def many(count: int) -> RunReport:
    bad = Finding(code="OCI001", severity="error", message="too large", hint="shrink it")
    outcomes = [
        replace(outcome(f"m{n}.onnx"), findings=(bad,), rule_line=n % 5 + 1, rule_file="sub/.onnx-ci.yaml")
        for n in range(count)
    ]
    return RunReport(command="check", outcomes=tuple(outcomes))


@pytest.mark.parametrize(("count", "models", "rules", "more"), [(4, 4, 0, 0), (6, 6, 1, 0), (40, 7, 3, 35)])
def test_no_more_than_github_shows_and_how_many_more(count: int, models: int, rules: int, more: int) -> None:
    commands, shown = runner(render_github(many(count)))
    files = [command.properties["file"] for command in commands]
    assert len(files) <= LIMIT
    assert files.count("sub/.onnx-ci.yaml") == rules
    assert len(files) - rules == models
    told = [line for line in shown if line.startswith("and ")]
    assert bool(told) == bool(more)
    assert all(line.startswith(f"and {more} more error annotation") for line in told)


def test_the_largest_model_comes_first() -> None:
    small = Outcome(path="a.onnx", verdict="over_budget", findings=run_report().outcomes[0].findings)
    report = replace(run_report(), outcomes=(small, *run_report().outcomes))
    commands, _ = runner(render_github(report))
    assert commands[0].properties["file"] == "models/encoder.onnx"


def test_the_same_report_gives_the_same_bytes() -> None:
    assert render_github(run_report()) == render_github(run_report())


def test_names_go_by_the_top_of_the_repository(tmp_path: Path) -> None:
    Repository(tmp_path)
    (tmp_path / "sub" / "models").mkdir(parents=True)
    onnx.save(bloated(), tmp_path / "sub" / "models" / "m.onnx")
    group = "groups: [{name: g, paths: ['**'], budget: {size: 1 B}}]\n"
    write_policy(tmp_path / "sub", "    budget: {size: 1 kB}\n", group)
    done = call("check", "--all", "--format", "github", cwd=tmp_path / "sub")
    commands, _ = runner(done.out)
    places = {(c.properties["file"], c.properties["line"]) for c in commands if c.name == "error"}
    assert places == {("sub/models/m.onnx", "1"), ("sub/.onnx-ci.yaml", "5")}
    assert done.code == 1
