"""Values by what an input is called and by the table it indexes: masks, lengths, positions, token ids."""

from __future__ import annotations

import numpy as np

from onnx_ci.inputs import names
from onnx_ci.inputs.graph import Shape
from onnx_ci.verify import varied
from onnx_ci.verify.drawing import Drawing, Drawn
from onnx_ci.verify.dtypes import Array, is_float, is_integer

_RATE = 16000


def by_meaning(asked: Drawing) -> Drawn | None:
    return _by_name(asked) or _in_table(asked) or _by_weak_name(asked)


def _by_name(asked: Drawing) -> Drawn | None:
    shape, said, sample, below = asked.shape, asked.said, asked.sample, asked.role.below
    if said & names.MASK:
        ones = varied.mask(asked.rng, shape) if is_integer(asked.one.dtype) else np.ones(shape)
        return Drawn(ones, "a mask, by its name: ones, rows after the first padded with zeros")
    if said & names.RATE:
        return Drawn(np.full(shape, _RATE), "a sampling rate, by its name")
    if said & names.LENGTH and len(shape) <= 1:
        length = sample.past if said & names.PAST else sample.length
        return Drawn(np.full(shape, length), "a length, by its name: that of the sequence")
    if said & names.POSITION and is_integer(asked.one.dtype):
        return Drawn(_positions(shape, below, sample.past), "positions, by its name")
    if said & names.TIMESTEP and len(shape) <= 1:
        return Drawn(np.full(shape, min(500, (below or 1000) - 1)), "a time step, by its name")
    return None


def _in_table(asked: Drawing) -> Drawn | None:
    low, below = asked.role.low, asked.role.below
    if below is None:
        return None
    if asked.said & names.PERMUTATION and len(asked.shape) == 1 and asked.shape[0] <= below - low:
        return Drawn(low + asked.rng.permutation(asked.shape[0]), "a permutation, by its name")
    why = f"{low} to {below - 1}: what the table it indexes, or a bound on it, has room for"
    return Drawn(varied.ids(asked.rng, asked.shape, low, below, asked.sample.index), why)


def _by_weak_name(asked: Drawing) -> Drawn | None:
    """Names that say something where nothing else does."""
    shape, said, rng = asked.shape, asked.said, asked.rng
    if said & names.ONE_HOT and shape and shape[-1]:
        return Drawn(_one_hot(rng, shape), "one-hot rows, by its name")
    if said & names.PERMUTATION and len(shape) == 1 and is_integer(asked.one.dtype):
        return Drawn(rng.permutation(shape[0]), "a permutation, by its name")
    if said & names.SORTED and shape and not asked.role.indexes:
        steps = rng.integers(0, 3, size=shape) if is_integer(asked.one.dtype) else rng.random(shape)
        return Drawn(np.cumsum(steps, axis=-1), "in ascending order, by its name")
    if not is_float(asked.one.dtype):
        return None
    if said & names.PROBABILITY:
        return Drawn(0.05 + 0.9 * rng.random(shape), "probabilities, by its name")
    if said & names.POSITIVE:
        return Drawn(0.1 + 1.9 * rng.random(shape), "positive, by its name")
    if said & names.ONE and len(shape) <= 1:
        return Drawn(np.full(shape, 1.0 if asked.sample.index % 2 == 0 else 0.75), "a factor, by its name")
    return None


def _one_hot(rng: np.random.Generator, shape: Shape) -> Array:
    rows = np.zeros(shape)
    np.put_along_axis(rows, rng.integers(0, shape[-1], size=(*shape[:-1], 1)), 1.0, axis=-1)
    return rows


def _positions(shape: Shape, below: int | None, start: int) -> Array:
    row = np.arange(start, start + (shape[-1] if shape else 1))
    row = row if below is None else row % below
    return np.broadcast_to(row if shape else row[0], shape)
