"""The report as SARIF 2.1.0, for code scanning and for editors."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from onnx_ci.report.annotations import Placed, fingerprinted, placed
from onnx_ci.report.json import dumps
from onnx_ci.report.text import clipped
from onnx_ci.results import RunReport, codes
from onnx_ci.util.text import one_line
from onnx_ci.version import __version__

HOME = "https://github.com/onnx-ci/onnx-ci"
FINDINGS = f"{HOME}/blob/main/docs/troubleshooting.md"
LATER = {"description": "A finding of a later onnx-ci.", "advice": "The finding itself says what to do."}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"


def render_run(report: RunReport) -> str:
    """Without an id of the run: code scanning would take that for the category, whatever the upload says."""
    findings = placed(report)
    codes = sorted({place.finding.code for place in findings})
    driver = {
        "name": "onnx-ci",
        "semanticVersion": __version__,
        "informationUri": HOME,
        "rules": [rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The top of the repository."}}},
        "results": [
            _result(place, codes.index(place.finding.code), fingerprint)
            for place, fingerprint in fingerprinted(findings)
        ],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(place: Placed, index: int, fingerprint: str) -> dict[str, Any]:
    finding = place.finding
    message = "\n".join(filter(None, [one_line(finding.message), one_line(finding.hint)]))
    result = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": clipped(message)},
        "locations": [_location(place.file, place.shown_line)],
        "partialFingerprints": {"onnxCi/v1": fingerprint},
    }
    if place.is_about_a_model and place.policy and place.line:
        rule_at = {"id": 1, **_location(place.policy, place.line), "message": {"text": "The rule it breaks."}}
        result["relatedLocations"] = [rule_at]
    return result


def _location(file: str, line: int) -> dict[str, Any]:
    place = {"uri": quote(file or ".onnx-ci.yaml", errors="surrogatepass"), "uriBaseId": ROOT}
    return {"physicalLocation": {"artifactLocation": place, "region": {"startLine": max(1, line)}}}


def rule(code: str) -> dict[str, Any]:
    title, *texts = codes().get(code, {"title": code, **LATER}).values()
    help_text = " ".join(texts)
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in title.replace("'", "").replace(",", "").split()),
        "shortDescription": {"text": f"{title[0].upper()}{title[1:]}."},
        "fullDescription": {"text": texts[0].replace("`", "")},
        "help": {"text": help_text.replace("`", ""), "markdown": help_text},
        "helpUri": f"{FINDINGS}#{code.lower()}",
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["onnx", "size"]},
    }
