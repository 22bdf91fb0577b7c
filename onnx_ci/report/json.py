"""The report as JSON: the one that other programs read."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from onnx_ci import results
from onnx_ci.version import __version__

# Of a model, in their order.
KEYS = (
    *("path", "file", "rule", "verdict", "written", "before", "after", "steps", "verification"),
    *("alternatives", "findings", "plan", "latency", "work", "original", "base", "moved", "seconds"),
    *("limits", "tensors", "inputs", "outputs"),
)
# What is left out where it has nothing to say, which is its default.
OPTIONAL: dict[type, tuple[str, ...]] = {
    results.Outcome: KEYS[KEYS.index("plan") :],
    results.Measure: ("params", "gzip", "brotli", "zstd"),
    results.Latency: ("load_before", "load_after", "memory_before", "memory_after"),
    results.Verification: ("code", "hint", "recorded", "coverage"),
    results.Base: ("diff", "undiffed"),
    results.Finding: ("file", "line"),
}
# What is not part of a report.
UNTOLD: dict[type, tuple[str, ...]] = {results.Verification: ("needed",), results.OutputDelta: ("breaches",)}


def render_run(report: results.RunReport) -> str:
    document: dict[str, Any] = {
        "version": 1,
        "tool": {"name": "onnx-ci", "version": __version__},
        "command": report.command,
        "policy": report.policy,
        "exit_code": report.exit_code,
        "totals": {"size_before": report.size_before, "size_after": report.size_after},
        "models": [outcome_object(outcome) for outcome in report.outcomes],
        "findings": _plain(report.findings),
        "notes": list(report.notes),
        "seconds": report.seconds,
    }
    if report.base:
        document |= {"base": report.base, "gone": _plain(report.gone)}
        was, now = report.compared or (None, None)
        document["totals"] |= {"size_base": was, "size_now": now} if report.compared else {}
    if report.provenance is not None:
        document["provenance"] = _plain(report.provenance)
    if report.shard is not None:
        document |= {"shard": _plain(report.shard), "groups": _plain(report.groups)}
    return dumps(document)


def render_outcome(outcome: results.Outcome) -> str:
    return dumps(outcome_object(outcome))


def dumps(document: dict[str, Any] | list[Any]) -> str:
    """`##` begins a command in the logs of some CI services. It can only be in a text, and is spelled out."""
    return json.dumps(document, indent=2, allow_nan=False).replace("##", "#\\u0023") + "\n"


def outcome_object(outcome: results.Outcome) -> dict[str, Any]:
    """One model. `after` repeats `before` where nothing changed, so that readers need no special case."""
    document = _plain(outcome)
    document["file"] = outcome.file or outcome.path
    document["rule"] = {key: document[f"rule_{key}"] for key in ("pattern", "line", "file")}
    document["after"] = document["after"] or document["before"]
    if outcome.plan is not None:
        document["plan"]["forms"] = dict(outcome.plan.forms)
    for delta in document["verification"]["outputs"]:
        del delta["source"]
    for noise in document["verification"]["noise"]:
        del noise["sensitive"], noise["kind"], noise["histogram"]
    return {key: document[key] for key in KEYS if key in document}


def _plain(value: Any) -> Any:
    """What JSON has of a value: objects for dataclasses, lists for tuples."""
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if not is_dataclass(value):
        return value
    kind, document = type(value), {}
    for item in fields(value):
        held, optional = getattr(value, item.name), item.name in OPTIONAL.get(kind, ())
        if item.name not in UNTOLD.get(kind, ()) and not (optional and held == item.default):
            document[item.name] = _plain(held)
    if isinstance(value, results.Finding) and value.command:
        document["command"] = value.command
    return document


SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}
# What a report says otherwise than the classes it is made from.
RENAMED: dict[Any, tuple[str, ...]] = {
    results.Outcome: ("rule_pattern", "rule_line", "rule_file"),
    results.RunReport: ("outcomes",),
}
ADDED: dict[Any, dict[str, Any]] = {
    results.Finding: {"command": {"type": "string", "description": "what the hint asks to run"}},
    results.Outcome: {
        "rule": {
            "type": "object",
            "properties": {"pattern": SCALARS[str], "line": SCALARS[int], "file": SCALARS[str]},
        }
    },
}


def report_schema() -> dict[str, Any]:
    """The JSON schema of the report of a run. Keys are added in later versions, never changed."""
    definitions: dict[str, Any] = {}
    models = {"type": "array", "items": _schema_of(results.Outcome, definitions)}
    _schema_of(results.RunReport, definitions)
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
    definitions["Finding"]["properties"]["code"]["examples"] = list(results.codes())
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
