"""Random arrays that look like what models are fed: ids, numbers, masks, and token ids as text has them.

White noise is but one thing that a model is fed, and one that makes a trained model answer nothing. So values
come in another manner with each sample (`index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onnx_ci.inputs.graph import Shape
from onnx_ci.sandbox.exchange import Array

_NEIGHBOURS = 8  # of so many parts of a vocabulary one is used where a text is of one subject
_HALVES = 2  # of an alphabet: words of fewer letters are none
_FILLED = 4  # one in so many parts of a row, the last, is where it may be filled up
_FAINT = 0.1
_FAR = (4.0, 10.0)  # times what is around zero
WIDE = 2  # the first sample with such numbers, and every eighth after it
_UNEVEN = 0.5  # of the logarithm of how large channels are
_SIZES = (1.0, 0.5, 0.25, 0.75)  # of the numbers that a normalization leaves
_WANDERING = 5.0  # steps that make up one; long rows go no further than about 4
_SHORTEST = 4  # a shorter row is not padded
_CELLS = 7  # blobs across a picture
_FEWEST_PLACES = 8  # of the user's samples that differ: fewer in another order are these samples once more
_LOOKED_AT = 1000  # such places, to tell whether they differ


def ids(rng: np.random.Generator, shape: Shape, low: int, below: int, index: int) -> Array:
    """Draw ids from `low` to before `below`: all alike, a few of them often, those of one half, and such with
    the rest of each row filled up.

    A classifier that is sure of noise, whatever is done to it, has to think about some of these.
    """
    manner = index % 4
    if manner == 0 or below - low < 2:
        return rng.integers(low, below, size=shape)
    if manner == 1:
        ranks = np.exp(rng.uniform(0.0, np.log(below - low), size=shape)).astype(np.int64)
        return low + np.clip(ranks - 1, 0, below - low - 1)
    width = max(2, (below - low) // _HALVES)
    first = int(rng.integers(low, below - width + 1))
    drawn = rng.integers(first, first + width, size=shape)
    if manner == 3 and drawn.ndim and drawn.shape[-1] >= _SHORTEST:
        length = drawn.shape[-1]
        drawn[..., int(rng.integers(length - length // _FILLED, length)) :] = below - 1
    return drawn


def numbers(rng: np.random.Generator, shape: Shape, index: int, *, wide: bool = False) -> Array:
    """Draw floats of which nothing is known: around zero, from 0 to 1, near zero, and in a row that wanders
    off as spectra and measurements do.

    Rounding shows on one of these and hardly on another. Where they may be `wide`, every other of those near
    zero is far from it instead: a bound of 6 or a negative bias hides what smaller numbers never reach.
    """
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


def hidden(rng: np.random.Generator, shape: Shape, index: int) -> Array:
    """Draw rows as a network leaves them after a normalization, of a size that differs from sample to sample:
    each like the one before it, and some channels larger than others."""
    drawn = rng.standard_normal(shape)
    drawn[..., 1:, :] += drawn[..., :-1, :]
    drawn *= np.exp(_UNEVEN * rng.standard_normal(shape[-1]))
    size = np.sqrt(np.square(drawn).mean(axis=-1, keepdims=True))
    return np.asarray(_SIZES[index % len(_SIZES)] * drawn / np.where(size > 0, size, 1.0))


def pieces(
    rng: np.random.Generator, shape: Shape, features: Sequence[int], given: Sequence[Array]
) -> Array | None:
    """Draw what stands side by side along the axes of `features` from any place in what was given; where that
    is all, each number from any of these. None where these are too few to say what there is."""
    order = [axis for axis in range(len(shape)) if axis not in features] + list(features)
    width = tuple(shape[axis] for axis in features)
    rows = [
        array.transpose(order).reshape(-1, *width)
        for array in given
        if tuple(array.shape[axis] for axis in features) == width
    ]
    pool = np.concatenate(rows) if rows else np.zeros((0, *width))
    some = pool[:: 1 + len(pool) // _LOOKED_AT].reshape(-1, max(1, int(np.prod(width))))
    if len(np.unique(some, axis=0)) < _FEWEST_PLACES:
        return None
    outer = tuple(shape[axis] for axis in order[: -len(width)])
    if np.prod(outer, dtype=np.int64) > 1:
        drawn = pool[rng.integers(len(pool), size=outer)]
    else:
        drawn = np.take_along_axis(pool, rng.integers(len(pool), size=(1, *width)), axis=0)
        drawn = drawn.reshape(*outer, *width)
    return np.asarray(drawn.transpose(np.argsort(order)))


def padding(rng: np.random.Generator, shape: Shape) -> Array:
    """Draw what is true from the middle of a row or later on, and nowhere in the first row of several."""
    if not shape or shape[-1] < 2:
        return np.zeros(shape, np.bool_)
    starts = rng.integers(shape[-1] // 2, shape[-1], size=(*shape[:-1], 1))
    padded: Array = np.arange(shape[-1]) >= starts
    if len(shape) > 1 and shape[0] > 1:
        padded[0] = False
    return padded


def mask(shape: Shape, lengths: Array) -> Array:
    """Return ones, and zeros after the length of each row."""
    return (
        np.less(np.arange(shape[1]), lengths[:, None]).astype(np.float64)
        if len(shape) == 2
        else np.ones(shape)
    )


def row_lengths(rng: np.random.Generator, rows: int, width: int) -> Array:
    """Draw how long the rows of a batch are: the first is whole, others at least half as long."""
    lengths = np.full(rows, width)
    if width >= _SHORTEST:
        lengths[1:] = rng.integers(width // 2, width, size=max(0, rows - 1))
    return lengths


def surface(rng: np.random.Generator, shape: Shape, *, channels_last: bool) -> Array:
    """Draw smooth blobs with some grain, in [0, 1), for a shape of rank 4: what is like a picture."""
    count, height, width = shape[0], *(shape[1:3] if channels_last else shape[2:4])
    channels = shape[3] if channels_last else shape[1]
    grid = rng.random((count, channels, _CELLS, _CELLS))
    smooth = stretch(stretch(grid, height, axis=2), width, axis=3)
    drawn = 0.4 + 0.5 * smooth + 0.1 * rng.random(smooth.shape)
    return drawn.transpose(0, 2, 3, 1) if channels_last else drawn


def stretch(cells: Array, size: int, *, axis: int) -> Array:
    """Interpolate linearly along one axis."""
    at = np.linspace(0.0, cells.shape[axis] - 1.0, size)
    low = np.minimum(at.astype(np.int64), cells.shape[axis] - 2)
    shape = [1] * cells.ndim
    shape[axis] = size
    part = (at - low).reshape(shape)
    smooth: Array = np.take(cells, low, axis=axis) * (1.0 - part) + np.take(cells, low + 1, axis=axis) * part
    return smooth


FEWEST = 1000  # a smaller vocabulary is an alphabet, or classes
_TEXT_KINDS = 4
_SPARE = 64  # rows that a table may have beyond its vocabulary, for the sake of speed


class Special(NamedTuple):
    """What stands first and last in a row, what fills it up, and the first id of a plain word."""

    first: int
    last: int
    padding: int
    words: int


# By the size of the vocabulary, for the tokenizers that most models are trained with.
_WORD_PIECES, _BYTE_PAIRS = Special(101, 102, 0, 999), Special(0, 2, 1, 4)
_SPECIAL = {
    21128: Special(101, 102, 0, 106),
    28996: _WORD_PIECES,
    30522: _WORD_PIECES,
    32128: Special(3, 1, 0, 3),
    49408: Special(49406, 49407, 49407, 256),
    50257: Special(50256, 50256, 50256, 0),
    50265: _BYTE_PAIRS,
    105879: _WORD_PIECES,
    119547: _WORD_PIECES,
    250002: _BYTE_PAIRS,
}
_USUAL = Special(1, 2, 0, 3)


def special_ids(vocabulary: int) -> Special:
    """Return the special ids of the tokenizer with such a vocabulary, or the usual ones."""
    return next((ids for size, ids in _SPECIAL.items() if size <= vocabulary <= size + _SPARE), _USUAL)


def text(rng: np.random.Generator, lengths: Array, width: int, vocabulary: int, index: int) -> Array:
    """Draw rows of ids, each with its length: words as often as text has them, all words alike, those of one
    subject, and a short text, another with each sample."""
    special = special_ids(vocabulary)
    shape: Shape = (len(lengths), width)
    count = vocabulary - special.words
    manner = index % _TEXT_KINDS
    if manner == 1:
        ids = rng.integers(special.words, vocabulary, size=shape)
    elif manner == 2:
        first = int(rng.integers(special.words, vocabulary - count // _NEIGHBOURS))
        ids = rng.integers(first, first + count // _NEIGHBOURS, size=shape)
    else:
        ids = special.words + np.exp(rng.uniform(0.0, np.log(count), size=shape)).astype(np.int64) - 1
    if manner == 3:
        lengths = np.maximum(lengths // 2, min(3, width))
    place = np.arange(width)
    ends = np.asarray(lengths)[:, None]
    ids[:, 0] = special.first
    ids[place == ends - 1] = special.last
    ids[place >= ends] = special.padding
    return ids
