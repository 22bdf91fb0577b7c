"""How rounded weights are stored, and the nodes that turn them back into floats.

`fold`: Cast, Sub, Mul and Reshape of stored tensors, which onnxruntime runs once, when a session starts.
`dq`: DequantizeLinear, which it keeps and runs (or fuses) at every inference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.decoder import Decoder
from onnx_ci.methods.rounding import Levels
from onnx_ci.methods.scopes import Site
from onnx_ci.methods.slices import Array
from onnx_ci.methods.weights import Encoder
from onnx_ci.model.proto import AttributeProto, NodeProto


@dataclass(frozen=True)
class Rounded:
    """Codes in the shape they are stored in, with scale and zero of a shape that broadcasts to it."""

    codes: Array
    scale: Array
    zero: Array | None


def rounded(codes: Array, levels: Levels, shape: tuple[int, ...], stored: tuple[int, ...]) -> Rounded:
    """`stored` is the shape of the codes, `shape` that of the scales."""
    zero = None if levels.zero is None else levels.zero.astype(codes.dtype).reshape(shape)
    return Rounded(codes.reshape(stored), levels.scale.reshape(shape), zero)


def fold(encoder: Encoder, parts: Rounded) -> list[NodeProto]:
    """The nodes that rebuild a weight from codes of the same shape."""
    decoder = Decoder(encoder)
    decoder.scaled(_unrounded(decoder, parts), parts.scale)
    return decoder.done()


def fold_blocks(encoder: Encoder, parts: Rounded, shape: tuple[int, ...], axis: int) -> list[NodeProto]:
    """The nodes that rebuild a weight of that shape from blocks along an axis."""
    decoder = Decoder(encoder)
    value = decoder.scaled(_unrounded(decoder, parts), parts.scale)
    from_blocks(decoder, value, shape, axis, stored=parts.codes.size)
    return decoder.done()


def _unrounded(decoder: Decoder, parts: Rounded) -> str:
    value = decoder.cast(decoder.encoder.store("q", parts.codes), "cast")
    if parts.zero is None:
        return value
    return decoder.node("Sub", [value, decoder.cast(decoder.encoder.store("zero", parts.zero), "zero_cast")])


def from_blocks(decoder: Decoder, value: str, shape: tuple[int, ...], axis: int, *, stored: int) -> None:
    """Blocks that were taken with an axis moved to the end, back in shape."""
    value = decoder.shaped(value, (*shape[:axis], *shape[axis + 1 :], *shape[axis : axis + 1]), stored=stored)
    if axis < len(shape) - 1:
        decoder.last_axis_to(value, axis, len(shape))


def dequantize(encoder: Encoder, parts: Rounded, axis: int | None, block: int = 0) -> list[NodeProto]:
    """One DequantizeLinear, with a zero point always: some runtimes take its type from there."""
    zero = np.zeros(parts.scale.shape, parts.codes.dtype) if parts.zero is None else parts.zero
    stored = [
        encoder.store(key, part)
        for key, part in (("q", parts.codes), ("scale", parts.scale.astype(np.float32)), ("zero", zero))
    ]
    return dequantize_node(encoder, stored, axis, block)


def dequantize_node(encoder: Encoder, stored: list[str], axis: int | None, block: int) -> list[NodeProto]:
    made = NodeProto(
        op_type="DequantizeLinear", input=stored, output=[encoder.output], name=encoder.name("dq")
    )
    for key, value in (("axis", axis), ("block_size", block or None)):
        if value is not None:
            made.attribute.add(name=key, type=AttributeProto.INT, i=value)
    return [made]


def along_axis(codes: Array, levels: Levels, shape: tuple[int, ...], axis: int) -> Rounded:
    """Codes in blocks of an axis that was moved to the end, with the axis back in its place."""
    others = (*shape[:axis], *shape[axis + 1 :])
    found = rounded(
        codes.reshape(*others, -1)[..., : shape[axis]], levels, (*others, -1), (*others, shape[axis])
    )
    zero = None if found.zero is None else _moved(found.zero, axis)
    return Rounded(_moved(found.codes, axis), _moved(found.scale, axis), zero)


def _moved(values: Array, axis: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(values, -1, axis))


def summed_axis(site: Site, ndim: int) -> int:
    """The axis along which a weight is multiplied and summed, where runtimes expect blocks to lie."""
    return ndim - 2 if ndim > 1 and "MatMul" in _readers(site, position=1) else ndim - 1


def stands_first(site: Site) -> bool:
    """Whether a product has the weight on its left, where onnxruntime's kernels take one scale only."""
    return not _readers(site, position=0).isdisjoint(("MatMul", "Gemm"))


def _readers(site: Site, position: int) -> set[str]:
    """The ops that read a weight as this input of theirs."""
    nodes = (node for scope in site.scope.nested() for node in scope.body.node)
    return {node.op_type for node in nodes if site.name in node.input[position : position + 1]}
