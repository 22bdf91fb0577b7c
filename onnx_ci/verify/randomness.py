"""Finds nodes that draw random numbers, wherever they are, and tells those with a seed from those without."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import FunctionProto, NodeProto, TensorProto, numpy_helper

from onnx_ci.model.graph import RANDOM_OPS, Body, bodies


def random_nodes(proto: onnx.ModelProto) -> list[str]:
    """`name (Operator)` of each without a seed; one with a seed gives the same numbers in every session."""
    return [label(node) for node in unseeded(proto)]


def unseeded(proto: onnx.ModelProto) -> list[NodeProto]:
    return [node for node in _drawing(proto) if not _has_seed(node)]


def seeded(proto: onnx.ModelProto) -> list[NodeProto]:
    return [node for node in _drawing(proto) if _has_seed(node)]


def label(node: NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "unnamed")
    return f"{name} ({node.op_type})"


def _drawing(proto: onnx.ModelProto) -> Iterator[NodeProto]:
    for body in bodies(proto):
        false = _false_constants(body)
        yield from (node for node in body.node if _draws(node, false))


def _has_seed(node: NodeProto) -> bool:
    """A function's node may take its seed from who calls it; it counts as unseeded, for not all do."""
    return any(a.name == "seed" and not a.ref_attr_name for a in node.attribute)


def _draws(node: NodeProto, false: set[str]) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Dropout":  # the third operand turns training mode on
        return len(node.input) > 2 and node.input[2] not in false
    return node.op_type in RANDOM_OPS


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
