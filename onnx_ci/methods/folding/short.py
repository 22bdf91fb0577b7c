"""Constant nodes that hold numbers instead of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnx_ci.methods.scopes import Scope
from onnx_ci.model.container import Model
from onnx_ci.model.proto import AttributeProto, NodeProto, TensorProto


def short_constants(model: Model, scope: Scope) -> Iterator[tuple[str, TensorProto]]:
    """Name and value of each, as a tensor."""
    for node in scope.body.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1:
            values = _values(node)
            if values is not None and scope.defined[node.output[0]] == 1:
                tensor = TensorProto(name=node.output[0])
                model.set_array(tensor, values)
                yield tensor.name, tensor


def _values(node: NodeProto) -> np.ndarray[tuple[int, ...], np.dtype[np.float32 | np.int64]] | None:
    for entry in node.attribute:
        if entry.ref_attr_name:
            return None
        if entry.name == "value_int" and entry.type == AttributeProto.INT:
            return np.array(entry.i, np.int64)
        if entry.name == "value_ints" and entry.type == AttributeProto.INTS:
            return np.array(entry.ints, np.int64)
        if entry.name == "value_float" and entry.type == AttributeProto.FLOAT:
            return np.array(entry.f, np.float32)
        if entry.name == "value_floats" and entry.type == AttributeProto.FLOATS:
            return np.array(entry.floats, np.float32)
    return None
