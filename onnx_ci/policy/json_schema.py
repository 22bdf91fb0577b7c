"""The policy as a JSON Schema, for editors; drawn from the same table that the loader reads by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx_ci.policy.fields import POLICY
from onnx_ci.policy.kinds import Schema
from onnx_ci.policy.shapes import table_schema


def json_schema(methods: Iterable[tuple[str, Mapping[str, object]]]) -> Schema:
    """The schema, given each method's name and the schema of its options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "onnx-ci policy",
        "description": "What ONNX models may weigh, and how they may be made smaller.",
        **table_schema(POLICY),
        "$defs": {"method": _method(dict(methods))},
    }


def _method(options: Mapping[str, Mapping[str, object]]) -> Schema:
    with_options = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in options.items()},
    }
    return {"anyOf": [{"enum": list(options)}, with_options]}
