"""How a value depends on an input: multiplied and shifted by constants on the way, or left as it is."""

from __future__ import annotations

import math
from typing import NamedTuple

from onnx_ci.inputs.graph import Op, Wiring

_FAR = 2.0**40  # a loop can add for ever; past any real table's height the exact sum no longer matters


class Line(NamedTuple):
    """value = scale * x + something from `low` to `high`; `whole` until only a part of it goes on."""

    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    whole: bool = True

    def solve(self, value: float) -> float:
        """The x at which the value is this."""
        return (value - self.low) / self.scale

    def within(self, low: float, below: float) -> tuple[int, int]:
        """The whole numbers x whose value is from `low` to before `below`: first, and one past the last."""
        ends = sorted(((low - self.low) / self.scale, (below - 1 - self.high) / self.scale))
        first = math.ceil(ends[0])
        return first, max(first, math.floor(ends[1])) + 1

    def shifted(self, low: float, high: float) -> Line:
        return self._replace(low=_bounded(self.low + low), high=_bounded(self.high + high))

    def times(self, factor: float) -> Line:
        scale = self.scale * factor
        if not factor or not 2**-40 < abs(scale) < 2**40:
            return self
        low, high = sorted((_bounded(self.low * factor), _bounded(self.high * factor)))
        return self._replace(scale=scale, low=low, high=high)


def after(wiring: Wiring, op: Op, index: int, line: Line) -> Line:
    """The line behind a node that the value goes through as operand `index`."""
    if op.type in ("Concat", "Gather", "Slice", "ScatterElements", "ScatterND", "Split", "Pad"):
        return line if not line.whole else line._replace(whole=False)
    if op.type == "Neg":
        return line.times(-1.0)
    if op.type not in ("Add", "Sub", "Mul", "Div") or len(op.inputs) != 2:
        return line
    other = wiring.numbers(op.inputs[1 - index])
    if not other or not all(map(math.isfinite, other)):
        return line if not line.whole else line._replace(whole=False)
    if op.type == "Add":
        return line.shifted(min(other), max(other))
    if op.type == "Sub":
        return _difference(line, min(other), max(other), index)
    factor = max(other)
    return line.times(factor if op.type == "Mul" else 1 / (factor or 1.0))


def _difference(line: Line, low: float, high: float, index: int) -> Line:
    return line.shifted(-high, -low) if index == 0 else line.times(-1.0).shifted(low, high)


def _bounded(value: float) -> float:
    return min(max(value, -_FAR), _FAR)
