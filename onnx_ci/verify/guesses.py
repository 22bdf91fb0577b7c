"""Values where neither uses nor a name say what they have to be: pictures, sounds, small numbers, noise."""

from __future__ import annotations

import numpy as np

from onnx_ci.inputs import names
from onnx_ci.inputs.dims import kind_of
from onnx_ci.inputs.graph import Shape, element_count
from onnx_ci.inputs.patterns import picture
from onnx_ci.verify import varied
from onnx_ci.verify.drawing import Drawing, Drawn
from onnx_ci.verify.dtypes import Array, integer_limits, is_integer
from onnx_ci.verify.vocabulary import of_type

_SIGNAL = 160  # shorter float rows are features, not sound
_DISTINCT = 1 << 20  # indices to choose from without repeating one
_COLOURS = (1, 3, 4)
_SMALLEST_PICTURE = 32  # of rank 3, where it may as well be a list of vectors
_SMALL = names.STATE | names.PAST  # what a model gave itself before: bounded, mostly by tanh


def guess(asked: Drawing) -> Drawn:
    return _integers(asked) if is_integer(asked.one.dtype) else _floats(asked)


def _integers(asked: Drawing) -> Drawn:
    shape, role, rng = asked.shape, asked.role, asked.rng
    low, high = integer_limits(asked.one.dtype)
    if role.indexes:
        below = max(1, asked.sample.shortest)
        return Drawn(indices(rng, shape, below), f"0 to {below - 1}: indices into something computed")
    codes = of_type(role.known, int)
    if codes:
        return Drawn(rng.choice(np.array(codes), size=shape), "codes that the model looks up")
    if role.alphabet:
        drawn = varied.ids(rng, shape, 0, role.alphabet, asked.sample.index)
        return Drawn(drawn, "the values it is compared with")
    if role.mask:
        return Drawn(varied.mask(rng, shape), "used as a mask")
    if role.shape:
        return Drawn(np.ones(shape), "used as a size")
    if _is_picture(shape) and high >= 255:
        return Drawn(_picture(rng, shape) * 255.0, "a picture, by its shape")
    if high <= 255:
        return Drawn(rng.integers(low, high + 1, size=shape), "all values of its type")
    return Drawn(
        rng.integers(0, 2 if asked.sample.small else 16, size=shape), "small numbers, for want of a use"
    )


def indices(rng: np.random.Generator, shape: Shape, below: int) -> Array:
    """A plain list of indices most often assigns members to groups: in order, and no group left empty."""
    if len(shape) == 1:
        return np.arange(shape[0]) * below // max(1, shape[0])
    count = element_count(shape)
    if count <= below <= _DISTINCT:  # what is scattered to one place twice depends on the order
        return rng.permutation(below)[:count].reshape(shape)
    return rng.integers(0, below, size=shape)


def _floats(asked: Drawing) -> Drawn:
    shape, rng = asked.shape, asked.rng
    plain = asked.sample.index % 2 == 0
    if _is_picture(shape) and not asked.said & names.PAST:
        drawn = _picture(rng, shape)
        return Drawn((drawn - 0.5) / 0.25 if plain else drawn, "a picture, by its shape")
    if _is_sound(asked):
        return Drawn(varied.sound(rng, shape, asked.sample.index), "speech, by its name or shape")
    wide = asked.sample.wide and not asked.said & _SMALL
    return Drawn(varied.numbers(rng, shape, asked.sample.index, wide=wide), "noise")


def _is_sound(asked: Drawing) -> bool:
    shape = asked.shape
    if len(shape) not in (1, 2, 3) or shape[-1] < _SIGNAL or (len(shape) == 3 and shape[1] > 2):
        return False
    about = kind_of(asked.one, asked.dims, len(asked.dims) - 1)
    return bool(asked.said & names.SAMPLES) or about == "samples"


def _is_picture(shape: Shape) -> bool:
    if len(shape) == 3:
        return min(shape) >= 3 and sorted(shape)[1] >= _SMALLEST_PICTURE and 3 in (shape[0], shape[2])
    return len(shape) == 4 and min(shape[1:]) > 0


def _picture(rng: np.random.Generator, shape: Shape) -> Array:
    if len(shape) == 3:
        return _picture(rng, (1, *shape)).reshape(shape)
    return picture(rng, shape, channels_last=shape[-1] in _COLOURS and shape[1] not in _COLOURS)
