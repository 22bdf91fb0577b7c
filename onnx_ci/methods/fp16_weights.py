"""Stores float32 weights as fp16 and casts them back up: half the size, computed in float32."""

from __future__ import annotations

import numpy as np

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.options import Fp16Weights
from onnx_ci.methods.rounding import Array, sum_of_products
from onnx_ci.methods.weights import Encode, Encoder, encode_weights, plain_weight
from onnx_ci.model.graph import opset
from onnx_ci.model.model import Model
from onnx_ci.model.proto import NodeProto

MIN_OPSET = 6  # Cast takes its type as a number from here on
MIN_SQNR = 40.0  # dB; fp16 gives 70 and more unless values fall below its range


def fp16_weights(model: Model, options: Fp16Weights) -> Applied:
    return encode_weights(model, options, encoding(model, options), kept="masks, indices or out of range")


def encoding(model: Model, _options: Fp16Weights) -> Encode | None:
    """How one weight is stored; None where the model can't have it."""
    return _as_half if opset(model.proto) >= MIN_OPSET else None


def _as_half(encoder: Encoder, values: Array) -> list[NodeProto] | None:
    half = _to_half(values)
    if half is None:
        return None
    encoder.cast(encoder.store("f16", half))
    return encoder.done()


def _to_half(values: Array) -> Array | None:
    """The values as fp16, or None where rounding them is not safe: masks, indices, out of fp16's range."""
    if not plain_weight(values):
        return None
    with np.errstate(over="ignore", under="ignore"):
        half = values.astype(np.float16)
        error = half.astype(np.float32)
    error -= values
    signal, noise = (sum_of_products(part.reshape(-1), part.reshape(-1)) for part in (values, error))
    return half if noise * 10 ** (MIN_SQNR / 10) <= signal else None
