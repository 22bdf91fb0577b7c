"""Values for one input of one sample: ids that exist in their table, masks of ones, a picture, speech."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_ci.verify import names, varied
from onnx_ci.verify.dims import Dim, Input, kind_of
from onnx_ci.verify.dtypes import Array, integer_limits, is_complex, is_float, is_integer, is_text
from onnx_ci.verify.plausible import picture, speech
from onnx_ci.verify.token_ids import Role
from onnx_ci.verify.wiring import Shape

_RATE = 16000
_WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")
_SIGNAL = 160  # shorter float rows are features, not sound


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What all inputs of one sample share."""

    index: int
    seed: int
    shapes: Mapping[str, Shape]
    flag: bool  # for scalar booleans
    length: int  # of the sequence, for inputs that say how long it is
    shortest: int  # of the open dimensions: a safe bound for indices into computed values
    past: int = 0
    small: bool = False  # a later attempt: stay near zero where the range is only a guess
    ranges: Mapping[str, tuple[float, float]]


def fill(one: Input, dims: tuple[Dim, ...], role: Role, sample: Sample) -> Array:
    """The array to feed. The generator depends on the seed, the sample and the name alone."""
    shape = sample.shapes[one.name]
    rng = np.random.Generator(np.random.PCG64([sample.seed, sample.index, zlib.crc32(one.name.encode())]))
    if one.name in sample.ranges:
        return _in_range(rng, shape, one.dtype, *sample.ranges[one.name])
    if is_text(one.dtype):
        return _strings(shape, sample.index)
    if one.dtype == np.bool_:
        return _booleans(one, shape, sample)
    if is_complex(one.dtype):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(one.dtype)
    known = _by_meaning(one, role, sample, rng)
    if known is None:
        known = (
            _integers(rng, one, role, sample) if is_integer(one.dtype) else _floats(rng, one, dims, sample)
        )
    return _cast(known, one.dtype)


def _by_meaning(one: Input, role: Role, sample: Sample, rng: np.random.Generator) -> Array | None:
    shape, said = sample.shapes[one.name], names.words(one.name)
    if said & names.MASK:
        return varied.mask(rng, shape) if is_integer(one.dtype) else np.ones(shape)
    if said & names.RATE:
        return np.full(shape, _RATE)
    if said & names.LENGTH and len(shape) <= 1:
        return np.full(shape, sample.past if said & names.PAST else sample.length)
    if said & names.POSITION and is_integer(one.dtype):
        return _positions(shape, role.below, sample.past)
    if said & names.TIMESTEP and len(shape) <= 1:
        return np.full(shape, min(500, (role.below or 1000) - 1))
    if role.below is not None:
        return varied.ids(rng, shape, 0, role.below, sample.index)
    if said & names.ONE and is_float(one.dtype) and len(shape) <= 1:
        return np.full(shape, 1.0 if sample.index % 2 == 0 else 0.75)
    return None


def _positions(shape: Shape, below: int | None, start: int) -> Array:
    row = np.arange(start, start + (shape[-1] if shape else 1))
    row = row if below is None else row % below
    return np.broadcast_to(row if shape else row[0], shape)


def _integers(rng: np.random.Generator, one: Input, role: Role, sample: Sample) -> Array:
    shape = sample.shapes[one.name]
    low, high = integer_limits(one.dtype)
    if role.indexes:
        return _indices(rng, shape, max(1, sample.shortest))
    if role.alphabet:
        return varied.ids(rng, shape, 0, role.alphabet, sample.index)
    if role.mask:
        return varied.mask(rng, shape)
    if role.shape:
        return np.ones(shape)
    if len(shape) == 4 and high >= 255:
        return _picture(rng, shape) * 255.0
    if high <= 255:
        return rng.integers(low, high + 1, size=shape)
    return rng.integers(0, 2 if sample.small else 16, size=shape)


def _indices(rng: np.random.Generator, shape: Shape, below: int) -> Array:
    """A plain list of indices most often assigns members to groups: in order, and no group left empty."""
    if len(shape) == 1:
        return np.arange(shape[0]) * below // max(1, shape[0])
    return rng.integers(0, below, size=shape)


def _floats(rng: np.random.Generator, one: Input, dims: tuple[Dim, ...], sample: Sample) -> Array:
    shape = sample.shapes[one.name]
    plain = sample.index % 2 == 0
    if len(shape) == 4 and min(shape[1:]) > 0 and not names.words(one.name) & names.PAST:
        drawn = _picture(rng, shape)
        return (drawn - 0.5) / 0.25 if plain else drawn
    if len(shape) in (1, 2) and shape[-1] >= _SIGNAL and _is_sound(one, dims):
        return speech(rng, shape)
    return rng.standard_normal(shape) if plain else rng.random(shape)


def _is_sound(one: Input, dims: tuple[Dim, ...]) -> bool:
    return bool(names.words(one.name) & names.SAMPLES) or kind_of(one, dims, len(dims) - 1) == "samples"


def _picture(rng: np.random.Generator, shape: Shape) -> Array:
    return picture(rng, shape, channels_last=shape[-1] in (1, 3, 4) and shape[1] not in (1, 3, 4))


def _booleans(one: Input, shape: Shape, sample: Sample) -> Array:
    if names.words(one.name) & names.MASK or len(shape) > 1:
        return np.ones(shape, np.bool_)
    return np.full(shape, sample.flag, np.bool_)


def _strings(shape: Shape, index: int) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    words = [f"{_WORDS[(i + index) % len(_WORDS)]}{(i + index) // len(_WORDS) or ''}" for i in range(count)]
    return np.array(words, dtype=np.str_).reshape(shape)


def _in_range(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any], low: float, high: float) -> Array:
    """Integers take both ends, as in `input_ids: [0, 30521]`."""
    if is_integer(dtype) or dtype == np.bool_:
        return _cast(rng.integers(int(low), int(high), size=shape, endpoint=True), dtype)
    return _cast(low + (high - low) * rng.random(shape), dtype)


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
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
