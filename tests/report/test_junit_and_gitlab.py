"""JUnit XML and GitLab's code quality list: what services read, with names that stay names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from onnx import save

from onnx_ci.cli.output import FORMATS
from onnx_ci.report import annotations as gitlab
from onnx_ci.report import annotations as junit
from onnx_ci.results import RunReport
from onnx_ci.util.text import one_line
from tests.support.cli import call
from tests.support.hostile_names import EVERYTHING, HOSTILE
from tests.support.models import bloated
from tests.support.reports import run_report


def suite(report: RunReport) -> ElementTree.Element:
    root = ElementTree.fromstring(junit.render_junit(report))  # noqa: S314 - our own
    assert [root.tag, *(child.tag for child in root)] == ["testsuites", "testsuite"]
    return root[0]


def test_a_testcase_a_model() -> None:
    found = suite(run_report())
    assert found.attrib == {
        "name": "onnx-ci check",
        "time": "98.500",
        "tests": "5",
        "failures": "2",
        "errors": "0",
        "skipped": "1",
    }
    cases = {case.attrib["name"]: [part.tag for part in case] for case in found}
    assert cases == {
        "models/encoder.onnx": ["failure", "system-out"],
        "models/broken.onnx": ["failure"],
        "vendor/old.onnx": ["skipped"],
        "models/fine.onnx": [],
        "a group of models is over its budget": ["system-out"],
    }
    failure = found[0][0]
    assert failure.attrib == {"message": "would shrink", "type": "OCI003"}
    assert failure.text == "\nOCI003: models/encoder.onnx: can be 6.87 MB\nrun: fix models/encoder.onnx\n"
    assert found[0].attrib["classname"] == "onnx-ci models/**/*.onnx"


@pytest.mark.parametrize("name", [*HOSTILE, EVERYTHING])
def test_names_stay_names(name: str) -> None:
    plain, hostile = suite(run_report("plain", "plain")), suite(run_report(name, name))
    assert [part.tag for part in hostile.iter()] == [part.tag for part in plain.iter()]
    assert hostile[0].attrib["name"] == one_line(name)
    assert hostile.attrib == plain.attrib
    issues: list[dict[str, Any]] = json.loads(gitlab.render_gitlab(run_report(name, name)))
    assert issues[0]["location"]["path"] == one_line(name)


def test_issues_as_gitlab_wants_them() -> None:
    issues: list[dict[str, Any]] = json.loads(gitlab.render_gitlab(run_report()))
    assert [(i["check_name"], i["severity"]) for i in issues] == [
        ("OCI003", "critical"),
        ("OCI006", "critical"),
        ("OCI008", "minor"),
        ("OCI004", "info"),
    ]
    for issue in issues:
        assert issue["description"]
        assert issue["location"]["lines"]["begin"] >= 1
        assert not issue["location"]["path"].startswith(("./", "/"))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert json.loads(gitlab.render_gitlab(RunReport(command="check", outcomes=()))) == []


def test_every_format_of_one_run_and_of_one_model(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    for name, command in (("run", ["check", "--all"]), ("one", ["shrink", "m.onnx", "out.onnx"])):
        asked = [part for form in FORMATS for part in ("--format", form, "--output", f"{name}.{form}")]
        done = call(*command, *asked, cwd=tmp_path)
        assert done.code == (name == "run"), done
        contents = [(tmp_path / f"{name}.{form}").read_text() for form in FORMATS]
        assert len(set(contents)) == len(FORMATS)
        assert name == "one" or all("m.onnx" in content for content in contents)
    assert "invalid choice" in call("info", "m.onnx", "--format", "sarif", cwd=tmp_path).err
