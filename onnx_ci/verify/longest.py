"""The longest inputs that a model takes: as many positions as the tables have that it takes a piece of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onnx_ci.inputs import names
from onnx_ci.inputs.generate import Deriver
from onnx_ci.inputs.goals import Goal, Goals
from onnx_ci.inputs.graph import Op, Wiring, element_count
from onnx_ci.verify.constants import constant_shape

_LONGEST = 1024
_WORK = 10_000_000_000  # weights times length: about a second of computing
_ON_THE_WAY = {"Unsqueeze", "Squeeze", "Cast", "Expand", "Reshape", "Identity", "Slice"}


class Table(NamedTuple):
    """The first so many rows of a constant are taken: `end` is how many, `size` how many there are."""

    end: str
    size: int


def longest(deriver: Deriver) -> Goal | None:
    """The sizes of a sample that reaches the end of every table; None where none is known, or too far."""
    dims = {one.name: one.dims or () for one in deriver.inputs}
    bounds: dict[str, tuple[tuple[str, int], int]] = {}
    for place, size in _bounds(deriver):
        name, axis = place
        dim = dims[name][axis] if axis < len(dims[name]) else None
        if isinstance(dim, int) or dim in deriver.spec.dims or names.words(name) & names.PAST:
            continue
        key = dim or f"{name}\n{axis}"  # a symbol stands for one size everywhere
        if key not in bounds or size < bounds[key][1]:
            bounds[key] = (place, size)
    most = min(_LONGEST, _WORK // max(1, _weights(deriver.wiring)))
    sizes = {place: min(size, most) for place, size in bounds.values()}
    return Goal(sizes=sizes) if sizes and min(sizes.values()) > 0 else None


def _bounds(deriver: Deriver) -> Iterator[tuple[tuple[str, int], int]]:
    goals = Goals(deriver.wiring, {one.name: len(one.dims or ()) for one in deriver.inputs})
    for table in _tables(deriver.wiring):
        for goal in goals.reach(table.end, float(table.size)):
            yield from goal.sizes.items()
    for one in deriver.inputs:
        below = deriver.roles[one.name].below
        if below is not None and names.words(one.name) & names.POSITION and one.dims:
            yield (one.name, len(one.dims) - 1), below


def _tables(wiring: Wiring) -> Iterator[Table]:
    for op in {id(op): op for op in wiring.producer.values()}.values():
        shape = constant_shape(wiring, op.inputs[0]) if op.type in _ENDS and op.inputs else None
        axis, end = _ENDS[op.type](wiring, op) if shape else (0, "")
        if shape and end and -len(shape) <= axis < len(shape):
            yield Table(end, shape[axis])


def _slice(wiring: Wiring, op: Op) -> tuple[int, str]:
    if len(op.inputs) < 3:
        return 0, ""
    axes = wiring.integers(op.inputs[3]) if len(op.inputs) > 3 and op.inputs[3] else [0]
    return (axes[0], op.inputs[2]) if axes and len(axes) == 1 else (0, "")


def _gather(wiring: Wiring, op: Op) -> tuple[int, str]:
    """Rows that are counted: 0, 1, 2 and so on up to the length."""
    counted = wiring.producer.get(wiring.source(op.inputs[1])) if len(op.inputs) > 1 else None
    for _ in range(len(_ON_THE_WAY)):
        if counted is None or counted.type not in _ON_THE_WAY or not counted.inputs:
            break
        counted = wiring.producer.get(wiring.source(counted.inputs[0]))
    is_range = counted is not None and counted.type == "Range" and len(counted.inputs) > 1
    return op.attribute("axis", 0), counted.inputs[1] if is_range and counted is not None else ""


def _weights(wiring: Wiring) -> int:
    return sum(element_count(tensor.dims) for tensor in wiring.tensors.values())


_ENDS = {"Slice": _slice, "Gather": _gather}
