"""What a change really does to a model: original and changed run on inputs no checker has seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from realistic import Feeds, inputs_for

from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import RunFailed, Runner

Array = NDArray[Any]
PATIENCE = 60.0  # seconds for all samples of one model
COSINE = 0.999  # the default tolerance: for every output and every sample
SQNR = 30.0  # dB; a stricter look, which sees a change of scale as well
PEAK = 0.1  # of the largest value: how far one element may move when the whole array hardly does
FEW = 8  # elements below which a cosine says nothing
FLOOR = 1e-6  # of the largest value an output ever takes: less than that is rounding
BROKEN, BEYOND, SLICE, LOUDER, SLIGHT, SAME = "broken", "beyond", "slice", "louder", "slight", "same"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """`kind`: it does not run; an output is beyond the tolerance; only some row or element is; only its
    scale is; it moved and holds all of that; it did not move by a bit."""

    kind: str
    cosine: float = 1.0
    row: float = 1.0  # the worst cosine of a single row
    peak: float = 0.0
    sqnr: float = 300.0
    where: str = ""


class Witness:
    """Knows how one original behaves, and says of others how far they are from it. Models run in the
    worker process, since onnxruntime itself dies of some damage; its inputs are not the verifier's."""

    def __init__(self, name: str, path: Path, runner: Runner) -> None:
        self._runner = runner
        self.feeds = inputs_for(name, path, lambda feeds: self._run(path, [feeds])[0])
        self.outputs = self._run(path, self.feeds)
        self.largest = {
            key: max(map(_largest, (one[key] for one in self.outputs))) for key in self.outputs[0]
        }

    def truth(self, changed: Path) -> Truth:
        """The worst of all samples and outputs."""
        try:
            found = self._run(changed, self.feeds)
        except RunFailed as error:
            return Truth(kind=BROKEN, where=" ".join(error.message.split())[:160])
        every = [
            _judged(before[key], after.get(key), self.largest[key], f"{key} of sample {at}")
            for at, (before, after) in enumerate(zip(self.outputs, found, strict=True))
            for key in before
        ]
        return worst(every)

    def _run(self, path: Path, feeds: Sequence[Feeds]) -> list[Feeds]:
        return self._runner.run(path, feeds, limits=Limits(seconds=PATIENCE))


def worst(every: Sequence[Truth]) -> Truth:
    order = (BROKEN, BEYOND, SLICE, LOUDER, SLIGHT, SAME)
    return min(every, key=lambda one: (order.index(one.kind), one.cosine, one.row, one.sqnr))


def _judged(before: Array, after: Array | None, largest: float, where: str) -> Truth:
    if after is None or before.shape != after.shape or before.dtype != after.dtype:
        return Truth(kind=BEYOND, cosine=0.0, where=f"{where}: another shape or type")
    if before.tobytes() == after.tobytes():
        return Truth(kind=SAME)
    if before.dtype.kind != "f":
        return Truth(kind=BEYOND, cosine=0.0, where=f"{where}: unequal")
    old, new = before.astype(np.float64), after.astype(np.float64)
    if not np.array_equal(np.isfinite(old), np.isfinite(new)):
        return Truth(kind=BEYOND, cosine=0.0, where=f"{where}: NaN or Inf")
    old, new = (np.nan_to_num(array, posinf=0.0, neginf=0.0) for array in (old, new))
    if np.abs(old - new).max(initial=0.0) <= FLOOR * largest:
        return Truth(kind=SLIGHT)
    return _measured(old, new, largest, where)


def _measured(old: Array, new: Array, largest: float, where: str) -> Truth:
    cosine = _cosine(old.reshape(1, -1), new.reshape(1, -1), largest)
    row = (
        _cosine(old.reshape(-1, old.shape[-1]), new.reshape(-1, old.shape[-1]), largest) if old.ndim else 1.0
    )
    peak = float(np.abs(old - new).max()) / max(float(np.abs(old).max()), FLOOR * largest)
    noise, signal = float(((old - new) ** 2).sum()), float((old**2).sum())
    sqnr = 10 * math.log10(max(signal, 1e-300) / noise) if noise else 300.0
    kind = SLIGHT
    if cosine < COSINE:
        kind = BEYOND
    elif row < COSINE or (peak > PEAK and sqnr >= SQNR):
        kind = SLICE
    elif sqnr < SQNR:
        kind = LOUDER
    return Truth(kind=kind, cosine=cosine, row=row, peak=peak, sqnr=sqnr, where=where)


def _cosine(old: Array, new: Array, largest: float) -> float:
    """The worst over rows. Of few elements, what is left of one when all the error stands across it."""
    lengths = np.linalg.norm(old, axis=1)
    error = np.linalg.norm(old - new, axis=1)
    matters = error > FLOOR * largest
    if not matters.any():
        return 1.0
    if old.shape[1] < FEW:
        share = error[matters] / np.maximum(lengths[matters], 1e-300)
        return float(np.sqrt(np.maximum(0.0, 1.0 - np.minimum(share, 1.0) ** 2)).min())
    product = lengths[matters] * np.linalg.norm(new, axis=1)[matters]
    dots = (old * new).sum(axis=1)[matters]
    return float(np.divide(dots, product, out=np.zeros_like(dots), where=product > 0).min())


def _largest(array: Array) -> float:
    if array.dtype.kind != "f":
        return 1.0
    kept = array[np.isfinite(array)]
    return float(np.abs(kept).max(initial=0.0))
