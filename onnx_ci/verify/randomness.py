"""Finds nodes whose result differs from run to run: outputs of such a model can't be compared."""

from __future__ import annotations

import onnx
from onnx import FunctionProto, NodeProto, TensorProto, numpy_helper

from onnx_ci.model.graphs import Body, bodies

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_RANDOM |= {"Multinomial", "Bernoulli"}


def random_nodes(proto: onnx.ModelProto) -> list[str]:
    """`name (Operator)` of each; a node with a seed gives the same numbers in every new session."""
    found = []
    for body in bodies(proto):
        false = _false_constants(body)
        found += [_label(node) for node in body.node if _is_random(node, false)]
    return found


def _is_random(node: NodeProto, false: set[str]) -> bool:
    if node.domain not in ("", "ai.onnx") or any(a.name == "seed" for a in node.attribute):
        return False
    if node.op_type == "Dropout":  # the third operand turns training mode on
        return len(node.input) > 2 and node.input[2] not in false
    return node.op_type in _RANDOM


def _false_constants(body: Body) -> set[str]:
    """Names of boolean constants that are false, and of operands left out."""
    stored = [] if isinstance(body, FunctionProto) else [(t.name, t) for t in body.initializer]
    stored += [
        (node.output[0], attribute.t)
        for node in body.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    return {"", *(name for name, tensor in stored if _is_false(tensor))}


def _is_false(tensor: TensorProto) -> bool:
    if tensor.data_type != TensorProto.BOOL or tensor.data_location == TensorProto.EXTERNAL:
        return False
    try:
        return not numpy_helper.to_array(tensor).any()
    except ValueError:  # fewer bytes than the shape says
        return False


def _label(node: NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "unnamed")
    return f"{name} ({node.op_type})"
