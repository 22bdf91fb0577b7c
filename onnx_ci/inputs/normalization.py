"""The range of numbers in which a model takes pictures, found in its first convolution.

Training has fitted the bias, and the deviation that a batch normalization remembers, to pictures of one
range. What pictures of 0 to 1 make of the weights is a small part of that for a model that takes 0 to 255.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from onnx_ci.inputs import scenes
from onnx_ci.inputs.graph import Op, UseDef
from onnx_ci.model.proto import TensorProto
from onnx_ci.sandbox.exchange import Array

ReadTensor = Callable[[TensorProto], Array]  # the values of a stored tensor

_SIDE = 96  # pixels of the pictures that are looked at
_PATCHES = 150  # of each
_LOOKED_AT = 4
_STEPS = 16  # nodes from the input to the first convolution
_PASSED = ("Identity", "Cast", "Pad", "Reshape", "Unsqueeze", "Squeeze", "Transpose")
_CHANNELS = (1, 3, 12)  # twelve are those of four pixels side by side
_LARGEST = 1 << 20  # weights of a first convolution
_DEAD = 1e-3  # of the largest deviation: a channel that is hardly used tells nothing
_MOST_OFF = 9.0  # a mean that is further off, in squared deviations, is off for another reason


class PictureRange(NamedTuple):
    """`scale * picture + offset`, for a picture from 0 to 1."""

    name: str
    scale: tuple[float, ...]
    offset: tuple[float, ...]

    def apply(self, picture: Array) -> Array:
        """Return a picture of 0 to 1, channels first, in this range."""
        channels = len(picture)
        scale, offset = (np.resize(each, channels)[:, None, None] for each in (self.scale, self.offset))
        return np.asarray(picture * scale + offset)


_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
UNIT = PictureRange("0 to 1", (1.0,), (0.0,))
SIGNED = PictureRange("-1 to 1", (2.0,), (-1.0,))
BYTES = PictureRange("0 to 255", (255.0,), (0.0,))
IMAGENET = PictureRange(
    "ImageNet's mean and deviation",
    tuple(1 / deviation for deviation in _DEVIATION),
    tuple(-mean / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)),
)
RANGES = (UNIT, SIGNED, IMAGENET, BYTES)
# Where there is only a bias: the least share of it that pictures of 0 to 1 make, and what that may mean.
_SHARES = ((1.6, (UNIT,)), (0.6, (UNIT, SIGNED)), (0.3, (SIGNED,)), (0.03, (IMAGENET,)), (0.0, (BYTES,)))


def picture_ranges(graph: UseDef, name: str, read: ReadTensor) -> tuple[PictureRange, ...]:
    """Return the range that an input's first convolution was trained on, or the two it may be; none where
    that can't be told."""
    steps: list[tuple[Op, Array]] = []
    for _ in range(_STEPS):
        users = [op for op, index in graph.uses.get(name, []) if index == 0 or op.type in ("Add", "Mul")]
        op = next((op for op in users if op.type != "Shape"), None)
        if op is None or not op.outputs:
            return ()
        if op.type == "Conv":
            return _judged(graph, op, steps, read)
        if op.type in ("Slice", "SpaceToDepth"):  # every other pixel, four times, as channels
            op = _gathered(graph, op)
            if op is None:
                return ()
        elif op.type in ("Add", "Sub", "Mul", "Div") and op.input(0) == name:
            other = _stored(graph, op.input(1), read)
            if other is None:
                return ()
            steps.append((op, other))
        elif op.type not in _PASSED:
            return ()
        name = op.outputs[0]
    return ()


def _gathered(graph: UseDef, op: Op) -> Op | None:
    """Return what puts parts of a picture side by side as channels; None where they go elsewhere."""
    for _ in range(_STEPS):
        if op.type != "Slice":
            break
        users = graph.uses.get(op.outputs[0], [])
        if not users:
            return None
        op = users[0][0]
    return op if op.type in ("Concat", "SpaceToDepth") else None


def _judged(
    graph: UseDef, conv: Op, steps: list[tuple[Op, Array]], read: ReadTensor
) -> tuple[PictureRange, ...]:
    weights = _stored(graph, conv.input(1), read)
    if (
        weights is None
        or weights.ndim != 4
        or weights.shape[1] not in _CHANNELS
        or 2 * max(weights.shape[2:]) > _SIDE  # of something else than a picture
        or conv.attribute("group", 1) != 1
    ):
        return ()
    bias = _stored(graph, conv.input(2), read) if conv.input(2) else None
    norm = _follower(graph, conv, "BatchNormalization")
    addition = _follower(graph, conv, "Add")
    if bias is None and addition is not None:
        bias = _stored(graph, addition.input(1), read)
    bias = np.zeros(len(weights)) if bias is None or bias.size != len(weights) else bias.reshape(-1)
    kernel = weights.reshape(len(weights), -1).T

    def answer(taken: PictureRange) -> Array:
        fold = 2 if weights.shape[1] == max(_CHANNELS) else 1
        patches = _patches((weights.shape[1] // fold**2, *(fold * side for side in weights.shape[2:])))
        given = np.stack([taken.apply(patch) for patch in patches])
        for op, other in steps:
            given = _step(op.type, given, other)
        if fold == 2:
            given = np.concatenate([given[:, :, y::2, x::2] for x in (0, 1) for y in (0, 1)], axis=1)
        return np.asarray(given.reshape(len(given), -1) @ kernel + bias)

    if norm is not None:
        mean, variance = (_stored(graph, norm.input(index), read) for index in (3, 4))
        if mean is None or variance is None or mean.size != len(weights):
            return ()
        deviation = np.sqrt(np.maximum(variance, 0.0)) + 1e-12
        return (min(RANGES, key=lambda taken: _misfit(answer(taken), mean, deviation)),)
    if not np.any(bias):
        return ()
    made = answer(UNIT)
    share = float(np.sqrt(np.square(made.std(axis=0)).mean() / np.square(bias).mean()))
    return next(ranges for least, ranges in _SHARES if share >= least)


def _misfit(answers: Array, mean: Array, deviation: Array) -> float:
    """Return how far the answers are from what a batch normalization remembers, in deviations."""
    used = deviation > _DEAD * deviation.max()
    spread = np.log((answers.std(axis=0)[used] + 1e-12) / deviation[used])
    off = np.minimum(((answers.mean(axis=0) - mean)[used] / deviation[used]) ** 2, _MOST_OFF)
    return float(np.mean(spread**2) + np.mean(off))


def _step(kind: str, values: Array, other: Array) -> Array:
    """Apply what stands before the convolution; constants of three numbers are one for each channel."""
    if other.size == 3:
        other = other.reshape(3, 1, 1)
    elif other.size == 1:
        other = other.reshape(())
    else:
        return values
    operations = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    result: Array = operations[kind](values, other)
    return result


def _follower(graph: UseDef, op: Op, kind: str) -> Op | None:
    return next((user for user, _ in graph.uses.get(op.outputs[0], []) if user.type == kind), None)


def _stored(graph: UseDef, name: str, read: ReadTensor) -> Array | None:
    tensor = graph.tensors.get(graph.source(name)) if name else None
    if tensor is None or int(np.prod(tensor.dims, dtype=np.int64)) > _LARGEST:
        return None
    if tensor.data_location == TensorProto.EXTERNAL and not tensor.external_data:
        return None  # a sparse tensor, whose values are elsewhere
    try:
        return np.asarray(read(tensor), np.float64)
    except (TypeError, ValueError):  # fewer bytes than the shape says, or no numbers
        return None


@cache
def _patches(shape: tuple[int, int, int]) -> Array:
    """Cut patches as large as a kernel out of a few pictures from 0 to 1."""
    channels, height, width = shape
    patches = []
    for number in range(_LOOKED_AT):
        rng = np.random.Generator(np.random.PCG64([17, number]))
        picture = scenes.scene(rng, _SIDE, _SIDE, people=number % 2)
        picture = picture if channels == 3 else picture.mean(axis=0, keepdims=True)
        for _ in range(_PATCHES):
            top, left = int(rng.integers(0, _SIDE - height + 1)), int(rng.integers(0, _SIDE - width + 1))
            patches.append(picture[:, top : top + height, left : left + width])
    return np.stack(patches)
