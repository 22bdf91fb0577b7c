"""onnxruntime's own graph optimizations, written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort

from onnx_ci.tools.repeat import MOST

LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "layout": "ORT_ENABLE_ALL"}

TIES = {
    "basic": "",
    "extended": "runs in onnxruntime {} and what is compatible with it",
    "layout": "runs in onnxruntime {} on processors like this one only",
}


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    optimized(source, target, options["level"])
    _settle(target, options["level"])
    return TIES[options["level"]].format(ort.__version__)


def _settle(target: Path, level: str) -> None:
    """Once more, until it gets no smaller: constants that one run computes only the next one shares."""
    again = target.with_name("again.onnx")
    for _ in range(MOST - 1):
        optimized(target, again, level)
        if again.stat().st_size >= target.stat().st_size:
            break
        again.replace(target)
    again.unlink(missing_ok=True)


def optimized(source: Path, target: Path, level: str, *, without: Sequence[str] = ()) -> None:
    """Write what onnxruntime makes of a model, `without` some of its optimizers."""
    session = ort.SessionOptions()
    session.log_severity_level = 4
    session.intra_op_num_threads = 1
    session.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    session.optimized_model_filepath = str(target)
    providers = ["CPUExecutionProvider"]
    ort.InferenceSession(str(source), session, providers=providers, disabled_optimizers=list(without))
