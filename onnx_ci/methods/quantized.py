"""What is quantized already: parameters of quantized ops, and weights that are stored encoded."""

from __future__ import annotations

import re

from onnx_ci.model.graphs import bodies
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto, TensorProto

# Ops that compute with quantized values: whatever they read is part of an encoding, not a plain weight.
QUANTIZED_OP = re.compile(r"^Q[A-Z]|Quantize|Integer|NBits|BlockQuantized")


def quantization_parameters(model: ModelProto) -> set[str]:
    """Scales and zero points. Sharing one between ops that each expect their own defeats fusions."""
    names: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            if QUANTIZED_OP.search(node.op_type):
                names.update(node.input[1:])
    return names


def quantized_inputs(model: ModelProto) -> set[str]:
    """All that quantized ops read: kernels and fusions expect it stored as it is."""
    nodes = (node for body in bodies(model) for node in body.node)
    return {name for node in nodes if QUANTIZED_OP.search(node.op_type) for name in node.input}


def encoding_parts(model: ModelProto) -> set[str]:
    """Every name that is part of a stored encoding: read by a quantized op, a scale that is multiplied
    with (or an offset added to) a weight that was cast up from a smaller type, a part of a compact form."""
    names = quantized_inputs(model)
    decoded = _stored_names(model)
    indices: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            if node.op_type in ("Cast", "CastLike") and node.input[0] in decoded:
                names.update(node.output)
                decoded.update(node.output)
                indices.update(node.output if _to_int32(node) else ())
            elif _rescales(node, names, decoded) or _compacted(node, names, decoded, indices):
                names.update([*node.input, *node.output])
                decoded.update(node.output)
    return names


def _compacted(node: NodeProto, names: set[str], decoded: set[str], indices: set[str]) -> bool:
    """Whether a node rebuilds what `compact` stored: a block, or a table with small indices."""
    if not decoded.issuperset(node.input):
        return False
    if node.op_type == "Gather":
        return node.input[1] in indices
    return node.op_type == "Expand" or (node.op_type == "Reshape" and node.input[0] in names)


def _to_int32(node: NodeProto) -> bool:
    return any(entry.name == "to" and entry.i == TensorProto.INT32 for entry in node.attribute)


def _rescales(node: NodeProto, cast: set[str], decoded: set[str]) -> bool:
    """Whether a node multiplies or shifts a cast weight by another stored tensor."""
    arithmetic = node.op_type in ("Mul", "Add", "Sub")
    return arithmetic and bool(cast.intersection(node.input)) and decoded.issuperset(node.input)


def _stored_names(model: ModelProto) -> set[str]:
    stored: set[str] = set()
    for body in bodies(model):
        if isinstance(body, GraphProto):
            stored.update(tensor.name for tensor in body.initializer)
        stored.update(node.output[0] for node in body.node if node.op_type == "Constant" and node.output)
    return stored
