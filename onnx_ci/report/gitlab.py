"""The report as GitLab reads code quality: a list of findings that it compares with those of the target."""

from __future__ import annotations

from typing import Any

from onnx_ci.report.json import dumps
from onnx_ci.report.placed import Placed, fingerprinted, placed
from onnx_ci.report.style import one_line
from onnx_ci.report.words import clipped
from onnx_ci.results import RunReport

SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}


def render_run(report: RunReport) -> str:
    findings = [_issue(one, fingerprint) for one, fingerprint in fingerprinted(placed(report))]
    return dumps(findings)


def _issue(one: Placed, fingerprint: str) -> dict[str, Any]:
    finding = one.finding
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": clipped(one_line(finding.message)),
        "content": {"body": clipped(one_line(finding.hint))},
        "categories": ["Performance"],
        "severity": SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {
            "path": one_line(one.file or ".onnx-ci.yaml"),
            "lines": {"begin": 1 if one.is_about_a_model else max(1, one.line)},
        },
    }
