"""Token ids as text has them: frequent ones often, special ones at the ends of a row, padding after it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onnx_ci.inputs.graph import Shape
from onnx_ci.sandbox.exchange import Array

FEWEST = 1000  # a smaller vocabulary is an alphabet, or classes
_KINDS = 4
_NEIGHBOURS = 8  # of so many parts of a vocabulary one is used where a text is about one thing
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
    manner = index % _KINDS
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
