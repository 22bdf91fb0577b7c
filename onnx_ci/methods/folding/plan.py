"""What a foldable node reads, and what it will give: sizes are known before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_ci.model.container import NUMPY_TYPES, Model
from onnx_ci.model.proto import AttributeProto, NodeProto, TensorProto

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]
MOST_NUMBERS = 64  # in an input that tells a shape, axes and the like

MOST_AXES = 32
MOST_ELEMENTS = 1 << 40


class UnfoldableError(Exception):
    """The node is left to the runtime: not supported, not exact, or wrong as it stands."""


@dataclass(frozen=True)
class Operand:
    """A stored tensor that a node reads; its values are read when they are asked for."""

    model: Model
    tensor: TensorProto

    @property
    def shape(self) -> Shape:
        return tuple(self.tensor.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(NUMPY_TYPES[self.tensor.data_type])

    @property
    def integer(self) -> bool:
        return self.dtype.kind in "iu"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> Array:
        return self.model.array(self.tensor)

    def numbers(self) -> list[int]:
        """A short list of whole numbers: a shape, axes, or where a slice starts."""
        check(self.integer and len(self.shape) <= 1 and math.prod(self.shape) <= MOST_NUMBERS)
        return [int(number) for number in self.read().reshape(-1)]


@dataclass(frozen=True)
class Plan:
    """The shapes and the type of what a node gives, and how to compute it."""

    shapes: Sequence[Shape]
    dtype: np.dtype[Any]
    compute: Callable[[], Sequence[Array]]

    def nbytes(self, position: int) -> int:
        return math.prod(self.shapes[position]) * self.dtype.itemsize


class Call:
    """One node with its operands, as the planners see it."""

    def __init__(self, node: NodeProto, operands: Sequence[Operand | None], opset: int) -> None:
        self.outputs = len(node.output)
        self.opset = opset
        self._operands = operands
        self._attributes = {entry.name: entry for entry in node.attribute}

    def operand(self, position: int) -> Operand:
        found = self.optional(position)
        if found is None:
            raise UnfoldableError
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

    def one(self, shape: Shape, compute: Callable[[], Array], dtype: np.dtype[Any] | None = None) -> Plan:
        """A single result, of the type of the first operand unless told otherwise."""
        return Plan([shape], dtype or self.operand(0).dtype, lambda: [compute()])


def check(holds: bool) -> None:
    if not holds:
        raise UnfoldableError


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
