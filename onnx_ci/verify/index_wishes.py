"""Indices, lengths and sizes that operators take as operands, from the data they are about."""

from __future__ import annotations

import math

from onnx_ci.verify.asked import Asked, Wish

_LARGEST_BLOCK = 4096


def below_data(asked: Asked) -> Wish:
    """Indices into the first operand, along the axis that the operator says."""
    size = asked.along(asked.data, 0)
    return (0.0, size - 1.0) if size else None


def below_all(asked: Asked) -> Wish:
    """Tuples of indices, one for each of the first axes: below the least of the sizes of these."""
    data, indices = asked.data, asked.context.shape(asked.op.inputs[1])
    length = indices[-1] if indices else None
    start = int(asked.attribute("batch_dims", 0))
    sizes = [dim for dim in (data or ())[start:][:length] if dim]
    return (0.0, min(sizes) - 1.0) if sizes else None


def classes(asked: Asked) -> Wish:
    data = asked.data
    return (0.0, data[1] - 1.0) if data and len(data) > 1 and data[1] else None


def batches(asked: Asked) -> Wish:
    data = asked.data
    return (0.0, data[0] - 1.0) if data and data[0] else None


def length(asked: Asked) -> Wish:
    """Of the sequences that a recurrent network is fed: all of it."""
    data = asked.data
    return [float(data[0] or 1)] * asked.count if data else None


def region(asked: Asked) -> Wish:
    return [0.0] * (asked.count // 2) + [1.0] * (asked.count - asked.count // 2)


def picture_sizes(asked: Asked) -> Wish:
    """N, C, H, W of a picture, for a grid of N, H, W, 2."""
    out, theta = asked.whole_out, asked.data
    if out is not None and len(out) == asked.count:
        return [float(out[0]), 3.0, *map(float, out[1:-1])]
    batch = float((theta[0] if theta else None) or 1)
    return [batch, 3.0, *([8.0] * (asked.count - 2))][: asked.count]


def image(asked: Asked) -> Wish:
    out = asked.whole_out
    return [float(dim) for dim in out[2:]] if out is not None and len(out) == asked.count + 2 else None


def block(asked: Asked) -> Wish:
    """The block of Col2Im: what fits the number of columns and of blocks."""
    out, data, count = asked.whole_out, asked.whole_data, asked.count
    if out is None or data is None or len(out) != count + 2 or len(data) != 3 or not out[1]:
        return None
    dilations = asked.attribute("dilations", None) or [1] * count
    strides = asked.attribute("strides", None) or [1] * count
    pads = asked.attribute("pads", None) or [0] * 2 * count
    for sizes in _factorings(data[1] // out[1], count):
        rooms = [
            out[axis + 2] + pads[axis] + pads[axis + count] - dilations[axis] * (size - 1) - 1
            for axis, size in enumerate(sizes)
        ]
        steps = (room // stride + 1 for room, stride in zip(rooms, strides, strict=True))
        if math.prod(steps) == data[2]:
            return [float(size) for size in sizes]
    return None


def _factorings(product: int, count: int) -> list[tuple[int, ...]]:
    if count == 1 or not 0 < product <= _LARGEST_BLOCK:
        return [(product,)] if count == 1 else []
    firsts = [size for size in range(1, product + 1) if product % size == 0]
    return [(size, *rest) for size in firsts for rest in _factorings(product // size, count - 1)]


def dft_length(asked: Asked) -> Wish:
    dims = asked.data if asked.attribute("onesided", 0) and not asked.attribute("inverse", 0) else asked.out()
    return [float(dims[-2] or 16) if dims and len(dims) > 1 else 16.0] * asked.count
