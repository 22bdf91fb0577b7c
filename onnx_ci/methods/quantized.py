"""What is quantized already: parameters of quantized ops, and weights that are stored encoded."""

from __future__ import annotations

import re

from onnx_ci.model.graphs import bodies
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto

# Ops that compute with quantized values: whatever they read is part of an encoding, not a plain weight.
QUANTIZED_OP = re.compile(r"^Q[A-Z]|[Qq]uantize|Integer|NBits")


def quantization_parameters(model: ModelProto) -> set[str]:
    """Scales and zero points. Sharing one between ops that each expect their own defeats fusions."""
    names: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            if QUANTIZED_OP.search(node.op_type):
                names.update(node.input[1:])
    return names


def encoding_parts(model: ModelProto) -> set[str]:
    """Every name that is part of a stored encoding: read by a quantized op, or a scale that is
    multiplied with (or an offset added to) a weight that was cast up from a smaller type."""
    names: set[str] = set()
    decoded = _stored_names(model)
    for body in bodies(model):
        for node in body.node:
            if QUANTIZED_OP.search(node.op_type):
                names.update(node.input)
            elif node.op_type in ("Cast", "CastLike") and node.input[0] in decoded:
                names.update(node.output)
                decoded.update(node.output)
            elif _rescales(node, names, decoded):
                names.update([*node.input, *node.output])
                decoded.update(node.output)
    return names


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
