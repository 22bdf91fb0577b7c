"""Stores weights as 8-bit integers with scales, rebuilt in float32 or fp16 when a session starts.

Slices along an axis, or runs of elements, share a scale; a zero point is stored where it pays.

For compressors there are numbers of even steps, laid out so that they get down to their entropy. One step
serves all of a tensor: what is rare costs many bits then, what is frequent few, and that beats any scale for
a block of it. Bytes that hold too little invite a compressor to look for repeats, which cost more than they
save; so small codes are stored in pairs, and the lowest bits of large ones, which nothing makes smaller,
apart from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnx_ci.methods import rounding, weights
from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.compensation import Moments, Steps, compensated
from onnx_ci.methods.options import Int8Weights
from onnx_ci.methods.rounding import Array, Levels, sum_of_products
from onnx_ci.methods.weights import Encode, Encoder, packed, plane_table, planes
from onnx_ci.model.graph import opset
from onnx_ci.model.model import Model
from onnx_ci.model.proto import NodeProto, TensorProto

FOLD_OPSET = 7  # Mul broadcasts as numpy does from here on
DQ_OPSETS = {"block": 21, "channel": 13, "tensor": 10}  # from which DequantizeLinear can do that
NODE_BITS = 1600  # what two more nodes take in the file, about
PAIRED = 7  # steps in the root mean square of a weight under which two codes share a byte,
HALVED = 4  # and from which their lowest bit is stored apart
FULL = 40  # steps of which a byte holds the most that compression can use; what is finer is stored apart
BEYOND = 127  # of what the main plane can count: how far the plane of what is rare reaches
TOGETHER = 8  # codes of which every plane fills up whole bytes
RUNS = -1  # instead of an axis: runs of elements


@dataclass(frozen=True)
class Scaling:
    """One way to share scales: along an axis, for all (None), or in runs; and what it costs in bits."""

    axis: int | None
    grid: Array
    levels: Levels

    def handicap(self) -> float:
        """What the bits for scales have to gain: a fair price would be 4 for one bit more per weight.

        Small slices are cheap at that: tensors that have them (depthwise convolutions) are a small
        part of any file, and each of their weights matters more than others.
        """
        per_slice = (16 if self.axis == RUNS else 32) + (0 if self.levels.zero is None else 8)
        nodes = (self.axis == RUNS) + (self.levels.zero is not None)
        bits = (per_slice * self.levels.scale.size + NODE_BITS * nodes) / self.grid.size
        return float(2 ** (bits / 2))


def int8_weights(model: Model, options: Int8Weights) -> Applied:
    _, note = _possible(options, opset(model.proto))
    encode = encoding(model, options)
    return weights.encode_weights(model, options, encode, kept="masks, indices or not finite", note=note)


def encoding(model: Model, options: Int8Weights) -> Encode | None:
    """How one weight is stored; None where the model can't have it."""
    granularity, _ = _possible(options, opset(model.proto))
    if not granularity or opset(model.proto) < FOLD_OPSET:
        return None
    as_asked = _as_dq if options.encoding == "dq" else _as_fold

    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        if not weights.plain_weight(values):
            return None
        values = values.astype(np.float32, copy=False)
        if options.steps:
            return in_steps(encoder, values, options.steps)
        return as_asked(encoder, values, granularity, options.block_size)

    return encode


def _possible(options: Int8Weights, version: int) -> tuple[str, str]:
    """The granularity that the model's opset allows, and what to say where it is not the one asked for."""
    if options.encoding == "fold" or version >= DQ_OPSETS[options.granularity]:
        return options.granularity, ""
    needed = f"{options.granularity} scales in DequantizeLinear need opset {DQ_OPSETS[options.granularity]}"
    for other in ("channel", "tensor"):
        if version >= DQ_OPSETS[other]:
            return other, f"{needed}, this is {version}: one scale a {other}"
    return "", f"{needed}, this is {version}"


def _as_fold(encoder: Encoder, values: Array, granularity: str, block: int) -> list[NodeProto]:
    """A tensor with one axis has no channels, and a single scale is far too coarse for most: blocks, then."""
    choices: list[Scaling] = []
    axis = 0
    if granularity == "block" or (granularity == "channel" and not _channel_axes(values)):
        axis = rounding.block_axis(values, block)
        choices += _run_choices(np.moveaxis(values, axis, -1).reshape(-1), block)
    if granularity != "block":
        choices += _axis_choices(values, per_channel=granularity == "channel")
    choice = best_scaling(choices)
    if choice.axis == RUNS:
        better = partial(_better, values, choice, axis, encoder.moments) if encoder.moments else None
        parts = weights.rounded(choice.grid, choice.levels, (-1, 1), (-1, block), better)
        value = weights.decoded(encoder, parts)
        encoder.from_blocks(value, values.shape, axis, stored=parts.codes.size)
    else:
        along = _along(choice.axis, values.ndim)
        weights.decoded(encoder, weights.rounded(choice.grid, choice.levels, along, values.shape))
    return encoder.done()


def _better(values: Array, choice: Scaling, axis: int, moments: Moments, codes: Array) -> Array:
    """Codes whose errors make up for each other, of blocks along an axis."""
    levels, grid = choice.levels, choice.grid

    def placed(part: Array) -> Array:
        return rounding.out_of_blocks(np.broadcast_to(part, grid.shape), values.shape, axis)

    zero = None if levels.zero is None else placed(levels.zero.astype(np.float32)[:, None])
    snap = partial(_snapped, low=levels.low, high=levels.high)
    steps = Steps(placed(levels.scale.astype(np.float32)[:, None]), zero, snap)
    found = compensated(values, placed(codes), steps, moments)
    return rounding.in_blocks(found, axis, grid.shape[-1])


def _snapped(over: Array, *, low: int, high: int) -> Array:
    return np.clip(np.rint(over), low, high)


def _along(axis: int | None, ndim: int) -> tuple[int, ...]:
    """The shape in which the scales of an axis broadcast."""
    return tuple(-1 if at == axis else 1 for at in range(ndim)) if axis is not None else ()


def _as_dq(encoder: Encoder, values: Array, granularity: str, block: int) -> list[NodeProto]:
    if weights.stands_first(encoder.site):
        granularity = "tensor"
    if granularity == "block":
        axis = weights.summed_axis(encoder.site, values.ndim)
        choice = best_scaling(_run_choices(np.moveaxis(values, axis, -1), block))
        parts = weights.along_axis(choice.grid, choice.levels, values.shape, axis)
        return weights.dequantize(encoder, parts, axis, block)
    choice = best_scaling(_axis_choices(values, per_channel=granularity != "tensor"))
    shape = () if choice.axis is None else (-1,)
    parts = weights.rounded(choice.grid, choice.levels, shape, values.shape)
    return weights.dequantize(encoder, parts, choice.axis)


def best_scaling(choices: Iterable[Scaling]) -> Scaling:
    """The way that leaves the least error: the two most promising are tried, and extremes clipped."""
    ranked = sorted(choices, key=lambda c: c.levels.noise * c.handicap())[:2]
    if len(ranked) > 1:
        ranked.sort(key=lambda c: float(rounding.errors(c.grid, c.levels).sum()) * c.handicap())
    best = ranked[0]
    return Scaling(best.axis, best.grid, rounding.clipped(best.grid, best.levels))


def _channel_axes(values: Array) -> list[int]:
    return [axis for axis, size in enumerate(values.shape) if 1 < size < values.size]


def _axis_choices(values: Array, *, per_channel: bool) -> Iterator[Scaling]:
    for axis in [None, *(_channel_axes(values) if per_channel else [])]:
        grid = rounding.by_axis(values, axis)
        yield from (Scaling(axis, grid, levels) for levels in _levels(grid))


def _run_choices(values: Array, block: int) -> Iterator[Scaling]:
    grid = rounding.by_block(values, block)
    yield from (Scaling(RUNS, grid, rounding.in_half(levels)) for levels in _levels(grid))


def _levels(grid: Array) -> list[Levels]:
    least, largest = rounding.bounds(grid)
    return [rounding.symmetric(least, largest, 127), rounding.asymmetric(least, largest, 255)]


def in_steps(encoder: Encoder, values: Array, count: int) -> list[NodeProto]:
    """`count` steps are the root mean square of the weight; more than fits is rounded more coarsely."""
    width, low = widths(count)
    most = BEYOND << (width + low)
    flat = values.reshape(-1)
    reach = max(float(flat.max()), -float(flat.min()))
    step = np.float32(max(math.sqrt(sum_of_products(flat, flat) / flat.size) / count, reach / most))

    def snap(over: Array) -> Array:
        return np.clip(np.rint(over), -most, most)

    codes = snap(values / step).astype(np.int32)
    if encoder.moments is not None:
        steps = Steps(np.broadcast_to(step, values.shape), None, snap)
        codes = compensated(values, codes, steps, encoder.moments)
    whole = width == TOGETHER and not low
    if not whole:
        codes = np.pad(codes.reshape(-1), (0, -codes.size % TOGETHER))
    encoder.scaled(_from_planes(encoder, codes, width, low), np.array(step))
    if not whole:
        encoder.from_blocks(encoder.nodes[-1].output[0], values.shape, values.ndim - 1, stored=codes.size)
    return encoder.done()


def widths(count: int) -> tuple[int, int]:
    """The bits of the main plane, and those below it that are stored apart."""
    if count < PAIRED:
        return 4, int(count >= HALVED)
    return 8, max(0, math.ceil(math.log2(count / FULL)))


def _from_planes(encoder: Encoder, codes: Array, width: int, low: int) -> str:
    """Store codes in planes; what those stand for adds up to the codes, as float32."""
    main, half = codes >> low, 1 << (width - 1)
    rare = (main + half) >> width
    main = main - (rare << width)
    if width == TOGETHER:
        total = _in_bytes(encoder, "q", main, low)
    else:
        total = _in_table(encoder, "q", main, width, low, signed=True)
    parts = [_in_table(encoder, f"low{bits}", codes >> at, bits, at) for bits, at in planes(low)]
    if rare.any():
        parts.append(_in_bytes(encoder, "rare", rare, low + width))
    for part in parts:
        total = encoder.node("Add", [total, part])
    return total


def _in_bytes(encoder: Encoder, suffix: str, codes: Array, shift: int) -> str:
    """One code a byte."""
    value = encoder.cast(encoder.store(suffix, codes.astype(np.int8)))
    if not shift:
        return value
    return encoder.node("Mul", [value, encoder.table(f"times{1 << shift}", np.array(1 << shift, np.float32))])


def _in_table(
    encoder: Encoder, suffix: str, codes: Array, width: int, shift: int, *, signed: bool = False
) -> str:
    """Some bits of several codes in each byte, which is looked up."""
    stored = encoder.store(suffix, packed((codes & ((1 << width) - 1)).astype(np.uint8), width))
    index = encoder.cast(stored, TensorProto.INT32)
    name, table = f"steps{width}_{shift}", plane_table(width, 0)
    if signed:
        half = 1 << (width - 1)
        name, table = f"signed_{name}", (table ^ half) - half
    found = encoder.table(name, (table << shift).astype(np.float32))
    flat = encoder.sizes(-1)
    return encoder.node("Reshape", [encoder.node("Gather", [found, index]), flat])
