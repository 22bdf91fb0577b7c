"""The options of every method as JSON schemas, drawn from the option dataclasses."""

from __future__ import annotations

from dataclasses import fields

from onnx_ci.methods.catalogue import METHODS
from onnx_ci.methods.option_kinds import option_schema


def option_schemas() -> list[tuple[str, dict[str, object]]]:
    """Name and options schema of each method, in the order of the catalogue."""
    return [
        (
            method.name,
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {item.name: option_schema(item) for item in fields(method.option_class)},
            },
        )
        for method in METHODS
    ]
