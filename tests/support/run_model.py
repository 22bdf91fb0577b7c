"""Runs models in this process, for tests that are about models and not about the worker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from onnx_ci.model.npy import recorded

onnxruntime.set_default_logger_severity(4)
Feed = dict[str, np.ndarray[Any, np.dtype[Any]]]


def outputs(path: Path, feeds: Iterable[Feed]) -> list[list[Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # starting and ending a second one takes longer than these models do
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def fed(feeds: Iterable[Feed], path: Path) -> list[Feed]:
    """The feeds with what was taken out of a model and lies beside it."""
    files = recorded(onnx.load(path, load_external_data=False))
    beside = {name: np.load(path.parent / file) for name, file in files.items()}
    return [{**feed, **beside} for feed in feeds]


def identical(one: Any, other: Any) -> bool:
    """Same type, same shape, same bits: NaN equals itself, -0.0 does not equal 0.0."""
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[key], other[key]) for key in one)
    first, second = np.asarray(one), np.asarray(other)
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return first.tolist() == second.tolist() if first.dtype == object else first.tobytes() == second.tobytes()
