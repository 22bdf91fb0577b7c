"""Stores weights in 4 bits with a scale a block, rebuilt in float32 or fp16 when a session starts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from onnx_ci.methods import rounding, weights
from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.compensation import Moments, Steps, compensated
from onnx_ci.methods.options import Int4Weights
from onnx_ci.methods.rounding import Array
from onnx_ci.methods.weights import Encode, Encoder
from onnx_ci.model.graph import STANDARD_DOMAINS, all_nodes, opset
from onnx_ci.model.model import Model
from onnx_ci.model.proto import ModelProto, NodeProto, TensorProto, full_onnx

FOLD_OPSET = 7  # Mul broadcasts as numpy does from here on
PAIRS = 4  # bits of which a byte holds a pair
DQ_OPSET, DQ_IR = 21, 10  # DequantizeLinear of 4-bit blocks
RATIOS = (0.95, 0.9, 0.85, 0.8)
LARGEST = 65504.0  # of fp16, in which scales are stored
OLDEST = 13  # the opset before which too much changed in ways that a signature does not show
# Operators whose meaning changed since then while their signature did not say so.
CHANGED = {"GroupNormalization", "RoiAlign", "AveragePool", "Upsample", "Resize"}


def int4_weights(model: Model, options: Int4Weights) -> Applied:
    reason = _not_possible(model, options) if options.encoding == "dq" else ""
    encode = None if reason else encoding(model, options)
    return weights.encode_weights(model, options, encode, kept="masks, indices or out of range", note=reason)


def encoding(model: Model, options: Int4Weights) -> Encode | None:
    """How one weight is stored; None where the model can't have it."""
    if opset(model.proto) < (DQ_OPSET if options.encoding == "dq" else FOLD_OPSET):
        return None

    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        if not weights.plain_weight(values) or np.abs(values).max() > LARGEST:
            return None
        values = values.astype(np.float32, copy=False)
        if options.encoding == "dq":
            return _as_dq(encoder, values, options.block_size)
        return _as_fold(encoder, values, options)

    return encode


def _not_possible(model: Model, options: Int4Weights) -> str:
    """Why the model can't have 4-bit blocks; its opset is raised where that is allowed and safe."""
    version, ir = opset(model.proto), model.proto.ir_version
    if version >= DQ_OPSET and ir >= DQ_IR:
        return ""
    if not options.raise_opset:
        needed = f"opset {DQ_OPSET} (this is {version}) and IR {DQ_IR} (this is {ir})"
        return f"DequantizeLinear of 4 bits needs {needed}"
    reason = "" if version >= DQ_OPSET else _obstacle(model.proto, version)
    if not reason:
        for entry in model.proto.opset_import:
            if entry.domain in STANDARD_DOMAINS:
                entry.version = max(entry.version, DQ_OPSET)
        model.proto.ir_version = max(ir, DQ_IR)
    return reason


def _as_fold(encoder: Encoder, values: Array, options: Int4Weights) -> list[NodeProto]:
    bits, axis = options.bits, rounding.block_axis(values, options.block_size)
    grid = rounding.in_blocks(values, axis, options.block_size)
    unit = rounding.unit_of(grid) if options.scales == "int8" else None
    levels, scale = rounding.nearest_levels(grid, bits, unit)
    if encoder.moments is not None:
        levels = _better(values, levels, scale, axis, bits, encoder.moments)
    if not encoder.packs:
        rounded = rounding.levels_of(bits).take(levels)
        rounded *= scale[:, None]
        encoder.decoded = rounding.out_of_blocks(rounded, values.shape, axis)
        return []
    value = _in_pairs(encoder, levels) if bits == PAIRS else _in_planes(encoder, levels, bits)
    scale = scale.reshape(-1, *[1] * (2 if bits == PAIRS else 1))  # pairs have an axis of their own
    if unit is None:
        value = encoder.scaled(value, scale.astype(np.float16))
    else:
        value = encoder.scaled(value, rounding.in_units(scale, unit), unit)
    encoder.from_blocks(value, values.shape, axis, stored=grid.size)
    return encoder.done()


def _better(values: Array, levels: Array, scale: Array, axis: int, bits: int, moments: Moments) -> Array:
    """Codes that make up for each other's errors."""
    scales = np.broadcast_to(scale[:, None], levels.shape)
    placed = rounding.out_of_blocks(rounding.levels_of(bits)[levels], values.shape, axis)
    steps = Steps(
        rounding.out_of_blocks(scales, values.shape, axis), None, partial(rounding.nearest_values, bits=bits)
    )
    found = compensated(values, placed, steps, moments)
    return rounding.look_up(rounding.in_blocks(found, axis, levels.shape[-1]), bits)


def _in_pairs(encoder: Encoder, levels: Array) -> str:
    """Two codes a byte, looked up as a pair: a table of 256 pairs serves all weights."""
    stored = encoder.store("q", weights.packed(levels).reshape(-1, levels.shape[-1] // 2))
    index = encoder.cast(stored, TensorProto.INT32)
    pairs = encoder.table("int4_pairs", rounding.SIXTEEN[weights.plane_table(PAIRS, 0)])
    return encoder.node("Gather", [pairs, index])


def _in_planes(encoder: Encoder, levels: Array, bits: int) -> str:
    """Codes of 2 to 12 bits without a bit wasted: in planes of 8, 4, 2 and 1 bits that tables put together.

    A byte holds bits of two codes in the plane of 4 bits, of four in that of 2, of eight in that of 1. A
    table with 256 rows gives for each byte what its bits are worth; the planes' values add up to the codes.
    """
    shape = encoder.sizes(-1, levels.shape[-1])
    total = ""
    for width, shift in weights.planes(bits):
        stored = encoder.store(f"q{width}", weights.packed(levels, width, shift))
        part = encoder.cast(stored, TensorProto.INT32)
        if width == weights.WHOLE and shift:
            part = encoder.node("Mul", [part, encoder.table(f"times{shift}", np.array(1 << shift, np.int32))])
        elif width < weights.WHOLE:
            table = encoder.table(f"bits{width}_{shift}", weights.plane_table(width, shift))
            part = encoder.node("Gather", [table, part])
        part = encoder.node("Reshape", [part, shape])
        total = encoder.node("Add", [total, part]) if total else part
    return _looked_up(encoder, total, bits)


def _looked_up(encoder: Encoder, codes: str, bits: int) -> str:
    if bits >= rounding.EVEN_BITS:  # codes are so many steps above the least
        half = 1 << (bits - 1)
        middle = encoder.table(f"middle{bits}", np.array(half - 1, np.float32))
        step = encoder.table(f"step{bits}", np.array(1 / half, np.float32))
        above = encoder.node("Sub", [encoder.cast(codes), middle])
        return encoder.node("Mul", [above, step])
    return encoder.node("Gather", [encoder.table(f"int{bits}_levels", rounding.levels_of(bits)), codes])


def _as_dq(encoder: Encoder, values: Array, block: int) -> list[NodeProto]:
    axis = weights.summed_axis(encoder.site, values.ndim)
    grid = rounding.by_block(np.moveaxis(values, axis, -1), block)
    levels = rounding.clipped(grid, rounding.asymmetric(*rounding.bounds(grid), 15), RATIOS)
    parts = weights.along_axis(grid, levels, values.shape, axis)
    return weights.dequantize(encoder, parts, axis, block, TensorProto.UINT4)


def _obstacle(model: ModelProto, version: int) -> str:
    """Why raising the opset might change what the model computes."""
    imports = [entry for entry in model.opset_import if entry.domain in STANDARD_DOMAINS]
    if version < OLDEST or model.functions or len(imports) != 1:
        return f"opset {version} can't be raised: it is below {OLDEST}, or the model has functions of its own"
    nodes = [node for node in all_nodes(model) if node.domain in STANDARD_DOMAINS]
    changed = sorted({node.op_type for node in nodes if not _means_the_same(node, version)})
    return f"opset {version} can't be raised: {', '.join(changed[:3])} changed since" if changed else ""


def _means_the_same(node: NodeProto, version: int) -> bool:
    defs = full_onnx().defs
    try:
        old, new = (defs.get_schema(node.op_type, at, "") for at in (version, DQ_OPSET))
    except defs.SchemaError:
        return False
    if old.since_version == new.since_version:
        return True
    if node.op_type in CHANGED or (node.op_type == "Split" and len(node.input) < 2):
        return False
    return _extends(old, new)


def _extends(old: Any, new: Any) -> bool:
    """Whether the new signature takes all that the old one did, and asks for nothing more."""
    kept = all(
        name in new.attributes and new.attributes[name].default_value == attribute.default_value
        for name, attribute in old.attributes.items()
    )
    asked = any(new.attributes[name].required for name in new.attributes.keys() - old.attributes.keys())
    inputs = [[value.name for value in schema.inputs] for schema in (old, new)]
    outputs = [[value.name for value in schema.outputs] for schema in (old, new)]
    longer = inputs[1][: len(inputs[0])] == inputs[0] and new.min_input <= old.min_input
    return bool(kept and not asked and longer and outputs[0] == outputs[1] and not new.deprecated)
