"""What an input is used for: the table its values index, a mask, a size, or values that an operator wants.

An input is followed through everything that keeps its values, at most scaled and shifted by constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from onnx_ci.inputs.dims import SampleShapes, constant_shape
from onnx_ci.inputs.graph import Op, UseDef, element_count
from onnx_ci.inputs.normalization import PictureRange
from onnx_ci.inputs.operators import TAKES_PART, Range, Wanted, Wants, operator
from onnx_ci.sandbox.exchange import is_integer

WantedInput = Range | list[float] | None  # any of these values, exactly these, or no idea

_STEPS = 100_000  # for all inputs together: a hostile graph must not keep us here
_MOST_USES = 8  # of one input that are remembered
_MOST_WORDS = 256
_ALPHABET = 16  # shorter lists are special tokens
_FAR = 2.0**40  # a loop can add for ever; past any real table's height the exact sum no longer matters


class AffineRange(NamedTuple):
    """A value that is `scale * x` plus something from `low` to `high`, where x is an input's value.

    `whole` until only a part of the input goes on.
    """

    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    whole: bool = True

    def solve(self, value: float) -> float:
        """Return the x that gives this value."""
        return (value - self.low) / self.scale

    def within(self, low: float, below: float) -> tuple[int, int]:
        """Return the whole numbers x that give values in [low, below): the first, and one past the last."""
        ends = sorted(((low - self.low) / self.scale, (below - 1 - self.high) / self.scale))
        first = math.ceil(ends[0])
        return first, max(first, math.floor(ends[1])) + 1

    def through(self, graph: UseDef, op: Op, index: int) -> AffineRange:
        """Return the range after a node that takes the value as operand `index`."""
        if TAKES_PART in operator(op).traits:
            return self._replace(whole=False)
        if op.type == "Neg":
            return self._times(-1.0)
        if op.type not in ("Add", "Sub", "Mul", "Div") or len(op.inputs) != 2:
            return self
        other = graph.numbers(op.inputs[1 - index])
        if not other or not all(map(math.isfinite, other)):
            return self._replace(whole=False)
        low, high = min(other), max(other)
        if op.type == "Add":
            return self._plus(low, high)
        if op.type == "Sub":
            return self._plus(-high, -low) if index == 0 else self._times(-1.0)._plus(low, high)
        return self._times(high if op.type == "Mul" else 1 / (high or 1.0))

    def _plus(self, low: float, high: float) -> AffineRange:
        return self._replace(low=_bounded(self.low + low), high=_bounded(self.high + high))

    def _times(self, factor: float) -> AffineRange:
        scale = self.scale * factor
        if not factor or not 1 / _FAR < abs(scale) < _FAR:
            return self
        low, high = sorted((_bounded(self.low * factor), _bounded(self.high * factor)))
        return self._replace(scale=scale, low=low, high=high)


def _bounded(value: float) -> float:
    return min(max(value, -_FAR), _FAR)


_UNCHANGED = AffineRange()


class Use(NamedTuple):
    """An operand that wants certain values, and how the input becomes that operand."""

    op: Op
    operand: int
    value: AffineRange


@dataclass
class Role:
    """How the graph uses an input. `below` is the first value that is too large for a table."""

    low: int = 0
    below: int | None = None
    indexes: bool = False  # into something that is computed, so of unknown length
    alphabet: int = 0  # how many values it is compared with
    mask: bool = False
    size: bool = False
    uses: list[Use] = field(default_factory=list)
    vocabulary: list[Any] = field(default_factory=list)  # words or codes that are looked up
    ranges: tuple[PictureRange, ...] = ()  # in which its first convolution takes pictures

    def limit(self, low: int, below: int) -> None:
        if self.below is not None:
            low, below = max(self.low, low), min(self.below, below)
        self.low, self.below = low, max(low + 1, below)

    def words_of(self, kind: type) -> list[Any]:
        return [word for word in self.vocabulary if isinstance(word, kind)]

    @property
    def is_guessed(self) -> bool:
        """Whether nothing is known of its values, or only that they may be as far as an axis goes."""
        return self == Role() or any(use.op.type == "Slice" for use in self.uses)

    @property
    def users(self) -> str:
        return " and ".join(dict.fromkeys(use.op.type for use in self.uses[:2]))


def roles_of(graph: UseDef, names: Sequence[str]) -> dict[str, Role]:
    return {name: _role(graph, name, _STEPS // len(names)) for name in names}


def _role(graph: UseDef, name: str, steps: int) -> Role:
    role = Role()
    start = (name, _UNCHANGED)
    seen, waiting = {start}, [start]
    while waiting and steps > 0:
        name, value = waiting.pop()
        uses = graph.uses.get(name, [])[:steps]
        reached = [(alias, value) for alias in graph.aliases.get(name, [])[:steps]]
        steps -= 1 + len(uses) + len(reached)
        for op, index in uses:
            _note(graph, role, Use(op, index, value))
            if index in operator(op).passes:
                after = value.through(graph, op, index)
                reached += [(output, after) for output in op.outputs]
        waiting += [item for item in dict.fromkeys(reached) if item not in seen]
        seen.update(reached)
    return role


def _note(graph: UseDef, role: Role, use: Use) -> None:
    """Add what one use says to the role."""
    op, index, value = use
    row = operator(op)
    meaning = row.means.get(index)
    role.mask |= meaning == "mask" or (op.type == "Sub" and index == 1 and value == _UNCHANGED)
    role.size |= meaning == "size"
    role.indexes |= meaning == "index"
    if index in row.wants and len(role.uses) < _MOST_USES:
        role.uses.append(use)
    if index == 0 and not role.vocabulary:
        role.vocabulary = _vocabulary(op)
    if meaning == "row":
        axis = op.attribute("gather_axis" if op.type == "GatherBlockQuantized" else "axis", 0)
        _note_table(graph, role, op.input(0), axis, value)
    elif op.type == "EmbedLayerNormalization" and index in (0, 1):
        _note_table(graph, role, op.input(2 if index == 0 else 4), 0, value)
    elif op.type == "OneHot" and index == 0:
        depth = graph.integers(op.input(1))
        if depth:
            role.limit(*value.within(0, depth[0]))
    elif op.type == "Equal" and len(op.inputs) == 2:
        role.alphabet = max(role.alphabet, _compared_with(graph, op.inputs[1 - index]))
    elif op.type == "Clip" and index == 0:
        _note_bounds(graph, role, op, value)


def _note_table(graph: UseDef, role: Role, table: str, axis: int, value: AffineRange) -> None:
    shape = constant_shape(graph, table) if table else None
    if shape is None:
        role.indexes = True
    elif -len(shape) <= axis < len(shape):
        role.limit(*value.within(0, shape[axis]))


def _note_bounds(graph: UseDef, role: Role, op: Op, value: AffineRange) -> None:
    """Stay inside the bounds of a Clip: beyond them, all values come out the same."""
    low, high = (graph.integers(op.input(index)) for index in (1, 2))
    if low and high and low[0] < high[0]:
        role.limit(*value.within(low[0], high[0] + 1))


def _compared_with(graph: UseDef, name: str, depth: int = 6) -> int:
    """Return how many values an input is compared with: `x == [0, 1, …, 255]` is a one-hot."""
    if name in graph.tensors:
        count = element_count(graph.tensors[name].dims)
        return count if count >= _ALPHABET else 0
    op = graph.producer.get(name)
    if op is None or depth == 0 or not op.inputs or op.type not in {"Expand", "Cast", "Reshape", "Identity"}:
        return 0
    return _compared_with(graph, op.inputs[0], depth - 1)


def _vocabulary(op: Op) -> list[Any]:
    """Return what this operator looks its input up in."""
    for name in operator(op).vocabulary:
        words: Sequence[Any] = op.attribute(name, None) or ()
        if words:
            return [w.decode("utf-8", "replace") if isinstance(w, bytes) else w for w in words[:_MOST_WORDS]]
    return []


def wanted_values(role: Role, dtype: np.dtype[Any], count: int, shapes: SampleShapes) -> WantedInput:
    """Return the values of the first use that names them; else a range that is good for all uses."""
    ranges: list[Range] = []
    for use in role.uses:
        wanted = _wanted_by(use, dtype, count, shapes)
        if isinstance(wanted, Range):
            ranges.append(wanted)
        elif wanted is not None and not (role.indexes and count > 1 and len(set(wanted)) == 1):
            return wanted  # unless all indices would be the same one, for something that counts them
    if not ranges:
        return None
    low = max(wanted.low for wanted in ranges)
    return Range(low, max(low, min(wanted.high for wanted in ranges)))


def _wanted_by(use: Use, dtype: np.dtype[Any], count: int, shapes: SampleShapes) -> WantedInput:
    """Return what one use wants, carried back to the input's own values."""
    integer = is_integer(dtype)
    wants: Wants | Wanted = operator(use.op).wants.get(use.operand)
    if callable(wants):
        wants = wants(shapes.around(use.op, count=count, integer=integer))
    if wants is None or not (use.value.whole or (integer and isinstance(wants, Range))):
        return None
    if isinstance(wants, Range):
        return Range(*sorted(map(use.value.solve, wants)))
    if isinstance(wants, float | int):
        wants = [wants] * count
    return [use.value.solve(value) for value in wants]
