"""The options of every method as JSON schemas, drawn from the option dataclasses."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any

from onnx_ci.methods.catalogue import METHODS


def option_schemas() -> list[tuple[str, dict[str, object]]]:
    """Name and options schema of each method, in the order of the catalogue."""
    return [
        (
            method.name,
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {item.name: _schema(item) for item in fields(method.option_class)},
            },
        )
        for method in METHODS
    ]


def _schema(item: Field[Any]) -> dict[str, object]:
    if "choices" in item.metadata:
        return {"enum": list(item.metadata["choices"]), "default": item.default}
    return {"type": "integer", "minimum": item.metadata["minimum"], "default": item.default}
