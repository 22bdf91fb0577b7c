"""Rounds each weight to a number of levels between its least and its largest value, kept as float32."""

from __future__ import annotations

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import FloatLevels
from onnx_ci.methods.rounded_floats import round_weights
from onnx_ci.methods.slices import BLOCK, Array, by_axis, energies
from onnx_ci.model.container import Model

HARM = 0.1  # error over signal of a slice that is as good as lost: 10 dB
LOST = 0.02  # share of the slices along an axis that may be


def apply(model: Model, options: FloatLevels) -> Applied:
    def rounding(values: Array) -> Array | None:
        rounded = to_levels(values, options.levels)
        return None if loses_slices(values, rounded) else rounded

    return round_weights(model, options, rounding)


def loses_slices(values: Array, rounded: Array) -> bool:
    """Whether channels that are small next to others would vanish between two levels."""
    error = rounded - values
    for axis, size in enumerate(values.shape):
        if 1 < size < values.size:
            lost = energies(by_axis(error, axis)) > HARM * energies(by_axis(values, axis))
            if lost.mean() > LOST:
                return True
    return False


def to_levels(values: Array, count: int) -> Array:
    """Both ends are levels, so that rounding again finds the same ones; what is zero stays as it is."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return values
    levels = np.linspace(low, high, count).astype(np.float32)
    middle = round(-low * (count - 1) / (high - low))
    if 0 < middle < count - 1:
        levels[middle] = 0
    out: Array = values.copy()
    flat = out.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        nearest = np.rint((part.astype(np.float64) - low) * ((count - 1) / (high - low)))
        part[:] = np.where(part == 0, part, levels[nearest.astype(np.int32)])
    return out
