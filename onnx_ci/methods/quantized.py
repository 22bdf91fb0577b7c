"""What is quantized already: parameters of quantized ops, and weights that are stored encoded."""

from __future__ import annotations

import re

from onnx_ci.model.graphs import bodies
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto, TensorProto

# Ops that compute with quantized values: whatever they read is part of an encoding, not a plain weight.
QUANTIZED_OP = re.compile(r"^Q[A-Z]|[Qq]uantize|Integer|NBits")
# Ops that decode what was cast up from a smaller type: scales, offsets, tables, and the shape at the end.
DECODERS = ("Mul", "Add", "Sub", "Reshape", "Slice", "Gather", "Transpose")


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
    """Every name that is part of a stored encoding: read by a quantized op, cast up from a smaller type,
    looked up in a table by stored codes, repeated, or combined with such a value by ops that decode."""
    names = quantized_inputs(model)
    stored = _stored_names(model)
    indices: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            if node.op_type in ("Cast", "CastLike") and node.input[0] in stored:
                names.update(node.output)
                stored.update(node.output)
                indices.update(node.output if _to_int32(node) else ())
            elif _decodes(node, names, stored) or _compacted(node, stored, indices):
                names.update([*node.input, *node.output])
                stored.update(node.output)
    return names


def _decodes(node: NodeProto, encoded: set[str], stored: set[str]) -> bool:
    """Whether a node only turns stored tensors into another, and one of them is part of an encoding."""
    return node.op_type in DECODERS and stored.issuperset(node.input) and not encoded.isdisjoint(node.input)


def _compacted(node: NodeProto, stored: set[str], indices: set[str]) -> bool:
    """Whether a node rebuilds what `compact` stored: a block, or a table with small indices."""
    if not stored.issuperset(node.input):
        return False
    return node.op_type == "Expand" or (node.op_type == "Gather" and node.input[1] in indices)


def _to_int32(node: NodeProto) -> bool:
    return any(entry.name == "to" and entry.i == TensorProto.INT32 for entry in node.attribute)


def _stored_names(model: ModelProto) -> set[str]:
    stored: set[str] = set()
    for body in bodies(model):
        if isinstance(body, GraphProto):
            stored.update(tensor.name for tensor in body.initializer)
        stored.update(node.output[0] for node in body.node if node.op_type == "Constant" and node.output)
    return stored
