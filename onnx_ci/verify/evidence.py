"""What an output can tell of weights: nothing if it echoes an input or is constant, little if saturated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from onnx_ci.verify.compare import Outputs
from onnx_ci.verify.dtypes import Array, is_float
from onnx_ci.verify.metrics import identical

_ENDS = 1e-6  # as near to 0, 1 or -1 as float32 can tell in a sum


def is_saturated(values: Array) -> bool:
    """A sigmoid, tanh or softmax driven to its ends: it stays there while weights change a lot."""
    if not is_float(values.dtype) or values.size == 0:
        return False
    flat = np.abs(values.reshape(-1).astype(np.float64))
    at_ends = (np.abs(flat - 1.0) <= _ENDS) | (flat <= _ENDS)
    return bool(at_ends.all() and (flat > _ENDS).any())


def is_graded(outputs: Outputs) -> bool:
    """Whether any output has values in between: all others are equal or wrong, however near."""
    names = dict.fromkeys(name for sample in outputs for name in sample)
    return any(_is_graded([sample[name] for sample in outputs if name in sample]) for name in names)


def _is_graded(arrays: Sequence[Array]) -> bool:
    return is_float(arrays[0].dtype) and not all(is_saturated(one) or one.size == 0 for one in arrays)


def kind_of(name: str, outputs: Outputs, feeds: Sequence[Mapping[str, Any]], *, moved: bool) -> str:
    """The kind of one output; one that moved when weights were damaged can only be saturated."""
    arrays = [sample[name] for sample in outputs if name in sample]
    if not any(array.size for array in arrays):
        return "empty"
    saturated = is_float(arrays[0].dtype) and not _is_graded(arrays)
    if moved:
        return "saturated" if saturated else ""
    if is_float(arrays[0].dtype) and all(bool(np.isnan(array).all()) for array in arrays):
        return "nan"
    if _echoed(name, outputs, feeds):
        return "echo"
    alike = len(arrays) > 1 and all(np.array_equal(one, other) for one, other in pairwise(arrays))
    if saturated and not (alike and np.ptp(arrays[0]) == 0):
        return "saturated"
    return "constant" if alike else "not reached"


def _echoed(name: str, outputs: Outputs, feeds: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the inputs comes out again in every sample, in whatever shape."""
    pairs = [(sample[name], feed) for sample, feed in zip(outputs, feeds, strict=True) if name in sample]
    candidates = set.intersection(*(set(feed) for _, feed in pairs))
    return any(all(_same(out, feed[given]) for out, feed in pairs) for given in candidates)


def _same(output: Array, given: Any) -> bool:
    if not isinstance(given, np.ndarray) or given.size != output.size:
        return False
    return identical(output.reshape(-1), given.reshape(-1))
