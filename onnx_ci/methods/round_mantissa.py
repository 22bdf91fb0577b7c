"""Rounds weights to fewer mantissa bits, kept as float32: an error relative to each value."""

from __future__ import annotations

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import RoundMantissa
from onnx_ci.methods.rounded_floats import round_weights
from onnx_ci.methods.slices import Array
from onnx_ci.model.container import Model

MANTISSA = 23  # bits of a float32


def apply(model: Model, options: RoundMantissa) -> Applied:
    return round_weights(model, options, lambda values: to_bits(values, options.bits))


def to_bits(values: Array, bits: int) -> Array:
    """To the nearest, ties to even. Plain weights are far from the largest float32, so none overflows."""
    dropped = np.uint32(MANTISSA - bits)
    one = np.uint32(1)
    words = values.view(np.uint32)
    half = (one << (dropped - one)) - one + ((words >> dropped) & one)
    rounded: Array = ((words + half) >> dropped << dropped).view(np.float32)
    return rounded
