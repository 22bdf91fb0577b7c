"""The report as SARIF 2.1.0, for code scanning and for editors."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from onnx_ci.report.annotations import Placed, fingerprinted, placed
from onnx_ci.report.json import dumps
from onnx_ci.report.text import clipped
from onnx_ci.results import CODES, RunReport
from onnx_ci.util.text import one_line
from onnx_ci.version import __version__

HOME = "https://github.com/onnx-ci/onnx-ci"
FINDINGS = f"{HOME}/blob/main/docs/verification.md"
OTHERWISE = "The finding itself says what to do."

# In sentences: the first says more than the short name does, the second what helps.
WORDS: dict[str, tuple[str, str]] = {
    "OCI001": (
        "The model is larger than the budget of its rule, on disk or compressed.",
        "Run onnx-ci fix, allow a stronger method, raise the budget, or accept the content with an override.",
    ),
    "OCI002": (
        "The model grew by more than its rule allows, compared with its version in git.",
        "Find out what made it grow (onnx-ci info), shrink it, or allow more growth.",
    ),
    "OCI003": (
        "The same model can be stored in fewer bytes, and that was proven by running both.",
        "Run onnx-ci fix, and commit what it wrote.",
    ),
    "OCI004": (
        "A smaller form of the model gives outputs that differ by more than the tolerance allows.",
        "Loosen the tolerance, or allow milder methods.",
    ),
    "OCI005": (
        "A smaller form was found, but running it showed nothing that could be relied on.",
        "Give inputs that exercise the model (inputs: samples).",
    ),
    "OCI006": (
        "The file is not an ONNX model, or not all of one.",
        "Export it again, or leave the file out with an ignore rule.",
    ),
    "OCI007": (
        "There is a pointer of Git LFS or DVC where the content of a model is needed.",
        "Fetch the content: git lfs pull, dvc pull, or lfs: {missing: fetch} in the policy.",
    ),
    "OCI008": (
        "The models of a group together are larger than the group's budget.",
        "Shrink its largest models (onnx-ci fix --all), or raise the group's budget.",
    ),
    "OCI009": (
        "An override accepts this content until a date, or that date has passed.",
        "Make the model fit, or renew the override.",
    ),
    "OCI010": (
        "A smaller form of the model takes longer to run than its rule allows.",
        "Allow more time (budget: latency), or milder methods.",
    ),
    "OCI012": (
        "Tensors are said to be in a file that is not there, too short, or outside the repository.",
        "Put the data file beside its model, and add it to git.",
    ),
    "OCI013": (
        "The model ended the process that ran it, or went past its limits on time or memory.",
        "Give it more room (limits: seconds, memory), or smaller inputs.",
    ),
    "OCI014": (
        "The model has more parameters than its rule allows.",
        "Train or prune a smaller one, or raise the limit.",
    ),
    "OCI015": (
        "No rule of the policy matches the model, so it was not checked.",
        "Add a rule for it, or ignore it by one.",
    ),
    "OCI016": (
        "The user's own evaluation rates a smaller form worse than allowed.",
        "Allow a larger difference (evaluate: max_increase), or milder methods.",
    ),
    "OCI026": (
        "The commits of a branch add more bytes of models to the repository than allowed, in all versions.",
        "Squash the branch, and shrink its models first.",
    ),
    "OCI040": (
        "Of a run that was spread over several jobs not all reports are there.",
        "Look why the job of that shard ended, and run it again.",
    ),
    "OCI052": (
        "Something that onnx-ci did not expect went wrong with this model; the others were judged.",
        "Report it, with the file that the finding names.",
    ),
    "OCI041": (
        "Wrong usage, a wrong policy or a broken environment: no model was judged.",
        "Do what the message says, and run it again.",
    ),
    "OCI044": (
        "A pull request changes the policy so that less is asked of models than its base asks.",
        "Keep the base's value, or have the change approved by whoever owns the policy.",
    ),
    "OCI045": (
        "The model holds under the policy of the change, and not under the one of its base.",
        "Make the model fit the base's rule, or have the change of the policy approved.",
    ),
    "OCI046": (
        "No model of the repository is matched by the pattern of a rule.",
        "Correct the pattern, or remove the rule.",
    ),
    "OCI047": (
        "A command or library that a pull request adds or changes is not run on its behalf.",
        "Merge the change of the policy first, or set new_commands: run in the base's policy.",
    ),
}


def rule(code: str) -> dict[str, Any]:
    short = CODES.get(code, code)
    full, advice = WORDS.get(code, (f"A finding of onnx-ci: {short}.", OTHERWISE))
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in short.replace("'", "").replace(",", "").split()),
        "shortDescription": {"text": f"{short[0].upper()}{short[1:]}."},
        "fullDescription": {"text": full},
        "help": {"text": f"{full} {advice}", "markdown": f"{full} {advice}"},
        "helpUri": FINDINGS,
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["onnx", "size"]},
    }


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
