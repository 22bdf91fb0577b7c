"""Rounds weights that stay float32: the file stays as large, a compressor makes less of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.options import FloatLevels, RoundMantissa, WeightOptions
from onnx_ci.methods.rounding import BLOCK, Array, by_axis, energies
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.methods.weights import is_chosen, kept_note, plain_weight
from onnx_ci.model.graph import fixed_names, roots
from onnx_ci.model.model import Model
from onnx_ci.model.store import CHUNK

LEVEL = 1  # of zlib: enough to see whether bytes got more alike
HARM = 0.1  # error over signal of a slice that is as good as lost: 10 dB
LOST = 0.02  # share of the slices along an axis that may be
MANTISSA = 23  # bits of a float32
PIECES = 8  # of a large tensor, spread over it, tell as much as all of it


def round_weights(model: Model, options: WeightOptions, rounding: Callable[[Array], Array | None]) -> Applied:
    """Round every plain weight that the options choose, where it compresses better afterwards.

    `rounding` gives None for a weight that it would do too much harm to.
    """
    left_alone = fixed_names(model.proto) | encoding_parts(model.proto)
    kept: list[str] = []
    count = 0
    for root in roots(model.proto):
        for site in root.nested_sites(left_alone):
            if not is_chosen(site, options):
                continue
            values = model.array(site.tensor)
            new = rounding(values) if plain_weight(values) else None
            if new is None:
                kept.append(site.name)
            elif compressed_size(new) < compressed_size(values):
                model.set_array(site.tensor, new)
                count += 1
    return Applied(count, kept_note(kept, "masks, indices or too uneven"))


def compressed_size(values: Array, level: int = LEVEL) -> int:
    """Bytes after compression, of the same parts of a tensor each time: to be compared, not added up."""
    stream = zlib.compressobj(level)
    return sum(len(stream.compress(piece.data)) for piece in _pieces(values)) + len(stream.flush())


def compressed_share(values: Array, level: int = LEVEL) -> float:
    """What compression leaves of a tensor, by the same parts of it."""
    return compressed_size(values, level) / max(1, sum(piece.size for piece in _pieces(values)))


def _pieces(values: Array) -> list[Array]:
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    stride = CHUNK * max(1, data.size // (CHUNK * PIECES))
    return [data[start : start + CHUNK] for start in range(0, data.size, stride)]


def float_levels(model: Model, options: FloatLevels) -> Applied:
    """Round each weight to a number of levels between its least and its largest value."""

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


def round_mantissa(model: Model, options: RoundMantissa) -> Applied:
    """Round weights to fewer mantissa bits: an error relative to each value."""
    return round_weights(model, options, lambda values: to_bits(values, options.bits))


def to_bits(values: Array, bits: int) -> Array:
    """To the nearest, ties to even. Plain weights are far from the largest float32, so none overflows."""
    dropped = np.uint32(MANTISSA - bits)
    one = np.uint32(1)
    words = values.view(np.uint32)
    half = (one << (dropped - one)) - one + ((words >> dropped) & one)
    rounded: Array = ((words + half) >> dropped << dropped).view(np.float32)
    return rounded
