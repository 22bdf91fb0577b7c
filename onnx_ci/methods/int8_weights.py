"""Stores float32 weights as 8-bit integers with scales, rebuilt in float32 when a session starts.

Each slice along one axis has its own scale; which axis is decided by the error it leaves.
"""

from __future__ import annotations

import math

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import cast_to_float
from onnx_ci.methods.options import Int8Weights
from onnx_ci.methods.weights import BLOCK, Array, Encoder, encode_weights, plain_weight
from onnx_ci.model.container import Model
from onnx_ci.model.proto import NodeProto

MIN_OPSET = 7  # Mul broadcasts as numpy does from here on
LEVELS = 127  # symmetric: -128 is not used
MIN_SLICE = 32  # elements that share a scale; with fewer, scales eat into what the integers save
TINY = float(np.finfo(np.float32).tiny)


def apply(model: Model, options: Int8Weights) -> Applied:
    kept: list[str] = []

    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        if not plain_weight(values):
            kept.append(encoder.site.name)
            return None
        scale = best_scale(values, per_channel=options.granularity == "channel")
        return _rebuild(encoder, quantize(values, scale), scale)

    count = encode_weights(model, min_elements=options.min_elements, min_opset=MIN_OPSET, encode=encode)
    note = (
        f"{len(kept)} kept as float32 (masks, indices or not finite): {', '.join(kept[:3])}" if kept else ""
    )
    return Applied(count, note)


def _rebuild(encoder: Encoder, integers: Array, scale: Array) -> list[NodeProto]:
    stored, factor, cast = encoder.store("i8", integers), encoder.store("scale", scale), encoder.name("cast")
    return [
        cast_to_float(stored, cast, cast),
        NodeProto(op_type="Mul", input=[cast, factor], output=[encoder.output], name=encoder.name("mul")),
    ]


def best_scale(values: Array, *, per_channel: bool = True) -> Array:
    """The scales that leave the least error: one for all, or one a slice along the best axis.

    Slices of few elements cost many scales, so they have to be better by far.
    """
    axes = [axis for axis, size in enumerate(values.shape) if 1 < size < values.size] if per_channel else []
    choices = [_scale(values, axis) for axis in [None, *axes]]
    if len(choices) == 1:
        return choices[0]
    return min(choices, key=lambda scale: squared_error(values, scale) * _handicap(values, scale))


def _handicap(values: Array, scale: Array) -> float:
    return 1.0 if values.size // scale.size >= MIN_SLICE else 4.0


def _scale(values: Array, axis: int | None) -> Array:
    """The largest magnitude of each slice, kept as a shape that broadcasts, over the number of levels."""
    others = tuple(other for other in range(values.ndim) if other != axis)
    keep = axis is not None
    largest = np.maximum(values.max(axis=others, keepdims=keep), -values.min(axis=others, keepdims=keep))
    scale: Array = np.maximum(largest / np.float32(LEVELS), np.float32(TINY))
    return scale


def quantize(values: Array, scale: Array) -> Array:
    out = np.empty(values.shape, np.int8)
    for rows in _blocks(values):
        block = values[rows] / _part(scale, rows, values)
        np.rint(block, out=block)
        out[rows] = block
    return out


def squared_error(values: Array, scale: Array) -> float:
    total = 0.0
    for rows in _blocks(values):
        factor = _part(scale, rows, values)
        block = values[rows] / factor
        np.rint(block, out=block)
        block *= factor
        block -= values[rows]
        total += float(np.vdot(block, block))
    return total


def _blocks(values: Array) -> list[slice]:
    """Runs of rows small enough that a block and what is computed from it stay in the cache."""
    rows = values.shape[0] if values.ndim else 1
    step = max(1, BLOCK // max(1, math.prod(values.shape[1:])))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _part(scale: Array, rows: slice, values: Array) -> Array:
    """The scales of some rows: all of them unless each row has its own."""
    return scale[rows] if scale.ndim and scale.shape[0] == values.shape[0] > 1 else scale
