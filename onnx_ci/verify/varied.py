"""Values sample by sample in another manner: white noise is but one thing that a model is fed."""

from __future__ import annotations

import numpy as np

from onnx_ci.inputs.graph import Shape
from onnx_ci.inputs.patterns import speech
from onnx_ci.verify.dtypes import Array

_NEIGHBOURS = 8  # of so many parts of an alphabet one is used where what is read is of one kind
_FAINT = 0.1
_FAR = (4.0, 10.0)  # times what is around zero
WIDE = 2  # the first sample with such numbers, and every eighth after it
_WANDERING = 5.0  # steps that make up one; long rows go no further than about 4
_HISS = 0.05  # of full scale
_SHORTEST = 4  # a shorter row is not padded


def ids(rng: np.random.Generator, shape: Shape, low: int, below: int, index: int) -> Array:
    """Ids from `low` to `below`, sample by sample in another manner: all alike, a few of them often, those
    of one neighbourhood, and such with the rest of each row filled up. A classifier that is sure of noise,
    whatever is done to it, has to think about some of these."""
    manner = index % 4
    if manner == 0 or below - low < 2:
        return rng.integers(low, below, size=shape)
    if manner == 1:
        ranks = np.exp(rng.uniform(0.0, np.log(below - low), size=shape)).astype(np.int64)
        return low + np.clip(ranks - 1, 0, below - low - 1)
    width = max(2, (below - low) // _NEIGHBOURS)
    first = int(rng.integers(low, below - width + 1))
    drawn = rng.integers(first, first + width, size=shape)
    return _filled_up(rng, drawn, below - 1) if manner == 3 else drawn


def _filled_up(rng: np.random.Generator, drawn: Array, filler: int) -> Array:
    if drawn.ndim and drawn.shape[-1] >= _SHORTEST:
        drawn[..., int(rng.integers(1, drawn.shape[-1])) :] = filler
    return drawn


def numbers(rng: np.random.Generator, shape: Shape, index: int, *, wide: bool = False) -> Array:
    """Floats of which nothing is known: around zero, from 0 to 1, near zero, and in a row that wanders off as
    spectra and measurements do. Rounding shows on one of these and hardly on another. Where they may be
    `wide`, every other of those near zero is far from it instead: a bound of 6 or a negative bias hides what
    smaller numbers never reach."""
    manner = index % 4
    if wide and index % 8 == WIDE:
        return rng.uniform(*_FAR) * rng.standard_normal(shape)
    if manner == 1:
        return rng.random(shape)
    drawn = rng.standard_normal(shape)
    if manner == 3 and drawn.ndim:
        steps = max(_WANDERING, float(np.sqrt(drawn.shape[-1])) / 4)
        return np.asarray(np.cumsum(drawn, axis=-1) / steps)
    return _FAINT * drawn if manner == 2 else drawn


def sound(rng: np.random.Generator, shape: Shape, index: int) -> Array:
    """A voice, and in every fourth sample the hiss between words, where a model is less sure of itself."""
    return _HISS * rng.standard_normal(shape) if index % 4 == 2 else speech(rng, shape)


def padding(rng: np.random.Generator, shape: Shape) -> Array:
    """True from the middle of a row or later on; nowhere in the first row of several."""
    if not shape or shape[-1] < 2:
        return np.zeros(shape, np.bool_)
    starts = rng.integers(shape[-1] // 2, shape[-1], size=(*shape[:-1], 1))
    found: Array = np.arange(shape[-1]) >= starts
    if len(shape) > 1 and shape[0] > 1:
        found[0] = False
    return found


def mask(rng: np.random.Generator, shape: Shape) -> Array:
    """All ones for the first of a batch; the others are shorter, and filled up to the same length."""
    ones = np.ones(shape)
    if len(shape) == 2 and shape[1] >= _SHORTEST:
        for row in ones[1:]:
            row[int(rng.integers(shape[1] // 2, shape[1])) :] = 0
    return ones
