"""Which stored tensors a method takes: by name, by who reads them, and not what is encoded already."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from onnx_ci.model import receipt
from onnx_ci.model.graph import (
    Outline,
    Scope,
    Site,
    all_nodes,
    constant_nodes,
    constant_value,
    nodes_by_body,
    stored_in,
)
from onnx_ci.model.model import Model
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto, TensorProto

# Ops that compute with quantized values: whatever they read is part of an encoding, not a plain weight.
QUANTIZED_OP = re.compile(r"^Q[A-Z]|[Qq]uantize|Integer|NBits")
# Ops that decode what was cast up from a smaller type: scales, offsets, tables, and the shape at the end.
MOVES = ("Reshape", "Slice", "Transpose")
DECODERS = ("Mul", "Add", "Sub", "Gather", *MOVES)


def all_stored(root: Scope) -> Iterator[Site]:
    """Every initializer and every Constant that holds a tensor, in a graph and the graphs inside it.

    Of two that have one name in one graph, onnxruntime takes now one, now the other: both are left out.
    """
    for scope in root.nested():
        for site in stored_in(scope):
            if scope.defined[site.name] == 1:
                yield site


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns, in which `*` stands for anything, slashes and dots too, fits a name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def select(
    root: Scope, sites: Sequence[Site], *, tensors: Sequence[str], ops: Sequence[str]
) -> tuple[list[Site], str]:
    """The sites that patterns choose: by the tensor's name, or by op or name of a node that reads it.

    With them comes an addition to a note: the patterns that match nothing, most likely typing mistakes.
    """
    chosen: set[Site] = set()
    idle: list[str] = []
    for pattern in tensors:
        named = [site for site in sites if site.name == pattern or fnmatchcase(site.name, pattern)]
        chosen.update(named)
        idle += [] if named else [pattern]
    for pattern in ops:
        read = [site for site in sites if _is_read_by(root, site, pattern)]
        chosen.update(read)
        idle += [] if read else [pattern]
    note = f"; no stored tensor belongs to {', '.join(map(repr, idle))}" if idle else ""
    return [site for site in sites if site in chosen], note


def _is_read_by(root: Scope, site: Site, pattern: str) -> bool:
    for use in root.readers.get((site.scope, site.name), ()):
        name = use.node.name
        if use.node.op_type == pattern or (name and (name == pattern or fnmatchcase(name, pattern))):
            return True
    return False


def same_content(model: Model, sites: Sequence[Site]) -> list[list[Site]]:
    """The sites in groups of equal type, shape and bytes, most of them alone."""
    return receipt.same_content(model, sites, lambda site: site.tensor)


def type_and_shape(site: Site) -> tuple[int, tuple[int, ...]]:
    return site.tensor.data_type, tuple(site.tensor.dims)


def quantization_parameters(model: ModelProto | Outline) -> set[str]:
    """Scales and zero points. Sharing one between ops that each expect their own defeats fusions."""
    return {name for inputs in _quantized_reads(model) for name in inputs[1:]}


def quantized_inputs(model: ModelProto | Outline) -> set[str]:
    """All that quantized ops read: kernels and fusions expect it stored as it is."""
    return {name for inputs in _quantized_reads(model) for name in inputs}


def _quantized_reads(model: ModelProto | Outline) -> Iterator[tuple[str, ...]]:
    """What each quantized op reads."""
    for _, nodes in nodes_by_body(model):
        quantized = {op for op in set(nodes.ops) if QUANTIZED_OP.search(op)}
        if quantized:
            yield from (inputs for op, inputs in zip(nodes.ops, nodes.inputs, strict=True) if op in quantized)


def encoding_parts(model: ModelProto) -> set[str]:
    """Every name that is part of a stored encoding: read by a quantized op, cast up from a smaller type,
    looked up in a table by stored codes, repeated, or combined with such a value by ops that decode. What is
    stored as fp16 is one where it is cast for such an op, and a plain weight otherwise."""
    names = quantized_inputs(model)
    stored = _stored_names(model)
    halves = _half_names(model)
    indices: set[str] = set()
    cast_from: dict[str, str] = {}
    for node in all_nodes(model):
        if node.op_type in ("Cast", "CastLike") and stored.intersection(node.input[:1]):
            names.update(node.output)
            stored.update(node.output)
            indices.update(node.output if _to_int32(node) else ())
            cast_from.update(dict.fromkeys(node.output, node.input[0]))
        elif stored.issuperset(node.input) and _decodes(node, names, indices):
            names.update([*node.input, *node.output])
            stored.update(node.output)
            if node.op_type in MOVES:
                cast_from[node.output[0]] = cast_from.get(node.input[0], "")
            else:
                names.update(halves.intersection(cast_from.get(name, "") for name in node.input))
    return names


def _decodes(node: NodeProto, encoded: set[str], indices: set[str]) -> bool:
    """Whether a node of stored tensors reads a part of an encoding, or rebuilds what `compact` stored: a
    block, or a table with small indices."""
    if node.op_type in DECODERS and not encoded.isdisjoint(node.input):
        return True
    return node.op_type == "Expand" or (node.op_type == "Gather" and not indices.isdisjoint(node.input[1:2]))


def _to_int32(node: NodeProto) -> bool:
    return any(entry.name == "to" and entry.i == TensorProto.INT32 for entry in node.attribute)


def _half_names(model: ModelProto) -> set[str]:
    """What is stored as fp16."""
    halves: set[str] = set()
    for body, nodes in nodes_by_body(model):
        if isinstance(body, GraphProto):
            halves.update(item.name for item in body.initializer if item.data_type == TensorProto.FLOAT16)
        for node in constant_nodes(body, nodes):
            value = constant_value(node)
            if value is not None and value.data_type == TensorProto.FLOAT16:
                halves.add(node.output[0])
    return halves


def _stored_names(model: ModelProto) -> set[str]:
    stored: set[str] = set()
    for body, nodes in nodes_by_body(model):
        if isinstance(body, GraphProto):
            stored.update(tensor.name for tensor in body.initializer)
        made = zip(nodes.ops, nodes.outputs, strict=True)
        stored.update(outputs[0] for op, outputs in made if op == "Constant" and outputs)
    return stored
