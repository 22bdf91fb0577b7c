"""The report as SARIF 2.1.0, for code scanning and for editors."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from onnx_ci.report.json import dumps
from onnx_ci.report.placed import Placed, fingerprinted, placed
from onnx_ci.report.sarif_rules import HOME, rule
from onnx_ci.report.style import one_line
from onnx_ci.report.words import clipped
from onnx_ci.results import RunReport
from onnx_ci.version import __version__

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"


def render_run(report: RunReport) -> str:
    findings = placed(report)
    codes = sorted({one.finding.code for one in findings})
    driver = {
        "name": "onnx-ci",
        "semanticVersion": __version__,
        "informationUri": HOME,
        "rules": [rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"onnx-ci/{report.command}/"},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The top of the repository."}}},
        "results": [
            _result(one, codes.index(one.finding.code), print_) for one, print_ in fingerprinted(findings)
        ],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(one: Placed, index: int, fingerprint: str) -> dict[str, Any]:
    finding = one.finding
    said = "\n".join(filter(None, [one_line(finding.message), one_line(finding.hint)]))
    result = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": clipped(said)},
        "locations": [_location(one.file, 1 if one.is_about_a_model else one.line)],
        "partialFingerprints": {"onnxCi/v1": fingerprint},
    }
    if one.is_about_a_model and one.policy and one.line:
        rule_at = {"id": 1, **_location(one.policy, one.line), "message": {"text": "The rule it breaks."}}
        result["relatedLocations"] = [rule_at]
    return result


def _location(file: str, line: int) -> dict[str, Any]:
    place = {"uri": quote(file or ".onnx-ci.yaml", errors="surrogatepass"), "uriBaseId": ROOT}
    return {"physicalLocation": {"artifactLocation": place, "region": {"startLine": max(1, line)}}}
