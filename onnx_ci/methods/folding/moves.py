"""Ops that move values without changing them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from onnx_ci.methods.folding.plan import Array, Call, Plan, Shape, axis_of, broadcast, check


def identity(call: Call) -> Plan:
    return call.one(call.operand(0).shape, call.operand(0).read)


def _reshaped(call: Call, shape: Shape) -> Plan:
    operand = call.operand(0)
    check(math.prod(shape) == math.prod(operand.shape) and min(shape, default=0) >= 0)
    return call.one(shape, lambda: operand.read().reshape(shape))


def reshape(call: Call) -> Plan:
    old, wanted = call.operand(0).shape, call.operand(1).numbers()
    check(call.opset >= 5 and wanted.count(-1) <= 1)
    if not call.number("allowzero", 0):
        check(all(size or position < len(old) for position, size in enumerate(wanted)))
        wanted = [size or old[position] for position, size in enumerate(wanted)]
    if -1 in wanted:
        rest = -math.prod(wanted)
        check(rest > 0)
        wanted[wanted.index(-1)] = math.prod(old) // rest
    return _reshaped(call, tuple(wanted))


def flatten(call: Call) -> Plan:
    shape = call.operand(0).shape
    axis = call.number("axis", 1)
    check(-len(shape) <= axis <= len(shape))
    axis = axis + len(shape) if axis < 0 else axis
    return _reshaped(call, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def squeeze(call: Call) -> Plan:
    shape = call.operand(0).shape
    axes = call.numbers("axes", 1)
    if axes is None:
        return _reshaped(call, tuple(size for size in shape if size != 1))
    dropped = {axis_of(axis, len(shape)) for axis in axes}
    check(all(shape[axis] == 1 for axis in dropped))
    return _reshaped(call, tuple(size for axis, size in enumerate(shape) if axis not in dropped))


def unsqueeze(call: Call) -> Plan:
    shape, axes = list(call.operand(0).shape), call.numbers("axes", 1)
    check(axes is not None)
    rank = len(shape) + len(axes or ())
    added = {axis_of(axis, rank) for axis in axes or ()}
    check(len(added) == len(axes or ()))
    old = iter(shape)
    return _reshaped(call, tuple(1 if axis in added else next(old) for axis in range(rank)))


def transpose(call: Call) -> Plan:
    operand = call.operand(0)
    rank = len(operand.shape)
    given = call.attribute("perm")
    order = [int(axis) for axis in given.ints] if given is not None else list(reversed(range(rank)))
    check(sorted(order) == list(range(rank)))
    shape = tuple(operand.shape[axis] for axis in order)
    return call.one(shape, lambda: np.ascontiguousarray(operand.read().transpose(order)))


def concat(call: Call) -> Plan:
    operands = call.operands()
    first = operands[0]
    axis = axis_of(call.number("axis", 0), len(first.shape))
    rest = {(item.dtype, item.shape[:axis], item.shape[axis + 1 :]) for item in operands}
    check(len(rest) == 1 and all(len(item.shape) == len(first.shape) for item in operands))
    shape = (*first.shape[:axis], sum(item.shape[axis] for item in operands), *first.shape[axis + 1 :])
    return call.one(shape, lambda: np.concatenate([item.read() for item in operands], axis))


def slices(call: Call) -> Plan:
    """Python's slices clamp and count from the end just as ONNX's do."""
    operand = call.operand(0)
    starts, ends = call.numbers("starts", 1), call.numbers("ends", 2)
    check(starts is not None and ends is not None)
    axes = call.numbers("axes", 3) or list(range(len(starts or ())))
    steps = call.numbers("steps", 4) or [1] * len(axes)
    check(len(starts or ()) == len(ends or ()) == len(axes) == len(steps) and 0 not in steps)
    wanted = [slice(None)] * len(operand.shape)
    for axis, start, end, step in zip(axes, starts or (), ends or (), steps, strict=True):
        wanted[axis_of(axis, len(wanted))] = slice(start, end, step)
    sizes = (len(range(*part.indices(size))) for part, size in zip(wanted, operand.shape, strict=True))
    return call.one(tuple(sizes), lambda: np.ascontiguousarray(operand.read()[tuple(wanted)]))


def gather(call: Call) -> Plan:
    operand, indices = call.operand(0), call.operand(1)
    check(indices.integer)
    axis = axis_of(call.number("axis", 0), len(operand.shape))
    size = operand.shape[axis]

    def compute() -> Array:
        at = indices.read()
        check(bool(((at >= -size) & (at < size)).all()))
        return np.take(operand.read(), at, axis)

    return call.one((*operand.shape[:axis], *indices.shape, *operand.shape[axis + 1 :]), compute)


def split(call: Call) -> Plan:
    operand = call.operand(0)
    axis = axis_of(call.number("axis", 0), len(operand.shape))
    size = operand.shape[axis]
    sizes = call.numbers("split", 1)
    if sizes is None:
        check(size % call.outputs == 0)
        sizes = [size // call.outputs] * call.outputs
    check(len(sizes) == call.outputs and sum(sizes) == size and min(sizes) >= 0)
    ends = list(itertools.accumulate(sizes))[:-1]
    shapes = [(*operand.shape[:axis], part, *operand.shape[axis + 1 :]) for part in sizes]
    return Plan(shapes, operand.dtype, lambda: np.split(operand.read(), ends, axis))


def expand(call: Call) -> Plan:
    operand, wanted = call.operand(0), call.operand(1).numbers()
    check(min(wanted, default=0) >= 0)
    shape = broadcast(operand.shape, tuple(wanted))
    return call.one(shape, lambda: np.array(np.broadcast_to(operand.read(), shape)))


def tile(call: Call) -> Plan:
    operand, times = call.operand(0), call.operand(1).numbers()
    check(call.opset >= 6 and len(times) == len(operand.shape) and min(times, default=0) >= 0)
    shape = tuple(size * count for size, count in zip(operand.shape, times, strict=True))
    return call.one(shape, lambda: np.tile(operand.read(), times))


MOVES: dict[str, Callable[[Call], Plan]] = {
    "Identity": identity,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Slice": slices,
    "Gather": gather,
    "Split": split,
    "Expand": expand,
    "Tile": tile,
}
