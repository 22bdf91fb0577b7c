"""Samples of other sizes than those that ran first: a model may take another way for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from onnx_ci.inputs.dims import STEPS
from onnx_ci.inputs.generate import Attempt, Deriver
from onnx_ci.inputs.goals import Goal
from onnx_ci.verify.client import Feeds
from onnx_ci.verify.longest import longest

Shapes = tuple[tuple[int, ...], ...]
_LARGER = 4  # times the elements of the largest sample there is, at most


def of_other_sizes(deriver: Deriver, known: Sequence[Feeds]) -> Iterator[Feeds]:
    """The longest that the model has positions for, and one for each set of sizes that is tried for inputs
    like these; whether they run is not known."""
    seen = {_shapes(sample) for sample in known}
    most = _LARGER * max(map(_elements, seen), default=0)
    goal = longest(deriver)
    sample = deriver.towards(goal, Attempt(step=0, past=0, varied=False), 0) if goal is not None else None
    if sample is not None and _elements(_shapes(sample)) > max(map(_elements, seen), default=0):
        seen.add(_shapes(sample))
        yield sample
    for step in range(STEPS):
        sample = deriver.towards(Goal(), Attempt(step=step, past=0, varied=False), step)
        if sample is None or _shapes(sample) in seen or _elements(_shapes(sample)) > most:
            continue
        seen.add(_shapes(sample))
        yield sample


def _shapes(sample: Feeds) -> Shapes:
    return tuple(value.shape for value in sample.values() if isinstance(value, np.ndarray))


def _elements(shapes: Shapes) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)
