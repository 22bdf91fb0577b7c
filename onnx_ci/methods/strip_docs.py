"""Removes doc strings and metadata of nodes, values, tensors and graphs; those of the model itself stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import NoOptions
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import bodies, tensors
from onnx_ci.model.proto import GraphProto, ModelProto


def apply(model: Model, _: NoOptions) -> Applied:
    for item in _documented(model.proto):
        for name in ("doc_string", "metadata_props"):
            if name in item.DESCRIPTOR.fields_by_name:
                item.ClearField(name)
    return Applied(0)


def _documented(model: ModelProto) -> Iterator[Any]:
    """Everything that can carry notes, but for the model itself."""
    yield from tensors(model)
    for body in bodies(model):
        yield body
        yield from body.value_info
        if isinstance(body, GraphProto):
            yield from body.input
            yield from body.output
        for node in body.node:
            yield node
            yield from node.attribute
