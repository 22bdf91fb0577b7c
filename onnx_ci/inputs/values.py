"""Values for one input of one sample, and why these.

`_RULES` says in which order it is decided: what the user said, what operators want, what the name means, the
table that is indexed, how the input is used, and what its shape looks like.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from onnx_ci.inputs import names, patterns, scenes, sounds
from onnx_ci.inputs.dims import SampleShapes
from onnx_ci.inputs.graph import MAP_ENTRIES, Input, Shape, element_count
from onnx_ci.inputs.normalization import BYTES, SIGNED, UNIT, PictureRange
from onnx_ci.inputs.operators import WHOLE_AXIS, Range
from onnx_ci.inputs.roles import Role, WantedInput, wanted_values
from onnx_ci.inputs.sounds import series
from onnx_ci.sandbox.exchange import Array, Value, integer_limits, is_complex, is_float, is_integer, is_text

_ITEMS = 3  # of a sequence
_FEW = 3  # of an axis, where all of it was too much
_WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")
_RATE = 16000
_LOWEST_HERTZ, _HIGHEST_HERTZ = 50, 2000  # of a voice
_SIGNAL = 160  # shorter float rows are features, not sound
_DISTINCT = 1 << 20  # indices to choose from without repeating one
_LONG = 4000  # floats in a row are sound, whatever they are called
_BANDS = (32, 40, 64, 80, 96, 120, 128, 160, 161, 201, 257, 513)
_FEWEST_BANDS = 16
_MOST_LEADS = 12
_FEWEST_READINGS = 100
_COLOURS = (1, 3, 4)
_SMALLEST_PICTURE = 32  # of rank 3, where it may as well be a list of vectors
_BOUNDED = names.STATE | names.PAST  # what a model gave itself before: bounded, mostly by tanh


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
    wide: bool = True  # floats of which nothing is known may be far from zero
    ranges: Mapping[str, tuple[float, float]]
    inferred: SampleShapes
    weighted: Collection[tuple[str, int]] = ()  # axes along which there are weights: features
    masked: bool = False  # a mask says where rows end
    own: Sequence[Mapping[str, Any]] = ()  # samples of the user's own, beside which this one stands

    def row_lengths(self, shape: Shape) -> Array:
        """Return how long each row is: the same for masks and for what they mask."""
        rng = np.random.Generator(np.random.PCG64([self.seed, self.index]))
        return patterns.row_lengths(rng, *shape) if len(shape) == 2 else np.ones(0)


class Drawn(NamedTuple):
    """Values, and why these."""

    values: Array
    why: str


@dataclass(frozen=True, kw_only=True)
class ValueRequest:
    """One input of one sample that values are drawn for; `item` counts those of a sequence."""

    input: Input
    role: Role
    sample: Sample
    rng: np.random.Generator
    item: int

    @property
    def shape(self) -> Shape:
        return self.sample.shapes[self.input.name]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.input.dtype

    @cached_property
    def words(self) -> frozenset[str]:
        return names.words(self.input.name)

    @cached_property
    def wanted(self) -> WantedInput:
        return wanted_values(self.role, self.dtype, element_count(self.shape), self.sample.inferred)


def make_value(model_input: Input, role: Role, sample: Sample) -> Value:
    """Make the value to feed: a tensor, or a sequence or map of what is drawn.

    An optional is there, since what is absent computes nothing.
    """
    count = _ITEMS if "sequence" in model_input.wraps else 1
    items: list[Any] = [draw(model_input, role, sample, item=item).values for item in range(count)]
    if model_input.keys is not None:
        items = [_as_map(model_input.keys, role, item) for item in items]
    return items if "sequence" in model_input.wraps else items[0]


def _as_map(dtype: np.dtype[Any], role: Role, values: Array) -> dict[Any, Any]:
    keys: list[Any]
    if is_text(dtype):
        keys = role.words_of(str) or [f"key{i}" for i in range(MAP_ENTRIES)]
    else:
        keys = role.words_of(int) or list(range(MAP_ENTRIES))
    return dict(zip(keys, np.resize(values, len(keys)).tolist(), strict=True))


def draw(model_input: Input, role: Role, sample: Sample, *, item: int = 0) -> Drawn:
    """Draw a tensor. The generator depends on the seed, the sample, the name and the item alone."""
    seeds = [sample.seed, sample.index, zlib.crc32(model_input.name.encode())]
    if item:
        seeds.append(item)
    rng = np.random.Generator(np.random.PCG64(seeds))
    request = ValueRequest(input=model_input, role=role, sample=sample, rng=rng, item=item)
    for rule in _RULES:
        drawn = rule(request)
        if drawn is not None:
            return Drawn(cast(drawn.values, model_input.dtype), drawn.why)
    raise AssertionError("the last rule has values for every input")


def cast(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the values in the type of an input, as near as it can hold them."""
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


# The rules, in order. One that has no say returns None, and draws nothing.


def _given_range(request: ValueRequest) -> Drawn | None:
    """What the user said: integers take both ends, as in `input_ids: [0, 30521]`."""
    given = request.sample.ranges.get(request.input.name)
    if given is None:
        return None
    low, high = given
    why = "the range given for it"
    if is_integer(request.dtype) or request.dtype == np.bool_:
        return Drawn(request.rng.integers(int(low), int(high), size=request.shape, endpoint=True), why)
    return Drawn(low + (high - low) * request.rng.random(request.shape), why)


def _text(request: ValueRequest) -> Drawn | None:
    """Words that differ; of those that the model looks up, with one in five that it does not."""
    if not is_text(request.dtype):
        return None
    known = request.role.words_of(str)
    first = request.sample.index + request.item
    texts = []
    for i in range(int(np.prod(request.shape, dtype=np.int64))):
        if known and i % 5 != 4:
            texts.append(known[(i + first) % len(known)])
        else:
            texts.append(f"{_WORDS[(i + first) % len(_WORDS)]}{(i + first) // len(_WORDS) or ''}")
    why = "words that the model looks up" if known else "words"
    return Drawn(np.array(texts, dtype=np.str_).reshape(request.shape), why)


def _boolean(request: ValueRequest) -> Drawn | None:
    if request.dtype != np.bool_:
        return None
    shape, sample = request.shape, request.sample
    if request.words & names.MASK:
        return _boolean_mask(request)
    if len(shape) > 1 and sample.index % 2 == 0:
        return Drawn(np.ones(shape, np.bool_), "a mask: all true")
    if len(shape) > 1 or (shape and shape[0] > 1):
        return Drawn(request.rng.random(shape) < 0.75, "true and false, mixed")
    return Drawn(np.full(shape, sample.flag, np.bool_), "a flag: true and false in turn")


def _boolean_mask(request: ValueRequest) -> Drawn:
    """Whole in one sample and with padding in the next: some hide what is true, whatever they are called."""
    if request.sample.flag:
        hidden: Array = np.zeros(request.shape, np.bool_)
    else:
        hidden = patterns.padding(request.rng, request.shape)
    if request.words & names.PADDING:
        return Drawn(hidden, "a mask, by its name: true where there is padding")
    return Drawn(~hidden, "a mask, by its name: all true, or false where there is padding")


def _complex(request: ValueRequest) -> Drawn | None:
    if not is_complex(request.dtype):
        return None
    rng, shape = request.rng, request.shape
    return Drawn(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), "noise")


def _wanted_list(request: ValueRequest) -> Drawn | None:
    """The very values that an operator wants."""
    wanted = request.wanted
    if not isinstance(wanted, list) or len(wanted) != element_count(request.shape):
        return None
    values = np.array(wanted).reshape(request.shape)
    if request.sample.small:
        values = np.where(values == WHOLE_AXIS, _FEW, values)
    return Drawn(values, f"what {request.role.users} asks for")


def _by_name(request: ValueRequest) -> Drawn | None:
    shape, words, sample, below = request.shape, request.words, request.sample, request.role.below
    integers = is_integer(request.dtype)
    if words & names.MASK:
        ones = patterns.mask(shape, sample.row_lengths(shape)) if integers else np.ones(shape)
        return Drawn(ones, "a mask, by its name: ones, rows after the first padded with zeros")
    if words & names.RATE:
        return Drawn(np.full(shape, _RATE), "a sampling rate, by its name")
    if words & names.FREQUENCY and len(shape) == 0:
        hertz = _LOWEST_HERTZ if words & names.LOWEST else _HIGHEST_HERTZ
        return Drawn(np.full(shape, hertz), "a frequency, by its name")
    if words & names.LENGTH and len(shape) <= 1:
        length = sample.past if words & names.PAST else sample.length
        return Drawn(np.full(shape, length), "a length, by its name: that of the sequence")
    if words & names.POSITION and integers:
        return Drawn(_positions(shape, below, sample.past), "positions, by its name")
    if words & names.TIMESTEP and len(shape) <= 1:
        return Drawn(np.full(shape, min(500, (below or 1000) - 1)), "a time step, by its name")
    return None


def _positions(shape: Shape, below: int | None, start: int) -> Array:
    row = np.arange(start, start + (shape[-1] if shape else 1))
    if below is not None:
        row = row % below
    return np.broadcast_to(row if shape else row[0], shape)


def _in_table(request: ValueRequest) -> Drawn | None:
    """Ids of the rows of a table."""
    low, below = request.role.low, request.role.below
    if below is None:
        return None
    if request.words & names.PERMUTATION and len(request.shape) == 1 and request.shape[0] <= below - low:
        return Drawn(low + request.rng.permutation(request.shape[0]), "a permutation, by its name")
    why = f"{low} to {below - 1}: what the table it indexes, or a bound on it, has room for"
    if low == 0 and below >= patterns.FEWEST and _is_text(request):
        lengths = request.sample.row_lengths(request.shape)
        if not request.sample.masked:
            lengths = np.full(len(lengths), request.shape[1])
        drawn = patterns.text(request.rng, lengths, request.shape[1], below, request.sample.index)
        return Drawn(drawn, f"{why}; as text has them, with special ones at its ends")
    return Drawn(patterns.ids(request.rng, request.shape, low, below, request.sample.index), why)


def _is_text(request: ValueRequest) -> bool:
    if len(request.shape) != 2 or not request.shape[1]:
        return False
    return bool(request.words & names.TOKENS) or names.dim_kind(request.input, 1) == "sequence"


def _by_weak_name(request: ValueRequest) -> Drawn | None:
    """What a name says where nothing else says anything."""
    shape, words, rng = request.shape, request.words, request.rng
    if words & names.ONE_HOT and shape and shape[-1]:
        return Drawn(_one_hot(rng, shape), "one-hot rows, by its name")
    if words & names.PERMUTATION and len(shape) == 1 and is_integer(request.dtype):
        return Drawn(rng.permutation(shape[0]), "a permutation, by its name")
    if words & names.SORTED and shape and not request.role.indexes:
        steps = rng.integers(0, 3, size=shape) if is_integer(request.dtype) else rng.random(shape)
        return Drawn(np.cumsum(steps, axis=-1), "in ascending order, by its name")
    if not is_float(request.dtype):
        return None
    if words & names.PROBABILITY:
        return Drawn(0.05 + 0.9 * rng.random(shape), "probabilities, by its name")
    if words & names.POSITIVE:
        return Drawn(0.1 + 1.9 * rng.random(shape), "positive, by its name")
    if words & names.ONE and len(shape) <= 1:
        return Drawn(np.full(shape, 1.0 if request.sample.index % 2 == 0 else 0.75), "a factor, by its name")
    return None


def _one_hot(rng: np.random.Generator, shape: Shape) -> Array:
    rows = np.zeros(shape)
    np.put_along_axis(rows, rng.integers(0, shape[-1], size=(*shape[:-1], 1)), 1.0, axis=-1)
    return rows


def _wanted_range(request: ValueRequest) -> Drawn | None:
    """Values from the range that the operators take."""
    if not isinstance(request.wanted, Range):
        return None
    low, high = request.wanted
    why = f"the range that {request.role.users} takes"
    if not is_integer(request.dtype):
        return Drawn(low + (high - low) * request.rng.random(request.shape), why)
    first = math.ceil(low)
    last = max(first, math.floor(high))
    if request.role.indexes:
        return Drawn(first + _indices(request.rng, request.shape, last - first + 1), why)
    return Drawn(request.rng.integers(first, last, size=request.shape, endpoint=True), why)


def _indices(rng: np.random.Generator, shape: Shape, below: int) -> Array:
    """A plain list of indices most often assigns members to groups: in order, and no group left empty.

    Two rows are the edges of a graph: from every node to the next one, and then to those after it.
    """
    if len(shape) == 1:
        return np.arange(shape[0]) * below // max(1, shape[0])
    if len(shape) == 2 and shape[0] == 2:
        start = np.arange(shape[1])
        return np.stack([start, start + 1 + start // below]) % below
    count = element_count(shape)
    if count <= below <= _DISTINCT:  # what is scattered to one place twice depends on the order
        return rng.permutation(below)[:count].reshape(shape)
    return rng.integers(0, below, size=shape)


def _integer_guess(request: ValueRequest) -> Drawn | None:
    """Integers by how they are used, or by their shape and type."""
    if not is_integer(request.dtype):
        return None
    shape, role, rng, sample = request.shape, request.role, request.rng, request.sample
    low, high = integer_limits(request.dtype)
    if role.indexes:
        below = max(1, sample.shortest)
        return Drawn(_indices(rng, shape, below), f"0 to {below - 1}: indices into something computed")
    codes = role.words_of(int)
    if codes:
        return Drawn(rng.choice(np.array(codes), size=shape), "codes that the model looks up")
    if role.alphabet:
        ids = patterns.ids(rng, shape, 0, role.alphabet, sample.index)
        return Drawn(ids, "the values it is compared with")
    if role.mask:
        return Drawn(patterns.mask(shape, sample.row_lengths(shape)), "used as a mask")
    if role.size:
        return Drawn(np.ones(shape), "used as a size")
    if request.dtype == np.int16 and _is_sound(request):
        return Drawn(high * _sound(request), "speech, music and noise, by its name or shape")
    if _is_picture(shape) and high >= 255:
        return Drawn(_picture(request, (BYTES,)), "a picture, by its shape")
    if high <= 255:
        return Drawn(rng.integers(low, high + 1, size=shape), "all values of its type")
    return Drawn(rng.integers(0, 2 if sample.small else 16, size=shape), "small numbers, for want of a use")


def _float_guess(request: ValueRequest) -> Drawn:
    """A picture, spectra or a sound by its shape, else pieces of the user's samples, or numbers."""
    shape, rng, index = request.shape, request.rng, request.sample.index
    if _is_sound(request):
        return Drawn(_sound(request), "speech, music and noise, by its name or shape")
    if request.words & names.HIDDEN and len(shape) == 3 and min(shape[1:]) > _FEW:  # no state of a cell
        return Drawn(patterns.hidden(rng, shape, index), "what another model computed, by its name")
    leads = _leads(request)
    if leads is not None:
        return Drawn(_series(request, leads), "heartbeats, movements and noise, by its name or shape")
    bands = None if request.words & _BOUNDED else _bands(request)
    if bands is not None:
        return Drawn(_spectra(request, bands), "spectra of sounds, by its name or shape")
    if _is_picture(shape) and not request.words & names.PAST:
        ranges = request.role.ranges
        why = f"a picture, by its shape, from {' or '.join(r.name for r in ranges)}, by its first convolution"
        if not ranges:
            why = "a picture, by its shape"
        return Drawn(_picture(request, ranges or (SIGNED, UNIT)), why)
    drawn = _pieces(request)
    if drawn is not None:
        return Drawn(drawn, "rows of the samples given, in another order")
    wide = request.sample.wide and not request.words & _BOUNDED
    return Drawn(patterns.numbers(rng, shape, index, wide=wide), "noise")


def _pieces(request: ValueRequest) -> Array | None:
    """Draw from the user's samples what nothing else is known of. Other numbers may be none that the model is
    ever fed: what is one-hot or normalized in the samples stays so."""
    name, shape, sample = request.input.name, request.shape, request.sample
    given = [one[name] for one in sample.own if isinstance(one.get(name), np.ndarray)]
    given = [array for array in given if array.ndim == len(shape) and array.size]
    if not given or not shape or not element_count(shape):
        return None
    features = [
        axis
        for axis, dim in enumerate(request.input.dims)
        if axis and (isinstance(dim, int) or (name, axis) in sample.weighted)
    ]
    if not features or element_count(shape) == math.prod(shape[axis] for axis in features):
        features = [len(shape) - 1]
    return patterns.pieces(request.rng, shape, features, given)


def _is_sound(request: ValueRequest) -> bool:
    shape = request.shape
    if request.words & names.SERIES:
        return False
    if len(shape) == 3 and shape[2] == 1 and shape[1] >= _LONG:
        return True  # samples, and the one channel last
    if len(shape) not in (1, 2, 3) or shape[-1] < _SIGNAL or (len(shape) == 3 and shape[1] > 2):
        return False
    if request.words & names.SAMPLES or shape[-1] >= _LONG:
        return True
    last = len(shape) - 1
    if (request.input.name, last) in request.sample.weighted or names.dim_kind(request.input, 0) == "count":
        return False  # features, of each of the nodes or boxes
    return names.dim_kind(request.input, last) == "samples"


def _sound(request: ValueRequest) -> Array:
    shape = request.shape
    if len(shape) == 2 and names.dim_kind(request.input, 0) in ("sequence", "frames"):  # parts of one sound
        return sounds.sound(request.rng, (math.prod(shape),), request.sample.index).reshape(shape)
    if shape[-1] > 1:
        return sounds.sound(request.rng, shape, request.sample.index)
    return sounds.sound(request.rng, shape[:-1], request.sample.index).reshape(shape)


def _leads(request: ValueRequest) -> int | None:
    """Return the axis of the leads, where an input looks like several measurements over time: few of them,
    as the model says, and long. A single one has to be called so; its axis is the first."""
    shape, dims = request.shape, request.input.dims
    if request.words & _BOUNDED or len(shape) not in (2, 3):
        return None
    for leads, time in ((1, 2), (2, 1)) if len(shape) == 3 else ():
        few = isinstance(dims[leads], int) and 1 < shape[leads] <= _MOST_LEADS
        if (
            few
            and shape[time] >= _FEWEST_READINGS
            and (request.input.name, time) not in request.sample.weighted
        ):
            return leads
    return 0 if request.words & names.SERIES and shape[-1] >= _FEWEST_READINGS else None


def _series(request: ValueRequest, leads: int) -> Array:
    rng, shape, index = request.rng, request.shape, request.sample.index
    if leads == 0:
        return series(rng, math.prod(shape[:-1]), shape[-1], index).reshape(shape)
    members = [series(rng, shape[leads], shape[3 - leads], index) for _ in range(shape[0])]
    drawn = np.stack(members) if members else np.zeros(shape)
    return drawn if leads == 1 or not members else drawn.transpose(0, 2, 1)


def _bands(request: ValueRequest) -> int | None:
    """Return the axis of the bands, where an input looks like spectra over time: by how many they are, or by
    its name; with one channel, unless names say that it is sound."""
    shape, dims = request.shape, request.input.dims
    kinds = {names.kind_by_name(dim, axis) for axis, dim in enumerate(dims)}
    if len(shape) not in (3, 4) or kinds & {"height", "width"}:
        return None
    named = bool(request.words & names.SPECTRA)
    is_sound = named or "frames" in kinds or bool(request.words & names.SAMPLES)
    axes = [axis for axis in range(1, len(shape)) if shape[axis] > (max(_COLOURS) if is_sound else 1)]
    if len(axes) != 2 or min(shape[axis] for axis in axes) < _FEWEST_BANDS:
        return None
    for axis in reversed(axes):
        if shape[axis] in _BANDS and isinstance(dims[axis], int):
            # A picture has bands neither last nor as many as it has columns.
            looks_so = axis == axes[-1] and shape[axes[0]] != shape[axes[1]]
            is_picture = bool(request.role.ranges) and _is_picture(shape) and not looks_so
            return None if is_picture and not is_sound else axis
    return min(axes, key=lambda axis: shape[axis]) if named else None


def _spectra(request: ValueRequest, bands: int) -> Array:
    """Draw spectra for each member and channel."""
    shape = request.shape
    time = next(axis for axis in range(1, len(shape)) if shape[axis] >= _FEWEST_BANDS and axis != bands)
    others = [axis for axis in range(len(shape)) if axis not in (time, bands)]
    count = math.prod(shape[axis] for axis in others)
    drawn = [
        sounds.spectra(request.rng, shape[time], shape[bands], request.sample.index) for _ in range(count)
    ]
    if not drawn:
        return np.zeros(shape)
    order = [*others, time, bands]
    arranged = np.stack(drawn).reshape([shape[axis] for axis in order])
    return np.asarray(arranged.transpose(np.argsort(order)))


def _is_picture(shape: Shape) -> bool:
    if len(shape) == 3:
        return min(shape) >= 3 and sorted(shape)[1] >= _SMALLEST_PICTURE and 3 in (shape[0], shape[2])
    if len(shape) == 5:
        return 3 in shape[1:3] and min(shape[3:]) >= _SMALLEST_PICTURE
    return len(shape) == 4 and min(shape[1:]) > 0


def _picture(request: ValueRequest, ranges: Sequence[PictureRange]) -> Array:
    """Draw a batch of pictures; those of several ranges are in another one with each sample. A film is a
    batch of them."""
    rng, index = request.rng, request.sample.index
    shape = request.shape if len(request.shape) == 4 else (1, *request.shape)
    if len(shape) > 4:
        frames, channels = (2, 1) if request.shape[1] == 3 else (1, 2)
        shape = (request.shape[0] * request.shape[frames], request.shape[channels], *request.shape[3:])
    channels_last = shape[-1] in _COLOURS and shape[1] not in _COLOURS
    height, width = shape[1:3] if channels_last else shape[2:]
    channels = shape[3] if channels_last else shape[1]
    taken = ranges[index % len(ranges)]
    if channels not in _COLOURS or not shape[0]:
        drawn = patterns.surface(rng, shape, channels_last=channels_last)
        return (drawn * taken.scale[0] + taken.offset[0]).reshape(request.shape)
    members = []
    for member in range(shape[0]):
        colours = scenes.picture(rng, height, width, index + member)
        colours = colours.mean(axis=0, keepdims=True) if channels == 1 else colours
        if channels == 4:
            colours = np.concatenate([colours, np.ones((1, height, width))])
        members.append(taken.apply(colours))
    pictures = np.stack(members)
    if len(request.shape) == 5 and request.shape[1] == 3:
        films = pictures.reshape(request.shape[0], request.shape[2], *shape[1:])
        return np.asarray(films.transpose(0, 2, 1, 3, 4))
    return (pictures.transpose(0, 2, 3, 1) if channels_last else pictures).reshape(request.shape)


_RULES = (
    _given_range,
    _text,
    _boolean,
    _complex,
    _wanted_list,
    _by_name,
    _in_table,
    _by_weak_name,
    _wanted_range,
    _integer_guess,
    _float_guess,
)
