"""Computes nodes of stored tensors with numpy, as onnxruntime does when a session starts.

Shapes and types are worked out first, values when they are asked for. Exact evaluation does only what is bit
for bit the same on every machine: moving values, whole numbers, casts that lose nothing. Otherwise floats are
added and multiplied as well, and `DequantizeLinear` is known: all that decodes a stored weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from onnx_ci.methods.rounding import Array
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.model import Model
from onnx_ci.model.proto import AttributeProto, NodeProto, TensorProto, full_onnx

Shape = tuple[int, ...]
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
MOST_NUMBERS = 64  # in an input that tells a shape, axes and the like
MOST_AXES = 32
MOST_ELEMENTS = 1 << 40
MIN_OPSET = 7  # operands broadcast as numpy's do from here on


class NotEvaluated(Exception):
    """The node is left to the runtime: not supported, not exact, or wrong as it stands."""


@dataclass(frozen=True)
class Operand:
    """A tensor that a node reads; its values are read when they are asked for."""

    shape: Shape
    dtype: np.dtype[Any]
    read: Callable[[], Array]

    @classmethod
    def stored(cls, model: Model, tensor: TensorProto) -> Operand:
        dtype = np.dtype(NUMPY_TYPES[tensor.data_type])
        return cls(tuple(tensor.dims), dtype, lambda: model.array(tensor))

    @classmethod
    def computed(cls, values: Array) -> Operand:
        return cls(values.shape, values.dtype, lambda: values)

    @property
    def integer(self) -> bool:
        return self.dtype.kind in "iu"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def numbers(self) -> list[int]:
        """A short list of whole numbers: a shape, axes, or where a slice starts."""
        check(self.integer and len(self.shape) <= 1 and math.prod(self.shape) <= MOST_NUMBERS)
        return [int(number) for number in self.read().reshape(-1)]


@dataclass(frozen=True)
class Result:
    """The shapes and the type of what a node gives, and how to compute it."""

    shapes: Sequence[Shape]
    dtype: np.dtype[Any]
    compute: Callable[[], Sequence[Array]]

    def nbytes(self, position: int) -> int:
        return math.prod(self.shapes[position]) * self.dtype.itemsize


class Call:
    """One node with its operands."""

    def __init__(
        self, node: NodeProto, operands: Sequence[Operand | None], opset: int, *, exact: bool = True
    ) -> None:
        self.outputs = len(node.output)
        self.opset = opset
        self.exact = exact
        self._operands = operands
        self._attributes = {entry.name: entry for entry in node.attribute}

    def operand(self, position: int) -> Operand:
        found = self.optional(position)
        if found is None:
            raise NotEvaluated
        return found

    def optional(self, position: int) -> Operand | None:
        return self._operands[position] if position < len(self._operands) else None

    def operands(self) -> list[Operand]:
        return [self.operand(position) for position in range(len(self._operands))]

    def attribute(self, name: str) -> AttributeProto | None:
        return self._attributes.get(name)

    def number(self, name: str, default: int) -> int:
        found = self.attribute(name)
        return default if found is None else int(found.i)

    def numbers(self, name: str, position: int) -> list[int] | None:
        """A list that is an attribute in old opsets and an input in newer ones; None where it is left out."""
        found = self.attribute(name)
        if found is not None:
            return [int(number) for number in found.ints]
        operand = self.optional(position)
        return None if operand is None else operand.numbers()

    def one(self, shape: Shape, compute: Callable[[], Array], dtype: np.dtype[Any] | None = None) -> Result:
        """A single result, of the type of the first operand unless told otherwise."""
        return Result([shape], dtype or self.operand(0).dtype, lambda: [compute()])


def plan(call: Call, op: str) -> Result:
    """What a node gives, before anything is computed; NotEvaluated where that can't be said."""
    if op not in OPERATORS:
        raise NotEvaluated
    return OPERATORS[op](call)


def evaluate(nodes: Iterable[NodeProto], stored: Mapping[str, Array], *, opset: int) -> dict[str, Array]:
    """Compute nodes one after another; return all values by name, those that were stored too."""
    values = dict(stored)
    for node in nodes:
        operands = [Operand.computed(values[name]) if name else None for name in node.input]
        result = plan(Call(node, operands, opset, exact=False), node.op_type)
        values.update(zip(node.output, result.compute(), strict=True))
    return values


def check(holds: bool) -> None:
    if not holds:
        raise NotEvaluated


def ordinary(shape: Sequence[int]) -> bool:
    """Whether numpy takes the shape at all, even where a 0 in it makes it hold nothing."""
    return len(shape) <= MOST_AXES and math.prod(max(size, 1) for size in shape) <= MOST_ELEMENTS


def axis_of(axis: int, rank: int) -> int:
    check(-rank <= axis < rank)
    return axis % rank


def broadcast(*shapes: Shape) -> Shape:
    """The shape that all of these broadcast to, without making anything of that size."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        check(len(wide) <= 1)
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def identity(call: Call) -> Result:
    return call.one(call.operand(0).shape, call.operand(0).read)


def _reshaped(call: Call, shape: Shape) -> Result:
    operand = call.operand(0)
    check(math.prod(shape) == math.prod(operand.shape) and min(shape, default=0) >= 0)
    return call.one(shape, lambda: operand.read().reshape(shape))


def reshape(call: Call) -> Result:
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


def flatten(call: Call) -> Result:
    shape = call.operand(0).shape
    axis = call.number("axis", 1)
    check(-len(shape) <= axis <= len(shape))
    axis = axis + len(shape) if axis < 0 else axis
    return _reshaped(call, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def squeeze(call: Call) -> Result:
    shape = call.operand(0).shape
    axes = call.numbers("axes", 1)
    if axes is None:
        return _reshaped(call, tuple(size for size in shape if size != 1))
    dropped = {axis_of(axis, len(shape)) for axis in axes}
    check(all(shape[axis] == 1 for axis in dropped))
    return _reshaped(call, tuple(size for axis, size in enumerate(shape) if axis not in dropped))


def unsqueeze(call: Call) -> Result:
    shape, axes = list(call.operand(0).shape), call.numbers("axes", 1)
    check(axes is not None)
    rank = len(shape) + len(axes or ())
    added = {axis_of(axis, rank) for axis in axes or ()}
    check(len(added) == len(axes or ()))
    old = iter(shape)
    return _reshaped(call, tuple(1 if axis in added else next(old) for axis in range(rank)))


def transpose(call: Call) -> Result:
    operand = call.operand(0)
    rank = len(operand.shape)
    given = call.attribute("perm")
    order = [int(axis) for axis in given.ints] if given is not None else list(reversed(range(rank)))
    check(sorted(order) == list(range(rank)))
    shape = tuple(operand.shape[axis] for axis in order)
    return call.one(shape, lambda: np.ascontiguousarray(operand.read().transpose(order)))


def concat(call: Call) -> Result:
    operands = call.operands()
    first = operands[0]
    axis = axis_of(call.number("axis", 0), len(first.shape))
    rest = {(item.dtype, item.shape[:axis], item.shape[axis + 1 :]) for item in operands}
    check(len(rest) == 1 and all(len(item.shape) == len(first.shape) for item in operands))
    shape = (*first.shape[:axis], sum(item.shape[axis] for item in operands), *first.shape[axis + 1 :])
    return call.one(shape, lambda: np.concatenate([item.read() for item in operands], axis))


def slices(call: Call) -> Result:
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


def gather(call: Call) -> Result:
    operand, indices = call.operand(0), call.operand(1)
    check(indices.dtype.name in ("int32", "int64"))
    axis = axis_of(call.number("axis", 0), len(operand.shape))

    def compute() -> Array:
        try:
            return np.take(operand.read(), indices.read(), axis)
        except IndexError:  # beyond the end
            raise NotEvaluated from None

    return call.one((*operand.shape[:axis], *indices.shape, *operand.shape[axis + 1 :]), compute)


def split(call: Call) -> Result:
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
    return Result(shapes, operand.dtype, lambda: np.split(operand.read(), ends, axis))


def expand(call: Call) -> Result:
    operand, wanted = call.operand(0), call.operand(1).numbers()
    check(min(wanted, default=0) >= 0)
    shape = broadcast(operand.shape, tuple(wanted))
    return call.one(shape, lambda: np.array(np.broadcast_to(operand.read(), shape)))


def tile(call: Call) -> Result:
    operand, times = call.operand(0), call.operand(1).numbers()
    check(call.opset >= 6 and len(times) == len(operand.shape) and min(times, default=0) >= 0)
    shape = tuple(size * count for size, count in zip(operand.shape, times, strict=True))
    return call.one(shape, lambda: np.tile(operand.read(), times))


def shape_of(call: Call) -> Result:
    shape = call.operand(0).shape
    end = call.number("end", len(shape))
    found = np.array(shape[call.number("start", 0) : end], np.int64)
    return call.one(found.shape, lambda: found, INT64)


def size_of(call: Call) -> Result:
    return call.one((), lambda: np.array(math.prod(call.operand(0).shape), np.int64), INT64)


def filled(call: Call) -> Result:
    shape = tuple(call.operand(0).numbers())
    check(min(shape, default=0) >= 0)
    given = call.attribute("value")
    if given is None:
        return call.one(shape, lambda: np.zeros(shape, np.float32), np.dtype(np.float32))
    check(given.t.data_type in NUMPY_TYPES and math.prod(given.t.dims) == 1 and not given.t.external_data)
    value = full_onnx().numpy_helper.to_array(given.t).reshape(())
    return call.one(shape, lambda: np.full(shape, value), value.dtype)


def counted(call: Call) -> Result:
    """Range, of whole numbers."""
    first = call.operand(0)
    check(len(call.operands()) == 3 and len({item.dtype for item in call.operands()}) == 1)
    check(all(item.shape in ((), (1,)) for item in call.operands()))
    start, limit, step = (number for item in call.operands() for number in item.numbers())
    check(step != 0)
    count = max(0, -((start - limit) // step))
    return call.one((count,), lambda: np.array(range(start, limit, step), first.dtype))


def cast(call: Call) -> Result:
    """Exact only where every value stays what it is: what else becomes of it differs between machines."""
    operand, to = call.operand(0), call.number("to", 0)
    check(call.opset >= 6 and to in NUMPY_TYPES)
    dtype = np.dtype(NUMPY_TYPES[to])

    def compute() -> Array:
        values = operand.read()
        with np.errstate(all="ignore"):
            made: Array = values.astype(dtype)
            if call.exact and dtype != BOOL:
                # Both ways: bytes that wrap around come back as they were, large numbers compare as floats.
                check(bool(((made == values) & (made.astype(values.dtype) == values)).all()))
        return made

    return call.one(operand.shape, compute, dtype)


def _shared(call: Call) -> Shape:
    check(call.opset >= MIN_OPSET and len({item.dtype for item in call.operands()}) == 1)
    return broadcast(*(item.shape for item in call.operands()))


def arithmetic(name: str, call: Call) -> Result:
    """Exact for whole numbers that are small enough for any result; a division by zero is left alone."""
    operands = call.operands()
    check(len(operands) == 2)
    if not call.exact:
        check(name != "floor_divide")
        return _elementwise(name, call)
    check(all(item.integer for item in operands))
    most = 1 << (4 * operands[0].dtype.itemsize - 1)

    def compute() -> Array:
        one, other = (item.read() for item in operands)
        check(all(bool(((part < most) & (part > -most)).all()) for part in (one, other)))
        if name == "floor_divide":  # ONNX rounds towards zero, numpy down
            check(bool((one >= 0).all() and (other > 0).all()))
        made: Array = getattr(np, name)(one.astype(INT64), other.astype(INT64))
        info = np.iinfo(operands[0].dtype)
        check(bool(((made >= info.min) & (made <= info.max)).all()))
        return made.astype(operands[0].dtype)

    return call.one(_shared(call), compute)


def comparison(name: str, call: Call) -> Result:
    check(len(call.operands()) == 2 and all(item.dtype.kind in "iub" for item in call.operands()))
    return _elementwise(name, call, BOOL)


def logic(name: str, call: Call) -> Result:
    check(all(item.dtype == BOOL for item in call.operands()))
    return _elementwise(name, call, BOOL)


def _elementwise(name: str, call: Call, dtype: np.dtype[Any] | None = None) -> Result:
    return call.one(
        _shared(call), lambda: getattr(np, name)(*(item.read() for item in call.operands())), dtype
    )


def where(call: Call) -> Result:
    condition, one, other = (call.operand(position) for position in range(3))
    check(condition.dtype == BOOL and one.dtype == other.dtype)
    shape = broadcast(condition.shape, one.shape, other.shape)
    return call.one(shape, lambda: np.where(condition.read(), one.read(), other.read()), one.dtype)


def dequantize(call: Call) -> Result:
    """Codes less their zero point, times the scale: for all, along an axis, or for each block of it."""
    check(not call.exact)
    operands = call.operands()
    codes = operands[0]
    axis, block = call.number("axis", 1), call.number("block_size", 0)

    def aligned(operand: Operand) -> Array:
        values = operand.read().astype(np.float32)
        if block:
            return np.repeat(values, block, axis=axis).take(range(codes.shape[axis]), axis=axis)
        if not values.ndim:
            return values
        return values.reshape([-1 if at == axis else 1 for at in range(len(codes.shape))])

    def compute() -> Array:
        values = codes.read().astype(np.float32)
        if len(operands) > 2:
            values -= aligned(operands[2])
        values *= aligned(operands[1])
        return values

    return call.one(codes.shape, compute, np.dtype(np.float32))


OPERATORS: dict[str, Callable[[Call], Result]] = {
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
    "Shape": shape_of,
    "Size": size_of,
    "ConstantOfShape": filled,
    "Range": counted,
    "Cast": cast,
    "Where": where,
    "Add": partial(arithmetic, "add"),
    "Sub": partial(arithmetic, "subtract"),
    "Mul": partial(arithmetic, "multiply"),
    "Div": partial(arithmetic, "floor_divide"),
    "Equal": partial(comparison, "equal"),
    "Less": partial(comparison, "less"),
    "Greater": partial(comparison, "greater"),
    "LessOrEqual": partial(comparison, "less_equal"),
    "GreaterOrEqual": partial(comparison, "greater_equal"),
    **{op: partial(logic, f"logical_{op.lower()}") for op in ("And", "Or", "Xor", "Not")},
    "DequantizeLinear": dequantize,
}
