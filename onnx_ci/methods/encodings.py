"""How rounded weights are stored, and the nodes that turn them back into floats.

`fold`: Cast, Sub, Mul and Reshape of stored tensors, which onnxruntime runs once, when a session starts.
`dq`: DequantizeLinear, which it keeps and runs (or fuses) at every inference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.edit import cast_to_float
from onnx_ci.methods.rounding import Levels
from onnx_ci.methods.scopes import Site
from onnx_ci.methods.slices import Array
from onnx_ci.methods.weights import Encoder
from onnx_ci.model.graphs import opset
from onnx_ci.model.proto import AttributeProto, NodeProto

SLICE_TAKES_INPUTS = 10  # the opset from which what to cut is an input, not an attribute


@dataclass(frozen=True)
class Rounded:
    """Codes in the shape they are stored in, with scale and zero of a shape that broadcasts to it."""

    codes: Array
    scale: Array
    zero: Array | None


def rounded(codes: Array, levels: Levels, shape: tuple[int, ...], stored: tuple[int, ...]) -> Rounded:
    """`stored` is the shape of the codes, `shape` that of the scales."""
    zero = None if levels.zero is None else levels.zero.astype(codes.dtype).reshape(shape)
    return Rounded(codes.reshape(stored), levels.scale.astype(np.float32).reshape(shape), zero)


def fold(encoder: Encoder, parts: Rounded, shape: tuple[int, ...], *, half: bool = False) -> list[NodeProto]:
    """The nodes that rebuild a weight of that shape; scales are stored as fp16 if it holds them exactly."""
    nodes: list[NodeProto] = []
    value = _cast(encoder, nodes, encoder.store("q", parts.codes), "cast")
    if parts.zero is not None:
        zero = _cast(encoder, nodes, encoder.store("zero", parts.zero), "zero_cast")
        value = _node(encoder, nodes, "Sub", [value, zero])
    return rescale(encoder, nodes, value, parts.scale, shape, parts.codes.shape, half=half)


def rescale(
    encoder: Encoder,
    nodes: list[NodeProto],
    value: str,
    scale: Array,
    shape: tuple[int, ...],
    stored: tuple[int, ...],
    *,
    half: bool,
) -> list[NodeProto]:
    """Multiply by the scales, and give the result its shape."""
    small = scale.astype(np.float16) if half else scale
    if half and np.array_equal(small.astype(np.float32), scale):
        factor = _cast(encoder, nodes, encoder.store("scale", small), "scale_cast")
    else:
        factor = encoder.store("scale", scale)
    value = _node(encoder, nodes, "Mul", [value, factor])
    if stored != shape:
        value = _reshape(encoder, nodes, value, shape, padded=np.prod(stored) != np.prod(shape))
    nodes[-1].output[0] = encoder.output
    return nodes


def _reshape(
    encoder: Encoder, nodes: list[NodeProto], value: str, shape: tuple[int, ...], *, padded: bool
) -> str:
    if padded:
        flat = encoder.store("flat", np.array([-1], np.int64))
        value = _node(encoder, nodes, "Reshape", [value, flat])
        value = _cut(encoder, nodes, value, int(np.prod(shape)))
    if padded and len(shape) == 1:
        return value
    return _node(encoder, nodes, "Reshape", [value, encoder.store("shape", np.array(shape, np.int64))])


def _cut(encoder: Encoder, nodes: list[NodeProto], value: str, length: int) -> str:
    """The first elements of a flat tensor: what was filled up is left out again."""
    if opset(encoder.model.proto) >= SLICE_TAKES_INPUTS:
        ends = [encoder.store(key, np.array([at], np.int64)) for key, at in (("from", 0), ("to", length))]
        return _node(encoder, nodes, "Slice", [value, *ends])
    cut = _node(encoder, nodes, "Slice", [value])
    nodes[-1].attribute.add(name="starts", type=AttributeProto.INTS, ints=[0])
    nodes[-1].attribute.add(name="ends", type=AttributeProto.INTS, ints=[length])
    return cut


def dequantize(encoder: Encoder, parts: Rounded, axis: int | None, block: int = 0) -> list[NodeProto]:
    """One DequantizeLinear, with a zero point always: some runtimes take its type from there."""
    zero = np.zeros(parts.scale.shape, parts.codes.dtype) if parts.zero is None else parts.zero
    stored = [
        encoder.store(key, part) for key, part in (("q", parts.codes), ("scale", parts.scale), ("zero", zero))
    ]
    node = NodeProto(
        op_type="DequantizeLinear", input=stored, output=[encoder.output], name=encoder.name("dq")
    )
    for key, value in (("axis", axis), ("block_size", block)):
        if value or (key == "axis" and value is not None):
            node.attribute.add(name=key, type=AttributeProto.INT, i=value)
    return [node]


def dequantize_blocks(
    encoder: Encoder, codes: Array, levels: Levels, shape: tuple[int, ...], axis: int, block: int
) -> list[NodeProto]:
    """DequantizeLinear in blocks along an axis; the codes are in blocks of that axis, moved to the end."""
    moved = (*shape[:axis], *shape[axis + 1 :])
    whole = codes.reshape(*moved, -1)[..., : shape[axis]]
    found = rounded(codes, levels, (*moved, -1), codes.shape)
    zero = None if found.zero is None else _moved(found.zero, axis)
    return dequantize(encoder, Rounded(_moved(whole, axis), _moved(found.scale, axis), zero), axis, block)


def _moved(values: Array, axis: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(values, -1, axis))


def summed_axis(site: Site, ndim: int) -> int:
    """The axis along which a weight is multiplied and summed, where runtimes expect blocks to lie."""
    for node in site.scope.body.node:
        if node.op_type == "MatMul" and len(node.input) > 1 and node.input[1] == site.name and ndim > 1:
            return ndim - 2
    return ndim - 1


def _cast(encoder: Encoder, nodes: list[NodeProto], stored: str, suffix: str) -> str:
    name = encoder.name(suffix)
    nodes.append(cast_to_float(stored, name, name))
    return name


def _node(encoder: Encoder, nodes: list[NodeProto], op: str, inputs: list[str]) -> str:
    name = encoder.name(op.lower())
    nodes.append(NodeProto(op_type=op, input=inputs, output=[name], name=name))
    return name
