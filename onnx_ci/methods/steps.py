"""Stores a weight as numbers of even steps, laid out so that a compressor gets them down to their entropy.

One step serves all of a tensor: what is rare costs many bits then, what is frequent few, and that beats any
scale for a block of it. Bytes that hold too little invite a compressor to look for repeats, which cost more
than they save; so small codes are stored in pairs, and the lowest bits of large ones, which nothing makes
smaller, apart from the others.
"""

from __future__ import annotations

import math

import numpy as np

from onnx_ci.methods.compensation import Steps, compensated
from onnx_ci.methods.rounding import Array, sum_of_products
from onnx_ci.methods.weights import Encoder, packed, plane_table, planes
from onnx_ci.model.proto import NodeProto, TensorProto

PAIRED = 7  # steps in the root mean square of a weight under which two codes share a byte,
HALVED = 4  # and from which their lowest bit is stored apart
FULL = 40  # steps of which a byte holds the most that compression can use; what is finer is stored apart
BEYOND = 127  # of what the main plane can count: how far the plane of what is rare reaches
TOGETHER = 8  # codes of which every plane fills up whole bytes


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
    value = encoder.cast(encoder.store(suffix, codes.astype(np.int8)), f"{suffix}_cast")
    if not shift:
        return value
    return encoder.node("Mul", [value, encoder.table(f"times{1 << shift}", np.array(1 << shift, np.float32))])


def _in_table(
    encoder: Encoder, suffix: str, codes: Array, width: int, shift: int, *, signed: bool = False
) -> str:
    """Some bits of several codes in each byte, which is looked up."""
    stored = encoder.store(suffix, packed((codes & ((1 << width) - 1)).astype(np.uint8), width))
    index = encoder.cast(stored, f"{suffix}_index", TensorProto.INT32)
    name, table = f"steps{width}_{shift}", plane_table(width, 0)
    if signed:
        half = 1 << (width - 1)
        name, table = f"signed_{name}", (table ^ half) - half
    found = encoder.table(name, (table << shift).astype(np.float32))
    flat = encoder.table("flat", np.array([-1], np.int64))
    return encoder.node("Reshape", [encoder.node("Gather", [found, index]), flat])
