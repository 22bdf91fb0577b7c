"""An axis: where a value lies between its ends, and which round values are marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """`unit` is what a labelled value is counted in; ticks are round in it."""

    low: float
    high: float
    step: float
    unit: float

    @classmethod
    def over(cls, values: Sequence[float], *, steps: int, unit: float) -> Scale:
        """From the round value below all of them to the one above."""
        low, high = min(values), max(values)
        step = _round_step((high - low) / unit / steps) * unit
        return cls(math.floor(low / step) * step, math.ceil(high / step) * step, step, unit)

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    @property
    def ticks(self) -> Iterator[float]:
        for number in range(round((self.high - self.low) / self.step) + 1):
            yield round((self.low + number * self.step) / self.unit, 9) * self.unit


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)
