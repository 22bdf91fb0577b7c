"""SARIF as Microsoft's own validator and GitHub's rules for code scanning want it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.report.sarif import render_run
from onnx_ci.results import Finding, RunReport, Severity, codes
from tests.support.hostile_names import EVERYTHING
from tests.support.node import node_module
from tests.support.reports import run_report

pytestmark = pytest.mark.real

EVERY_CODE = RunReport(
    command="check",
    outcomes=(),
    findings=tuple(Finding(code=code, severity="error", message="m") for code in codes()),
)
REPORTS = {
    "run": run_report(),
    "hostile": run_report(f"{EVERYTHING}.onnx", EVERYTHING),
    "every code": EVERY_CODE,
    "empty": RunReport(command="check", outcomes=()),
}


def complaints(documents: dict[str, str], folder: Path) -> dict[str, list[str]]:
    """What the validator has to say about each, in one call: starting it takes longest."""
    program = node_module("@microsoft/sarif-multitool-linux") / "Sarif.Multitool"
    program.chmod(0o755)  # what its install script would do
    files = {name: folder / f"{name.replace(' ', '-')}.sarif" for name in documents}
    for name, file in files.items():
        file.write_text(documents[name])
    found = folder / "found.json"
    command = [str(program), "validate", *map(str, files.values()), "--rule-kind", "Sarif;Ghas"]
    environment = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    done = subprocess.run(
        [*command, "--output", str(found)], env=environment, capture_output=True, text=True, check=False
    )
    assert found.exists(), done.stdout + done.stderr
    told: dict[str, list[str]] = {name: [] for name in files}
    for result in json.loads(found.read_text(encoding="utf-8-sig"))["runs"][0].get("results", []):
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        name = next(name for name, file in files.items() if uri.endswith(file.name))
        told[name].append(result["ruleId"])
    return told


def test_the_validator_finds_nothing(tmp_path: Path) -> None:
    documents = {name: render_run(report) for name, report in REPORTS.items()}
    spoilt = json.loads(documents["run"])
    del spoilt["runs"][0]["tool"]["driver"]["rules"][0]["help"]
    del spoilt["runs"][0]["results"][0]["locations"]
    told = complaints({**documents, "spoilt": json.dumps(spoilt)}, tmp_path)
    assert told.pop("spoilt")
    assert told == {name: [] for name in REPORTS}


def results(report: RunReport) -> list[dict[str, Any]]:
    return list(json.loads(render_run(report))["runs"][0]["results"])


def test_the_category_is_left_to_the_upload() -> None:
    """GitHub's upload takes an id that is there for the category, and does not say so."""
    assert "automationDetails" not in json.loads(render_run(run_report()))["runs"][0]


def test_results_are_at_the_model_and_name_the_rule() -> None:
    first, *others = results(run_report("models/a b#%.onnx"))
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "models/a%20b%23%25.onnx"
    related = first["relatedLocations"][0]["physicalLocation"]
    assert related["artifactLocation"]["uri"] == ".onnx-ci.yaml"
    assert related["region"]["startLine"] == 6
    assert [result["level"] for result in (first, *others)] == ["error", "error", "warning", "note"]
    assert first["message"]["text"] == "models/a b#%.onnx: can be 6.87 MB\nrun: fix models/a b#%.onnx"


@pytest.mark.parametrize("severity", ["error", "warning", "note"])
def test_fingerprints_stay_when_numbers_change(severity: Severity) -> None:
    report = run_report()
    changed = replace(report.outcomes[0].findings[0], message="can be 1 MB", severity=severity)
    other = replace(report.outcomes[0], findings=(changed, changed))
    again = results(replace(report, outcomes=(other,)))
    prints = [result["partialFingerprints"]["onnxCi/v1"] for result in again if result["ruleId"] == "OCI003"]
    assert prints[0] == results(report)[0]["partialFingerprints"]["onnxCi/v1"]
    assert len(set(prints)) == 2
