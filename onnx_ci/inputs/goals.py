"""What inputs have to be so that a condition holds, or does not: followed back from the condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from onnx_ci.inputs.graph import Op, Wiring

_DEPTH = 24
_STEPS = 20_000  # for all conditions together: a hostile graph must not keep us here
_MOST = 12  # ways to reach one value
_RATES = {16000: 8000, 8000: 16000, 44100: 22050, 48000: 16000, 24000: 16000}
_SAME = {"Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", "CastLike", "Expand", "Gather", "Slice"}
_SAME |= {"ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "Max", "Min", "Flatten", "Abs", "Dropout"}
_SAME |= {"Transpose", "Tile", "Floor", "Ceil", "Round", "OptionalGetElement", "ReduceProd"}
_SAME_SHAPE = {"Cast", "Identity", "Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Clip", "Dropout", "Softmax"}


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Values of inputs, all elements alike, sizes of their axes, and optional inputs that are not there."""

    values: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[tuple[str, int], int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    def and_also(self, other: Goal) -> Goal | None:
        """Both at once, unless they contradict each other."""
        if any(other.values.get(name, value) != value for name, value in self.values.items()):
            return None
        if any(other.sizes.get(axis, size) != size for axis, size in self.sizes.items()):
            return None
        values, sizes = {**self.values, **other.values}, {**self.sizes, **other.sizes}
        absent = self.absent | other.absent
        if any(name in absent for name in [*values, *(name for name, _ in sizes)]):
            return None
        return Goal(values=values, sizes=sizes, absent=absent)


class Goals:
    """Finds them in one model, whose inputs have these ranks."""

    def __init__(self, wiring: Wiring, ranks: Mapping[str, int]) -> None:
        self.wiring = wiring
        self.ranks = ranks
        self._left = _STEPS

    def all_of(self, wanted: Sequence[tuple[str, bool]]) -> list[Goal]:
        """Ways to make all these conditions what they shall be; those that nothing is known about are left
        out, since they may be so anyway."""
        ways = [found for name, value in wanted if (found := self.reach(name, float(value)))]
        return _joined(ways)

    def reach(self, name: str, value: float, depth: int = _DEPTH) -> list[Goal]:
        """Ways to give a value this number, or this truth."""
        name = self.wiring.source(name)
        self._left -= 1
        if name in self.ranks:
            return [Goal(values={name: value})]
        if depth == 0 or self._left < 0 or name in self.wiring.tensors:
            return []
        op = self.wiring.producer.get(name)
        # What comes out of an If or goes round in a loop has several origins.
        origins = self.wiring.origins.get(name, ())
        further = [goal for other in origins for goal in self.reach(other, value, depth - 1)]
        return [*further, *(self._through(op, value, depth - 1) if op is not None else [])][:_MOST]

    def _through(self, op: Op, value: float, depth: int) -> list[Goal]:
        if op.type in _COMPARED:
            return self._compared(op, bool(value), depth)
        if op.type in ("And", "Or"):
            return self._combined(op, bool(value), depth)
        if op.type == "Not":
            return self.reach(op.inputs[0], 1.0 - value, depth)
        if op.type == "OptionalHasElement" and op.inputs:
            name = self.wiring.source(op.inputs[0])
            return [Goal(absent=frozenset() if value else frozenset({name}))] if name in self.ranks else []
        if op.type in ("Gather", "Slice", "Squeeze", "Size"):
            found = self._size(op, value)
            if found:
                return found
        if op.type in ("Add", "Sub", "Mul", "Div") and len(op.inputs) == 2:
            return self._arithmetic(op, value, depth)
        if op.type == "Where":
            return [goal for name in op.inputs[1:] for goal in self.reach(name, value, depth)]
        return self.reach(op.inputs[0], value, depth) if op.type in _SAME and op.inputs else []

    def _compared(self, op: Op, holds: bool, depth: int) -> list[Goal]:
        for side in (0, 1):
            constant = self.wiring.numbers(op.inputs[1 - side])
            if constant:
                candidates = _COMPARED[op.type](constant[0], holds, side)
                return [goal for number in candidates for goal in self.reach(op.inputs[side], number, depth)]
        one, other = (4.0, 4.0) if op.type == "Equal" and holds else (4.0, 8.0)
        if op.type.startswith("Greater") == holds and op.type != "Equal":
            one, other = other, one
        return _joined(
            [
                ways
                for name, number in zip(op.inputs, (one, other), strict=True)
                if (ways := self.reach(name, number, depth))
            ]
        )

    def _combined(self, op: Op, holds: bool, depth: int) -> list[Goal]:
        ways = [self.reach(name, float(holds), depth) for name in op.inputs]
        if holds == (op.type == "And"):
            return _joined([found for found in ways if found])
        return [goal for found in ways for goal in found]

    def _arithmetic(self, op: Op, value: float, depth: int) -> list[Goal]:
        for side in (0, 1):
            constant = self.wiring.numbers(op.inputs[1 - side])
            if constant:
                before = _undone(op.type, value, constant[0], side)
                return [] if before is None else self.reach(op.inputs[side], before, depth)
        return [goal for name in op.inputs for goal in self.reach(name, value, depth)]

    def _size(self, op: Op, value: float) -> list[Goal]:
        """An axis of an input, where the number is taken from a shape."""
        shaped = op if op.type == "Size" else self._shape_behind(op)
        if shaped is None or value < 0 or value != int(value):
            return []
        name = self._same_shape(shaped.inputs[0])
        if name not in self.ranks:
            return []
        if op.type == "Size":
            return [Goal(sizes={(name, axis): int(value)}) for axis in range(self.ranks[name])]
        axes = self._axis(op, shaped)
        return [Goal(sizes={(name, axis): int(value)}) for axis in axes if axis < self.ranks[name]]

    def _shape_behind(self, op: Op) -> Op | None:
        for _ in range(4):
            inner = self.wiring.producer.get(self.wiring.source(op.inputs[0])) if op.inputs else None
            if inner is None or inner.type == "Shape":
                return inner
            if inner.type not in ("Cast", "Slice", "Gather", "Squeeze"):
                return None
            op = inner
        return None

    def _axis(self, op: Op, shaped: Op) -> list[int]:
        start = int(shaped.attribute("start", 0))
        while op.type == "Squeeze" and op.inputs:
            inner = self.wiring.producer.get(self.wiring.source(op.inputs[0]))
            if inner is None or inner is shaped:
                return [start]
            op = inner
        picked = self.wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None
        rank = self.ranks.get(self._same_shape(shaped.inputs[0]), 0)
        return [axis + start if axis >= 0 else axis + rank for axis in picked or [0]][:1]

    def _same_shape(self, name: str) -> str:
        for _ in range(_DEPTH):
            name = self.wiring.source(name)
            op = self.wiring.producer.get(name)
            if name in self.ranks or op is None or op.type not in _SAME_SHAPE or not op.inputs:
                return name
            name = op.inputs[0]
        return name


def _joined(ways: Sequence[Sequence[Goal]]) -> list[Goal]:
    """One of each, all at once."""
    found = []
    for goals in islice(product(*ways), 4 * _MOST) if ways else ():
        joined: Goal | None = Goal()
        for goal in goals:
            joined = None if joined is None else joined.and_also(goal)
        found += [joined] if joined is not None else []
    return found[:_MOST]


def _undone(kind: str, value: float, constant: float, side: int) -> float | None:
    if kind == "Add":
        return value - constant
    if kind == "Sub":
        return value + constant if side == 0 else constant - value
    if not constant:
        return None
    return value / constant if kind == "Mul" else value * constant if side == 0 else constant / (value or 1.0)


def _equal(constant: float, holds: bool, side: int) -> list[float]:  # noqa: ARG001 - equal both ways round
    if holds:
        return [constant]
    return [*([_RATES[int(constant)]] if constant in _RATES else []), constant + 1, constant - 1, 0.0]


def _above(constant: float, holds: bool, side: int) -> list[float]:
    """`a > constant`, or `constant > a`: beyond it by little, and by much."""
    up = [constant + 1, constant + 0.5, 2 * constant + 1]
    down = [constant, constant - 1, constant / 2, 0.0]
    return (up if holds else down) if side == 0 else ([*down[1:]] if holds else [constant, *up])


def _below(constant: float, holds: bool, side: int) -> list[float]:
    return _above(constant, holds, 1 - side)


def _at_least(constant: float, holds: bool, side: int) -> list[float]:
    return _below(constant, not holds, side)


def _at_most(constant: float, holds: bool, side: int) -> list[float]:
    return _above(constant, not holds, side)


_COMPARED: Mapping[str, Callable[[float, bool, int], list[float]]] = {
    "Equal": _equal,
    "Greater": _above,
    "Less": _below,
    "GreaterOrEqual": _at_least,
    "LessOrEqual": _at_most,
}
