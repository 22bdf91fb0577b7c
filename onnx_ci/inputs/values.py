"""Values for one input of one sample, and why these: what the user said, what uses ask for, what it means."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_ci.inputs import names
from onnx_ci.inputs.dims import Dim, Input
from onnx_ci.inputs.graph import Shape, element_count
from onnx_ci.inputs.roles import Role
from onnx_ci.verify import varied
from onnx_ci.verify.drawing import Drawing, Drawn, Sample
from onnx_ci.verify.dtypes import Array, integer_limits, is_complex, is_integer, is_text
from onnx_ci.verify.guesses import guess, indices
from onnx_ci.verify.meaning import by_meaning
from onnx_ci.verify.vocabulary import of_type
from onnx_ci.verify.wanted import wanted

_WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


def fill(one: Input, dims: tuple[Dim, ...], role: Role, sample: Sample, *, item: int = 0) -> Drawn:
    """The array to feed. The generator depends on the seed, the sample, the name and the item alone."""
    salt = zlib.crc32(one.name.encode())
    rng = np.random.Generator(np.random.PCG64([sample.seed, sample.index, salt, *([item] if item else [])]))
    drawn = _drawn(Drawing(one, dims, role, sample, rng), item)
    return Drawn(cast(drawn.values, one.dtype), drawn.why)


def _drawn(asked: Drawing, item: int) -> Drawn:
    one, shape, rng = asked.one, asked.shape, asked.rng
    given = asked.sample.ranges.get(one.name)
    if given is not None:
        return Drawn(_in_range(rng, shape, one.dtype, *given), "the range given for it")
    if is_text(one.dtype):
        known = of_type(asked.role.known, str)
        why = "words that the model looks up" if known else "words"
        return Drawn(_strings(shape, asked.sample.index + item, known), why)
    if one.dtype == np.bool_:
        return _booleans(asked)
    if is_complex(one.dtype):
        return Drawn(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), "noise")
    wish = wanted(asked.role, one.dtype, element_count(shape), asked.sample.context)
    if isinstance(wish, list) and len(wish) == element_count(shape):
        return Drawn(np.array(wish).reshape(shape), f"what {_users(asked.role)} asks for")
    return by_meaning(asked) or _wished(asked, wish) or guess(asked)


def _wished(asked: Drawing, wish: object) -> Drawn | None:
    if not isinstance(wish, tuple):
        return None
    low, high = wish
    why = f"the range that {_users(asked.role)} takes"
    if not is_integer(asked.one.dtype):
        return Drawn(low + (high - low) * asked.rng.random(asked.shape), why)
    first, last = math.ceil(low), max(math.ceil(low), math.floor(high))
    if asked.role.indexes:
        return Drawn(first + indices(asked.rng, asked.shape, last - first + 1), why)
    return Drawn(asked.rng.integers(first, last, size=asked.shape, endpoint=True), why)


def _users(role: Role) -> str:
    return " and ".join(dict.fromkeys(use.op.type for use in role.uses[:2]))


def _booleans(asked: Drawing) -> Drawn:
    shape, sample = asked.shape, asked.sample
    if asked.said & names.MASK:
        return _boolean_mask(asked)
    if len(shape) > 1 and sample.index % 2 == 0:
        return Drawn(np.ones(shape, np.bool_), "a mask: all true")
    if len(shape) > 1 or (shape and shape[0] > 1):
        return Drawn(asked.rng.random(shape) < 0.75, "true and false, mixed")
    return Drawn(np.full(shape, sample.flag, np.bool_), "a flag: true and false in turn")


def _boolean_mask(asked: Drawing) -> Drawn:
    """Whole in one sample and with padding in the next: some hide what is true, whatever they are called."""
    shape = asked.shape
    hidden = np.zeros(shape, np.bool_) if asked.sample.flag else varied.padding(asked.rng, shape)
    if asked.said & names.PADDING:
        return Drawn(hidden, "a mask, by its name: true where there is padding")
    return Drawn(~hidden, "a mask, by its name: all true, or false where there is padding")


def _strings(shape: Shape, index: int, known: Sequence[str]) -> Array:
    """Words that differ; of those that the model knows, with one in five that it does not."""
    count = int(np.prod(shape, dtype=np.int64))
    words = [f"{_WORDS[(i + index) % len(_WORDS)]}{(i + index) // len(_WORDS) or ''}" for i in range(count)]
    if known:
        words = [word if i % 5 == 4 else known[(i + index) % len(known)] for i, word in enumerate(words)]
    return np.array(words, dtype=np.str_).reshape(shape)


def _in_range(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], low: float, high: float) -> Array:
    """Integers take both ends, as in `input_ids: [0, 30521]`."""
    if is_integer(dtype) or dtype == np.bool_:
        return rng.integers(int(low), int(high), size=shape, endpoint=True)
    return low + (high - low) * rng.random(shape)


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        array = np.clip(array, max(low, -(2**63)), min(high, 2**63 - 1))
        if dtype.name.endswith(("int4", "int2")):
            array = array.astype(np.int8)  # ml_dtypes' narrow integers convert from integers only
    elif not is_complex(dtype) and dtype.itemsize == 1 and dtype != np.bool_:
        array = np.clip(array, -1.0, 1.0)  # the smallest floats have next to no range
        if "e8m0" in dtype.name:
            array = np.maximum(np.abs(array), 2.0**-20)  # powers of two, and nothing else
    return np.array(array, dtype, order="C")
