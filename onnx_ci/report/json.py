"""The report as JSON: the one that other programs read."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from onnx_ci.results import Finding, Latency, Measure, Outcome, RunReport, Verification, codes
from onnx_ci.version import __version__


def render_run(report: RunReport) -> str:
    document: dict[str, Any] = {
        "version": 1,
        "tool": {"name": "onnx-ci", "version": __version__},
        "command": report.command,
        "policy": report.policy,
        "exit_code": report.exit_code,
        "totals": {"size_before": report.size_before, "size_after": report.size_after},
        "models": [outcome_object(outcome) for outcome in report.outcomes],
        "findings": [_finding(finding) for finding in report.findings],
        "notes": list(report.notes),
        "seconds": report.seconds,
    }
    if report.base:
        document |= {"base": report.base, "gone": [asdict(model) for model in report.gone]}
        was, now = report.compared or (None, None)
        document["totals"] |= {"size_base": was, "size_now": now} if report.compared else {}
    if report.provenance is not None:
        document["provenance"] = asdict(report.provenance)
    if report.shard is not None:
        document |= {"shard": asdict(report.shard), "groups": [asdict(group) for group in report.groups]}
    return dumps(document)


def render_outcome(outcome: Outcome) -> str:
    return dumps(outcome_object(outcome))


def dumps(document: dict[str, Any] | list[Any]) -> str:
    """`##` begins a command in the logs of some CI services. It can only be in a text, and is spelled out."""
    return json.dumps(document, indent=2, allow_nan=False).replace("##", "#\\u0023") + "\n"


def outcome_object(outcome: Outcome) -> dict[str, Any]:
    """One model. `after` repeats `before` where nothing changed, so that readers need no special case."""
    document: dict[str, Any] = {
        "path": outcome.path,
        "file": outcome.file or outcome.path,
        "rule": {"pattern": outcome.rule_pattern, "line": outcome.rule_line, "file": outcome.rule_file},
        "verdict": outcome.verdict,
        "written": outcome.written,
        "before": _measure(outcome.before),
        "after": _measure(outcome.after or outcome.before),
        "steps": [asdict(step) for step in outcome.steps],
        "verification": _verification(outcome.verification),
        "alternatives": [asdict(alternative) for alternative in outcome.alternatives],
        "findings": [_finding(finding) for finding in outcome.findings],
    }
    if outcome.plan is not None:
        document["plan"] = {**asdict(outcome.plan), "forms": dict(outcome.plan.forms)}
    if outcome.latency is not None:
        document["latency"] = _measure(outcome.latency)
    if outcome.work is not None:
        document["work"] = asdict(outcome.work)
    if outcome.original is not None:
        document["original"] = asdict(outcome.original)
    if outcome.base is not None:
        base = {**asdict(outcome.base), "measure": _measure(outcome.base.measure)}
        document["base"] = {k: v for k, v in base.items() if v or k not in ("diff", "undiffed")}
    if outcome.moved is not None:
        document["moved"] = asdict(outcome.moved)
    if outcome.seconds:
        document["seconds"] = outcome.seconds
    for name in ("limits", "tensors", "inputs", "outputs"):
        if getattr(outcome, name):
            document[name] = [asdict(each) for each in getattr(outcome, name)]
    return document


def _measure(measure: Measure | Latency | None) -> dict[str, Any] | None:
    """Compressed sizes, and what loading takes, appear where they were measured."""
    return None if measure is None else {k: v for k, v in asdict(measure).items() if v is not None}


def _verification(verification: Verification) -> dict[str, Any]:
    """The finding it led to has the code and the hint too; they are here for whoever reads this back."""
    document = asdict(verification)
    del document["needed"]
    for delta in (*document["outputs"], *document["noise"]):
        del delta["breaches"]
    for delta in document["outputs"]:
        del delta["source"]
    for noise in document["noise"]:
        del noise["sensitive"], noise["kind"], noise["histogram"]
    if verification.coverage is None:
        del document["coverage"]
    return {key: value for key, value in document.items() if value or key not in ("code", "hint", "recorded")}


def _finding(finding: Finding) -> dict[str, Any]:
    """A place appears where it is another than the rule of the model, a command where the hint is one."""
    values = {**asdict(finding), "command": finding.command}
    return {key: value for key, value in values.items() if value or key not in ("file", "line", "command")}


SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}
# What a report says otherwise than the classes it is made from.
RENAMED: dict[Any, tuple[str, ...]] = {
    Outcome: ("rule_pattern", "rule_line", "rule_file"),
    RunReport: ("outcomes",),
}
ADDED: dict[Any, dict[str, Any]] = {
    Finding: {"command": {"type": "string", "description": "what the hint asks to run"}},
    Outcome: {
        "rule": {
            "type": "object",
            "properties": {"pattern": SCALARS[str], "line": SCALARS[int], "file": SCALARS[str]},
        }
    },
}


def report_schema() -> dict[str, Any]:
    """The JSON schema of the report of a run. Keys are added in later versions, never changed."""
    definitions: dict[str, Any] = {}
    models = {"type": "array", "items": _schema_of(Outcome, definitions)}
    _schema_of(RunReport, definitions)
    run = definitions.pop("RunReport")
    totals = ("size_before", "size_after", "size_base", "size_now")
    properties = {
        "version": {"const": 1},
        "tool": {"type": "object", "properties": {"name": SCALARS[str], "version": SCALARS[str]}},
        "exit_code": {"enum": [0, 1, 4]},
        "totals": {"type": "object", "properties": dict.fromkeys(totals, SCALARS[int])},
        "models": models,
        **run["properties"],
    }
    definitions["Finding"]["properties"]["code"]["examples"] = list(codes())
    definitions["Planned"]["properties"]["forms"] = {"type": "object", "additionalProperties": SCALARS[int]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A report of onnx-ci check or fix",
        "type": "object",
        "required": ["version", "tool", "command", "exit_code", "totals", "models", "findings"],
        "properties": properties,
        "$defs": definitions,
    }


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a value by its annotation; that of a class is put among the definitions."""
    if isinstance(kind, UnionType):
        kinds = [each for each in get_args(kind) if each is not NoneType]
        return {"anyOf": [*(_schema_of(each, definitions) for each in kinds), {"type": "null"}]}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_origin(kind) is tuple:
        first, *_ = get_args(kind)
        return {"type": "array", "items": _schema_of(first, definitions)}
    if not is_dataclass(kind):
        return dict(SCALARS.get(kind, SCALARS[str]))
    name = getattr(kind, "__name__", "")
    if name not in definitions:
        definitions[name] = {}
        hints, left_out = get_type_hints(kind), RENAMED.get(kind, ())
        told = [field for field in fields(kind) if field.name not in left_out]
        definitions[name] = {
            "type": "object",
            "required": [f.name for f in told if f.default is MISSING and f.default_factory is MISSING],
            "properties": {f.name: _schema_of(hints[f.name], definitions) for f in told}
            | ADDED.get(kind, {}),
        }
    return {"$ref": f"#/$defs/{name}"}
