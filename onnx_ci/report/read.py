"""A JSON report back into a RunReport. It may come from anywhere, a fork's artifact too: nothing in it is
believed that is not of the right kind and size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onnx_ci.errors import UsageError
from onnx_ci.report.checked import Checked
from onnx_ci.results import RunReport

LARGEST_FILE = (
    16 * 2**20
)  # bytes: some thousand models; what it takes in memory is twenty times that at worst
HINT = "expected a report by onnx-ci check --format json"


def read_report(path: Path, name: str = "") -> RunReport:
    """`name` is what messages call the file."""
    name = name or str(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{name}: can't be read: {error.strerror}", hint=HINT) from None
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{name}: is larger than {LARGEST_FILE:,} bytes", hint=HINT)
    return parse_report(content, name)


def parse_report(content: bytes, name: str) -> RunReport:
    """The report in a file's content. Its verdict is worked out anew: what it says of that is not read."""
    try:
        document = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: is not JSON: {_why(error)}", hint=HINT) from None
    try:
        return _report(document)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint=HINT) from None


def _report(document: Any) -> RunReport:
    top = Checked(document, "the report")
    if top.values.get("version") != 1:
        raise top.refusal("version", "1")
    top.values["outcomes"] = [_outcome(model) for model in top.listed("models")]
    return top.build(RunReport, {"outcomes": "models"})


def _outcome(model: Checked) -> dict[str, Any]:
    """One model in the shape of an Outcome: the rule is not nested, nor is an `after` that is `before`."""
    values, rule = model.values, model.object("rule")
    found = {**values, **{f"rule_{key}": rule.values.get(key) for key in ("pattern", "line", "file")}}
    found = {key: value for key, value in found.items() if value is not None}
    if values.get("after") == values.get("before"):
        found.pop("after", None)
    if values.get("file") == values.get("path"):
        found.pop("file", None)
    if values.get("plan") is not None:
        plan = model.object("plan")
        found["plan"] = {**plan.values, "forms": [list(pair) for pair in plan.object("forms").values.items()]}
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _why(error: ValueError | RecursionError) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
