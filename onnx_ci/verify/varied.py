"""Ids and masks as they come in use: white noise over a whole alphabet is but one thing a model reads."""

from __future__ import annotations

import numpy as np

from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.wiring import Shape

_NEIGHBOURS = 8  # of so many parts of an alphabet one is used where what is read is of one kind
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


def mask(rng: np.random.Generator, shape: Shape) -> Array:
    """All ones for the first of a batch; the others are shorter, and filled up to the same length."""
    ones = np.ones(shape)
    if len(shape) == 2 and shape[1] >= _SHORTEST:
        for row in ones[1:]:
            row[int(rng.integers(shape[1] // 2, shape[1])) :] = 0
    return ones
