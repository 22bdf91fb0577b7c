"""Computes nodes of stored tensors with numpy, as onnxruntime does when a session starts.

Shapes and types are worked out first, values when they are asked for. Exact evaluation does only what is bit
for bit the same on every machine: moving values, whole numbers, casts that lose nothing. Otherwise floats are
added and multiplied as well, and `DequantizeLinear` is known: all that decodes a stored weight.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from onnx_ci.methods.rounding import Array
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.model import Model
from onnx_ci.model.proto import NodeProto, TensorProto, full_onnx

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
    """A tensor that a node reads or gives; its values are read or computed when they are asked for."""

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

    def viewed(self, view: Callable[[Array], Array]) -> Operand:
        """Return a numpy view of the operand; its shape is worked out on an array that takes no memory."""
        stand_in = np.broadcast_to(np.zeros((), self.dtype), self.shape)
        return Operand(view(stand_in).shape, self.dtype, lambda: view(self.read()))


class Call:
    """One node with its operands."""

    def __init__(
        self, node: NodeProto, operands: Sequence[Operand | None], opset: int, *, exact: bool = True
    ) -> None:
        self.op = node.op_type
        self.outputs = len(node.output)
        self.opset = opset
        self.exact = exact
        self.attributes = {entry.name: entry for entry in node.attribute}
        self._operands = operands

    def operand(self, position: int) -> Operand:
        operand = self.optional(position)
        if operand is None:
            raise NotEvaluated
        return operand

    def optional(self, position: int) -> Operand | None:
        return self._operands[position] if position < len(self._operands) else None

    def operands(self) -> list[Operand]:
        return [self.operand(position) for position in range(len(self._operands))]

    def number(self, name: str, default: int) -> int:
        return int(self.attributes[name].i) if name in self.attributes else default

    def numbers(self, name: str, position: int) -> list[int] | None:
        """A list that is an attribute in old opsets and an input in newer ones; None where it is left out."""
        if name in self.attributes:
            return [int(number) for number in self.attributes[name].ints]
        operand = self.optional(position)
        return None if operand is None else operand.numbers()

    def required(self, name: str, position: int) -> list[int]:
        numbers = self.numbers(name, position)
        if numbers is None:
            raise NotEvaluated
        return numbers


def plan(call: Call) -> list[Operand]:
    """What a node gives, before anything is computed; NotEvaluated where that can't be said."""
    if call.op not in OPERATORS:
        raise NotEvaluated
    try:
        results = OPERATORS[call.op](call)
    except (IndexError, OverflowError, ValueError):  # numpy does not take such an axis or shape
        raise NotEvaluated from None
    return results if isinstance(results, list) else [results]


def evaluate(nodes: Iterable[NodeProto], stored: Mapping[str, Array], *, opset: int) -> dict[str, Array]:
    """Compute nodes one after another; return all values by name, those that were stored too."""
    values = dict(stored)
    for node in nodes:
        operands = [Operand.computed(values[name]) if name else None for name in node.input]
        results = plan(Call(node, operands, opset, exact=False))
        values.update(zip(node.output, [result.read() for result in results], strict=True))
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


def reshape(call: Call) -> Operand:
    old, wanted = call.operand(0).shape, call.operand(1).numbers()
    check(call.opset >= 5 and min(wanted, default=0) >= -1)
    if not call.number("allowzero", 0):
        wanted = [size or old[position] for position, size in enumerate(wanted)]
    return call.operand(0).viewed(lambda values: values.reshape(wanted))


def flatten(call: Call) -> Operand:
    shape, axis = call.operand(0).shape, call.number("axis", 1)
    check(-len(shape) <= axis <= len(shape))
    flat = math.prod(shape[:axis]), math.prod(shape[axis:])
    return call.operand(0).viewed(lambda values: values.reshape(flat))


def squeeze(call: Call) -> Operand:
    axes = call.numbers("axes", 1)
    if axes is None:
        return call.operand(0).viewed(np.squeeze)
    dropped = {axis_of(axis, len(call.operand(0).shape)) for axis in axes}
    return call.operand(0).viewed(lambda values: np.squeeze(values, tuple(dropped)))


def unsqueeze(call: Call) -> Operand:
    axes = tuple(call.required("axes", 1))
    return call.operand(0).viewed(lambda values: np.expand_dims(values, axes))


def transpose(call: Call) -> Operand:
    if "perm" not in call.attributes:
        return call.operand(0).viewed(np.transpose)
    order = list(call.attributes["perm"].ints)
    check(min(order, default=0) >= 0)
    return call.operand(0).viewed(lambda values: values.transpose(order))


def concat(call: Call) -> Operand:
    operands = call.operands()
    shape = list(operands[0].shape)
    axis = axis_of(call.number("axis", 0), len(shape))
    rest = {(item.dtype, item.shape[:axis], item.shape[axis + 1 :]) for item in operands}
    check(len(rest) == 1 and all(len(item.shape) == len(shape) for item in operands))
    shape[axis] = sum(item.shape[axis] for item in operands)
    return Operand(
        tuple(shape), operands[0].dtype, lambda: np.concatenate([item.read() for item in operands], axis)
    )


def slices(call: Call) -> Operand:
    """Python's slices clamp and count from the end just as ONNX's do."""
    starts, ends = call.required("starts", 1), call.required("ends", 2)
    axes = call.numbers("axes", 3) or list(range(len(starts)))
    steps = call.numbers("steps", 4) or [1] * len(axes)
    wanted = [slice(None)] * len(call.operand(0).shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        wanted[axis] = slice(start, end, step)
    return call.operand(0).viewed(lambda values: values[tuple(wanted)])


def gather(call: Call) -> Operand:
    operand, indices = call.operand(0), call.operand(1)
    check(indices.dtype.name in ("int32", "int64"))
    axis = axis_of(call.number("axis", 0), len(operand.shape))

    def compute() -> Array:
        try:
            return np.take(operand.read(), indices.read(), axis)
        except IndexError:  # beyond the end
            raise NotEvaluated from None

    shape = (*operand.shape[:axis], *indices.shape, *operand.shape[axis + 1 :])
    return Operand(shape, operand.dtype, compute)


def split(call: Call) -> list[Operand]:
    operand = call.operand(0)
    axis = axis_of(call.number("axis", 0), len(operand.shape))
    size = operand.shape[axis]
    sizes = call.numbers("split", 1)
    if sizes is None:
        check(size % call.outputs == 0)
        sizes = [size // call.outputs] * call.outputs
    check(len(sizes) == call.outputs and sum(sizes) == size and min(sizes) >= 0)
    ends = itertools.accumulate(sizes)
    whole = Operand(operand.shape, operand.dtype, cache(operand.read))
    parts = [(*[slice(None)] * axis, slice(end - part, end)) for part, end in zip(sizes, ends, strict=True)]
    return [whole.viewed(operator.itemgetter(part)) for part in parts]


def expand(call: Call) -> Operand:
    shape = np.broadcast_shapes(call.operand(0).shape, tuple(call.operand(1).numbers()))
    return call.operand(0).viewed(lambda values: np.broadcast_to(values, shape))


def tile(call: Call) -> Operand:
    operand, times = call.operand(0), call.operand(1).numbers()
    check(call.opset >= 6 and min(times, default=0) >= 0)
    shape = tuple(size * count for size, count in zip(operand.shape, times, strict=True))
    return Operand(shape, operand.dtype, lambda: np.tile(operand.read(), times))


def shape_of(call: Call) -> Operand:
    shape = call.operand(0).shape
    part = shape[call.number("start", 0) : call.number("end", len(shape))]
    return Operand.computed(np.array(part, np.int64))


def size_of(call: Call) -> Operand:
    return Operand.computed(np.array(math.prod(call.operand(0).shape), np.int64))


def filled(call: Call) -> Operand:
    shape = tuple(call.operand(0).numbers())
    value = np.zeros((), np.float32)
    if "value" in call.attributes:
        tensor = call.attributes["value"].t
        check(tensor.data_type in NUMPY_TYPES and not tensor.external_data)
        value = full_onnx().numpy_helper.to_array(tensor).reshape(())
    return Operand.computed(np.broadcast_to(value, shape))


def counted(call: Call) -> Operand:
    """Range, of whole numbers."""
    operands = call.operands()
    check(len(operands) == 3 and len({item.dtype for item in operands}) == 1)
    check(all(item.shape in ((), (1,)) for item in operands))
    start, limit, step = (number for item in operands for number in item.numbers())
    check(step != 0)
    count = max(0, -((start - limit) // step))
    dtype = operands[0].dtype
    return Operand((count,), dtype, lambda: np.array(range(start, limit, step), dtype))


def cast(call: Call) -> Operand:
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

    return Operand(operand.shape, dtype, compute)


def arithmetic(function: Callable[..., Array], call: Call) -> Operand:
    """Exact for whole numbers that are small enough for any result; a division by zero is left alone."""
    operands = call.operands()
    dtype = operands[0].dtype
    check(len(operands) == 2)
    if not call.exact:
        check(function is not np.floor_divide)
        return _elementwise(function, call, dtype)
    check(all(item.integer for item in operands))
    most = 1 << (4 * dtype.itemsize - 1)

    def compute(one: Array, other: Array) -> Array:
        check(all(bool(((part < most) & (part > -most)).all()) for part in (one, other)))
        if function is np.floor_divide:  # ONNX rounds towards zero, numpy down
            check(bool((one >= 0).all() and (other > 0).all()))
        made = function(one.astype(INT64), other.astype(INT64))
        info = np.iinfo(dtype)
        check(bool(((made >= info.min) & (made <= info.max)).all()))
        return made.astype(dtype)

    return _elementwise(compute, call, dtype)


def logic(function: np.ufunc, kinds: str, call: Call) -> Operand:
    """Comparisons and logic, of numpy's kinds of types for which they are exact."""
    operands = call.operands()
    check(len(operands) == function.nin and all(item.dtype.kind in kinds for item in operands))
    return _elementwise(function, call, BOOL)


def _elementwise(function: Callable[..., Array], call: Call, dtype: np.dtype[Any]) -> Operand:
    operands = call.operands()
    check(call.opset >= MIN_OPSET and len({item.dtype for item in operands}) == 1)
    return _broadcast(function, operands, dtype)


def _broadcast(function: Callable[..., Array], operands: Sequence[Operand], dtype: np.dtype[Any]) -> Operand:
    shape = np.broadcast_shapes(*(item.shape for item in operands))
    return Operand(shape, dtype, lambda: function(*(item.read() for item in operands)))


def where(call: Call) -> Operand:
    condition, one, other = operands = [call.operand(position) for position in range(3)]
    check(condition.dtype == BOOL and one.dtype == other.dtype)
    return _broadcast(np.where, operands, one.dtype)


def dequantize(call: Call) -> Operand:
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

    return Operand(codes.shape, np.dtype(np.float32), compute)


OPERATORS: dict[str, Callable[[Call], Operand | list[Operand]]] = {
    "Identity": lambda call: call.operand(0),
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
    "Add": partial(arithmetic, np.add),
    "Sub": partial(arithmetic, np.subtract),
    "Mul": partial(arithmetic, np.multiply),
    "Div": partial(arithmetic, np.floor_divide),
    "Equal": partial(logic, np.equal, "iub"),
    "Less": partial(logic, np.less, "iub"),
    "Greater": partial(logic, np.greater, "iub"),
    "LessOrEqual": partial(logic, np.less_equal, "iub"),
    "GreaterOrEqual": partial(logic, np.greater_equal, "iub"),
    "And": partial(logic, np.logical_and, "b"),
    "Or": partial(logic, np.logical_or, "b"),
    "Xor": partial(logic, np.logical_xor, "b"),
    "Not": partial(logic, np.logical_not, "b"),
    "DequantizeLinear": dequantize,
}
