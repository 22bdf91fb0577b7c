"""Stores float32 weights in 4 bits with a scale a block, rebuilt in float32 when a session starts."""

from __future__ import annotations

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.bit_planes import rebuilt
from onnx_ci.methods.decoder import Decoder
from onnx_ci.methods.encodings import along_axis, dequantize_node, from_blocks, summed_axis
from onnx_ci.methods.options import Int4Weights
from onnx_ci.methods.raise_opset import raise_opset
from onnx_ci.methods.rounding import asymmetric, clipped, codes
from onnx_ci.methods.slices import Array, block_axis, bounds, by_block
from onnx_ci.methods.table_levels import nearest_levels, pair_table
from onnx_ci.methods.weights import Encode, Encoder, encode_weights, plain_weight
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import opset
from onnx_ci.model.proto import NodeProto, TensorProto

FOLD_OPSET = 7  # Mul broadcasts as numpy does from here on
PAIRS = 4  # bits of which a byte holds a pair
DQ_OPSET, DQ_IR = 21, 10  # DequantizeLinear of 4-bit blocks
RATIOS = (0.95, 0.9, 0.85, 0.8)
LARGEST = 65504.0  # of fp16, in which scales are stored


def apply(model: Model, options: Int4Weights) -> Applied:
    reason = _not_possible(model, options) if options.encoding == "dq" else ""
    encode = encoding(model, options)
    if reason or encode is None:
        return Applied(0, reason)
    return encode_weights(model, options, encode, kept="masks, indices or out of range")


def encoding(model: Model, options: Int4Weights) -> Encode | None:
    """How one weight is stored; None where the model can't have it."""
    if opset(model.proto) < (DQ_OPSET if options.encoding == "dq" else FOLD_OPSET):
        return None

    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        if not plain_weight(values) or np.abs(values).max() > LARGEST:
            return None
        if options.encoding == "dq":
            return _as_dq(encoder, values, options.block_size)
        return _as_fold(encoder, values, options.block_size, options.bits)

    return encode


def _not_possible(model: Model, options: Int4Weights) -> str:
    """Why the model can't have 4-bit blocks; its opset is raised where that is allowed and safe."""
    version, ir = opset(model.proto), model.proto.ir_version
    if version >= DQ_OPSET and ir >= DQ_IR:
        return ""
    if options.raise_opset:
        return raise_opset(model.proto, DQ_OPSET, DQ_IR)
    return (
        f"DequantizeLinear of 4 bits needs opset {DQ_OPSET} (this is {version}) and IR {DQ_IR} (this is {ir})"
    )


def _as_fold(encoder: Encoder, values: Array, block: int, bits: int) -> list[NodeProto]:
    axis = block_axis(values, block)
    grid = by_block(np.moveaxis(values, axis, -1).reshape(-1), block)
    decoder = Decoder(encoder)
    value = _in_pairs(decoder, grid, block) if bits == PAIRS else _in_planes(decoder, grid, block, bits)
    from_blocks(decoder, value, values.shape, axis, stored=grid.size)
    return decoder.done()


def _in_pairs(decoder: Decoder, grid: Array, block: int) -> str:
    """Two codes a byte, looked up as a pair: a table of 256 pairs serves all weights."""
    levels, scale = nearest_levels(grid)
    stored = decoder.encoder.store("q", packed(levels).reshape(-1, block // 2))
    index = decoder.cast(stored, "index", TensorProto.INT32)
    value = decoder.node("Gather", [decoder.encoder.table("int4_pairs", pair_table()), index])
    return decoder.scaled(value, scale.reshape(-1, 1, 1))


def _in_planes(decoder: Decoder, grid: Array, block: int, bits: int) -> str:
    found, scale = nearest_levels(grid, bits)
    return decoder.scaled(rebuilt(decoder, found, bits, block), scale.reshape(-1, 1))


def _as_dq(encoder: Encoder, values: Array, block: int) -> list[NodeProto]:
    axis = summed_axis(encoder.site, values.ndim)
    grid = by_block(np.moveaxis(values, axis, -1), block)
    levels = clipped(grid, asymmetric(*bounds(grid), 15), RATIOS)
    found = along_axis(codes(grid, levels), levels, values.shape, axis)
    zero = np.zeros(0, np.uint8) if found.zero is None else found.zero
    stored = [
        encoder.store_packed("q", TensorProto.UINT4, values.shape, packed(found.codes).tobytes()),
        encoder.store("scale", found.scale),
        encoder.store_packed("zero", TensorProto.UINT4, found.scale.shape, packed(zero).tobytes()),
    ]
    return dequantize_node(encoder, stored, axis, block)


def packed(codes: Array) -> Array:
    """Two codes a byte, the first in the low bits, as ONNX packs 4-bit types."""
    flat = codes.reshape(-1)
    flat = np.append(flat, np.uint8(0)) if flat.size % 2 else flat
    joined: Array = flat[0::2] | (flat[1::2] << np.uint8(4))
    return joined
