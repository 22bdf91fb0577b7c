"""Shapes, axes and counts that operators take as operands, from what the graph says about the result."""

from __future__ import annotations

from itertools import pairwise

from onnx_ci.verify.asked import Asked, Dims, Wish, counting

_ALL = 2.0**30  # as the end of a slice: whatever there is


def reshape(asked: Asked) -> Wish:
    out, data = asked.out(), asked.data
    if out is not None and len(out) == asked.count and sum(dim is None for dim in out) <= 1:
        return [-1.0 if dim is None else float(dim) for dim in out]
    kept = 0.0 if data is not None and len(data) == asked.count else 1.0
    return [*([kept] * (asked.count - 1)), -1.0] if asked.count else []


def output(asked: Asked) -> Wish:
    """The output's own shape, or small sizes."""
    out = asked.whole_out
    if out is not None and len(out) == asked.count:
        return [float(dim) for dim in out]
    return [2.0 if asked.op.type == "ConstantOfShape" else 1.0] * asked.count


def tile(asked: Asked) -> Wish:
    data, out = asked.whole_data, asked.whole_out
    if data is None or out is None or not len(data) == len(out) == asked.count:
        return [2.0] * asked.count
    return [float(after // before) if before else 1.0 for before, after in zip(data, out, strict=True)]


def top(asked: Asked) -> Wish:
    found, there = asked.along(asked.out(), -1), asked.along(asked.data, -1)
    return [float(found or min(3, there or 3))] * asked.count


def depth(asked: Asked) -> Wish:
    return [float(asked.along(asked.out(), -1) or 16)] * asked.count


def limit(asked: Asked) -> Wish:
    """Where a range ends."""
    start, step = asked.integers(0) or [0], asked.integers(2) or [1]
    return [float(start[0] + step[0] * ((asked.out() or (None,))[0] or 16))] * asked.count


def split(asked: Asked) -> Wish:
    if asked.op.type == "Split":
        parts = [asked.along(asked.out(i), 0) for i in range(len(asked.op.outputs))]
        if len(parts) == asked.count and None not in parts:
            return [float(part or 0) for part in parts]
    total = asked.along(asked.data, 0)
    if total is None or asked.count <= 1:  # a single number is the size of each part
        return [float(total or 1)] * asked.count
    ends = [total * i // asked.count for i in range(asked.count + 1)]
    return [float(end - start) for start, end in pairwise(ends)]


def ends(asked: Asked) -> Wish:
    out, data = asked.out(), asked.data
    sizes = out if out is not None and (data is None or len(out) == len(data)) else data
    found = [sizes[axis] if sizes and -len(sizes) <= axis < len(sizes) else None for axis in _sliced(asked)]
    return [_ALL if size is None else float(size) for size in found]


def slice_axes(asked: Asked) -> Wish:
    return [float(axis) for axis in _sliced(asked)]


def _sliced(asked: Asked) -> list[int]:
    """The axes a slice most likely is about: those that it changes, and then the first ones."""
    given = asked.integers(3)
    if given is not None and len(given) == asked.count:
        return given
    if len(asked.op.inputs) < 4:
        return list(range(asked.count))
    data, out = asked.data or (), asked.out() or ()
    differs = [i for i in range(len(data)) if data[i] != out[i]] if len(data) == len(out) else []
    order = [*differs, *(i for i in range(len(data)) if i not in differs)][: asked.count]
    return sorted(order) if len(order) == asked.count else list(range(asked.count))


def squeezed(asked: Asked) -> Wish:
    data = asked.data or ()
    places = [i for i, dim in enumerate(data) if dim == 1] or [i for i, dim in enumerate(data) if dim is None]
    return [float(axis) for axis in places[: asked.count]] if len(places) >= asked.count else counting(asked)


def unsqueezed(asked: Asked) -> Wish:
    data, out = asked.data, asked.out()
    if data is None or out is None or len(out) != len(data) + asked.count:
        return counting(asked)
    left, added = list(data), []
    for axis, dim in enumerate(out):
        must_match = len(out) - axis <= len(left)
        if left and (must_match or (left[0] == dim and dim != 1)):
            left.pop(0)
        else:
            added.append(float(axis))
    return added


def reduced(asked: Asked) -> Wish:
    data, out = asked.whole_data, asked.whole_out
    if data is None:
        return [float(i - asked.count) for i in range(asked.count)]
    found = _missing(data, out, kept=bool(asked.attribute("keepdims", 1))) if out is not None else []
    rest = [axis for axis in reversed(range(len(data))) if axis not in found]
    return [float(axis) for axis in sorted([*found, *rest][: asked.count])]


def _missing(data: list[int], out: list[int], *, kept: bool) -> list[int]:
    if kept and len(data) == len(out):
        return [axis for axis in range(len(data)) if data[axis] != out[axis]]
    left, gone = list(out), []
    for axis, dim in enumerate(data):
        if left and left[0] == dim:
            left.pop(0)
        else:
            gone.append(axis)
    return gone


def pads(asked: Asked) -> Wish:
    data, out = asked.whole_data, asked.whole_out
    half = asked.count // 2
    if data is None or out is None or len(data) != len(out) or half > len(data):
        return [0.0] * half + [1.0] * (asked.count - half)
    more = [after - before for before, after in zip(data, out, strict=True)]
    axes = asked.integers(3) or list(range(len(data)))
    if len(axes) != half:
        axes = [*(axis for axis in axes if more[axis]), *(axis for axis in axes if not more[axis])][:half]
    some = [more[axis] for axis in axes]
    return [float(extra - extra // 2) for extra in some] + [float(extra // 2) for extra in some]


def scales(asked: Asked) -> Wish:
    data, out = asked.whole_data, asked.whole_out
    axes = asked.attribute("axes", None) or list(range(asked.count))
    fits = data is not None and out is not None and len(data) == len(out) and len(axes) == asked.count
    if not fits or data is None or out is None or not all(data):
        return [1.0, 1.0, *([2.0] * (asked.count - 2))][: asked.count]
    # A little more where it is no whole number: sizes are rounded down.
    return [out[axis] / data[axis] + (0.001 if out[axis] % data[axis] else 0.0) for axis in axes]


def sizes(asked: Asked) -> Wish:
    """Of each axis what is known: most modes stretch neither samples nor channels."""
    out, data = asked.out(), asked.data
    rank = len(out or data or ())
    data = data if data is not None and len(data) == rank else None
    shape = [_resized(out, data, axis) for axis in range(rank)]
    axes = asked.attribute("axes", None) or list(range(len(shape)))[-asked.count :]
    if len(axes) != asked.count or any(not -len(shape) <= axis < len(shape) for axis in axes):
        return [16.0] * asked.count
    return [float(shape[axis]) for axis in axes]


def _resized(out: Dims | None, data: Dims | None, axis: int) -> int:
    after, before = (dims[axis] if dims else None for dims in (out, data))
    if after is not None:
        return after
    return 16 if before is None else before * 2 if axis > 1 else before


def window(asked: Asked) -> Wish:
    return [float((asked.out() or (None,))[0] or 10)] * asked.count
