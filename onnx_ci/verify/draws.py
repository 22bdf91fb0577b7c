"""What many runs of a random model gave: the mean of each output, and the draws of some of its elements.

Used in the worker, so that not every run has to travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnx_ci.verify.dtypes import Array, is_float, is_text

TRACKED = 256  # elements of an output whose every draw is kept


class Tally:
    """Means in float64 over all runs. What has another shape in another run is left out, and named."""

    def __init__(self) -> None:
        self.sums: dict[str, Array] = {}
        self.steady: dict[str, Array] = {}  # integers and the like that never changed: they must not
        self.draws: dict[str, list[Array]] = {}
        self.left_out: dict[str, str] = {}
        self.runs = 0

    def add(self, outputs: Mapping[str, Any]) -> None:
        for name in {*outputs, *self.sums}:
            why = self._unfit(name, outputs.get(name))
            if why:
                self.left_out.setdefault(name, why)
        for name, value in outputs.items():
            if name not in self.left_out:
                self._watch(name, value)
                self._count(name, value.astype(np.float64))
        self.runs += 1

    def _unfit(self, name: str, value: Any) -> str:
        if value is None or (self.runs and name not in self.sums):
            return "is not there in every run"
        if not isinstance(value, np.ndarray) or is_text(value.dtype) or value.dtype.kind == "c":
            return "has no mean"
        known = self.sums.get(name)
        return "has another shape each run" if known is not None and known.shape != value.shape else ""

    def _watch(self, name: str, value: Array) -> None:
        if not self.runs and not is_float(value.dtype):
            self.steady[name] = value
        elif name in self.steady and not np.array_equal(self.steady[name], value):
            del self.steady[name]

    def _count(self, name: str, value: Array) -> None:
        self.sums[name] = value if name not in self.sums else self.sums[name] + value
        flat = value.reshape(-1)
        places = np.linspace(0, flat.size - 1, min(flat.size, TRACKED)).astype(np.int64)
        self.draws.setdefault(name, []).append(flat[places])

    def result(self) -> dict[str, Array]:
        """`mean` and `draws` (a row each run) of every output, by its name."""
        kept = [name for name in self.sums if name not in self.left_out]
        means = {f"mean {name}": self._mean(name) for name in kept}
        return {**means, **{f"draws {name}": np.stack(self.draws[name]) for name in kept}}

    def _mean(self, name: str) -> Array:
        return self.steady.get(name, np.asarray(self.sums[name] / self.runs))


def tallied(run: Callable[[], Mapping[str, Any]], runs: int) -> Tally:
    tally = Tally()
    for _ in range(runs):
        tally.add(run())
    return tally
