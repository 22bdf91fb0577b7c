"""What inputs have to be so that a value becomes a given number: followed back from the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from onnx_ci.inputs.graph import Op, UseDef
from onnx_ci.inputs.operators import KEEPS_NUMBER, KEEPS_SIZES, operator

_DEPTH = 24
_STEPS = 20_000  # for all conditions together: a hostile graph must not keep us here
_MOST_WAYS = 12  # ways to reach one value
_GREATER = ("Greater", "GreaterOrEqual")
_COMPARISONS = ("Equal", "Less", "LessOrEqual", *_GREATER)
_OTHER_RATE = {16000: 8000, 8000: 16000, 44100: 22050, 48000: 16000, 24000: 16000}


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Values of inputs, all elements alike, sizes of their axes, and optional inputs that are not there."""

    values: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[tuple[str, int], int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    def and_also(self, other: Goal) -> Goal | None:
        """Return both goals as one, unless they contradict each other."""
        if any(other.values.get(name, value) != value for name, value in self.values.items()):
            return None
        if any(other.sizes.get(axis, size) != size for axis, size in self.sizes.items()):
            return None
        values, sizes = {**self.values, **other.values}, {**self.sizes, **other.sizes}
        absent = self.absent | other.absent
        if absent & {*values, *(name for name, _ in sizes)}:
            return None
        return Goal(values=values, sizes=sizes, absent=absent)


class Goals:
    """Finds goals in one model, whose inputs have these ranks."""

    def __init__(self, graph: UseDef, ranks: Mapping[str, int]) -> None:
        self.graph = graph
        self.ranks = ranks
        self._left = _STEPS

    def all_of(self, conditions: Sequence[tuple[str, bool]]) -> list[Goal]:
        """Return ways to make all these conditions what they shall be.

        Conditions that nothing is known about are left out: they may be so anyway.
        """
        return _joined([self.reach(name, float(holds)) for name, holds in conditions])

    def reach(self, name: str, value: float, depth: int = _DEPTH) -> list[Goal]:
        """Return ways to give a value this number, or this truth."""
        name = self.graph.source(name)
        self._left -= 1
        if name in self.ranks:
            return [Goal(values={name: value})]
        if depth == 0 or self._left < 0 or name in self.graph.tensors:
            return []
        # What comes out of an If or goes round in a loop has several origins.
        goals = self._reach_any(self.graph.origins.get(name, ()), value, depth - 1)
        op = self.graph.producer.get(name)
        if op is not None:
            goals += self._through(op, value, depth - 1)
        return goals[:_MOST_WAYS]

    def _reach_any(self, names: Sequence[str], value: float, depth: int) -> list[Goal]:
        return [goal for name in names for goal in self.reach(name, value, depth)]

    def _through(self, op: Op, value: float, depth: int) -> list[Goal]:
        """Return ways to get this number out of a node."""
        if op.type in _COMPARISONS:
            return self._compared(op, bool(value), depth)
        if op.type in ("And", "Or"):
            return self._combined(op, bool(value), depth)
        if op.type == "Not":
            return self.reach(op.inputs[0], 1.0 - value, depth)
        if op.type == "OptionalHasElement" and op.inputs:
            name = self.graph.source(op.inputs[0])
            absent = frozenset() if value else frozenset({name})
            return [Goal(absent=absent)] if name in self.ranks else []
        if op.type in ("Gather", "Slice", "Squeeze", "Size"):
            sizes = self._size(op, value)
            if sizes:
                return sizes
        if op.type in ("Add", "Sub", "Mul", "Div") and len(op.inputs) == 2:
            return self._arithmetic(op, value, depth)
        if op.type == "Where":
            return self._reach_any(op.inputs[1:], value, depth)
        if KEEPS_NUMBER in operator(op).traits:
            return self._reach_any(op.inputs[:1], value, depth)
        return []

    def _compared(self, op: Op, holds: bool, depth: int) -> list[Goal]:
        for side in (0, 1):
            constant = self.graph.numbers(op.inputs[1 - side])
            if constant:
                candidates = _candidates(op.type, constant[0], holds, side)
                return [goal for number in candidates for goal in self.reach(op.inputs[side], number, depth)]
        if op.type == "Equal":
            left, right = 4.0, 4.0 if holds else 8.0
        elif (op.type in _GREATER) == holds:
            left, right = 8.0, 4.0
        else:
            left, right = 4.0, 8.0
        return _joined([self.reach(op.inputs[0], left, depth), self.reach(op.inputs[1], right, depth)])

    def _combined(self, op: Op, holds: bool, depth: int) -> list[Goal]:
        if holds != (op.type == "And"):  # one of them will do
            return self._reach_any(op.inputs, float(holds), depth)
        return _joined([self.reach(name, float(holds), depth) for name in op.inputs])

    def _arithmetic(self, op: Op, value: float, depth: int) -> list[Goal]:
        for side in (0, 1):
            constant = self.graph.numbers(op.inputs[1 - side])
            if constant:
                before = _undone(op.type, value, constant[0], side)
                return [] if before is None else self.reach(op.inputs[side], before, depth)
        return self._reach_any(op.inputs, value, depth)

    def _size(self, op: Op, value: float) -> list[Goal]:
        """Return sizes of an input, where the number is taken from its shape."""
        shape = op if op.type == "Size" else self._shape_behind(op)
        if shape is None or value < 0 or value != int(value):
            return []
        name = self._with_same_shape(shape.inputs[0])
        if name not in self.ranks:
            return []
        rank = self.ranks[name]
        axes = list(range(rank)) if op.type == "Size" else self._axis(op, shape, rank)
        return [Goal(sizes={(name, axis): int(value)}) for axis in axes if axis < rank]

    def _shape_behind(self, op: Op) -> Op | None:
        """Return the Shape node that a number is picked from."""
        for inner in self.graph.back(op.input(0), 4):
            if inner.type == "Shape":
                return inner
            if inner.type not in ("Cast", "Slice", "Gather", "Squeeze"):
                return None
        return None

    def _axis(self, op: Op, shape: Op, rank: int) -> list[int]:
        """Return the axis that is picked from a shape."""
        start = int(shape.attribute("start", 0))
        if op.type == "Squeeze":
            op = next(inner for inner in self.graph.back(op.input(0), 4) if inner.type != "Squeeze")
        if op is shape:
            return [start]
        picked = self.graph.integers(op.input(1)) or [0]
        return [picked[0] + (start if picked[0] >= 0 else rank)]

    def _with_same_shape(self, name: str) -> str:
        """Return the input, or the first value before this one, that has its shape."""
        for op in self.graph.back(name, _DEPTH):
            if KEEPS_SIZES not in operator(op).traits:
                break
            name = op.input(0)
        return self.graph.source(name)


def _joined(ways: Sequence[Sequence[Goal]]) -> list[Goal]:
    """Return goals that take one of each, all at once; where there is no way, nothing is asked."""
    joined = []
    known = [goals for goals in ways if goals]
    for goals in islice(product(*known), 4 * _MOST_WAYS) if known else ():
        both: Goal | None = Goal()
        for goal in goals:
            both = None if both is None else both.and_also(goal)
        if both is not None:
            joined.append(both)
    return joined[:_MOST_WAYS]


def _undone(kind: str, value: float, constant: float, side: int) -> float | None:
    """Return what arithmetic with a constant on the other side makes this value of."""
    if kind == "Add":
        return value - constant
    if kind == "Sub":
        return value + constant if side == 0 else constant - value
    if not constant:
        return None
    if kind == "Mul":
        return value / constant
    return value * constant if side == 0 else constant / (value or 1.0)


def _candidates(kind: str, constant: float, holds: bool, side: int) -> list[float]:
    """Return numbers to try, so that a comparison with a constant holds or does not.

    `side` is where the number stands. Some are beyond the constant by little, some by much.
    """
    if kind == "Equal":
        numbers = [constant + 1, constant - 1, 0.0]
        if constant in _OTHER_RATE:
            numbers.insert(0, _OTHER_RATE[int(constant)])
        return [constant] if holds else numbers
    above = (kind in _GREATER) == (side == 0)
    if above == holds:
        numbers = [constant + 1, constant + 0.5, 2 * constant + 1]
    else:
        numbers = [constant - 1, constant / 2, 0.0]
    equal_too = kind.endswith("OrEqual") == holds
    return [constant, *numbers] if equal_too else numbers
