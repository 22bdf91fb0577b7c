"""onnxruntime's own graph optimizations, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime as ort

LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "layout": "ORT_ENABLE_ALL"}

TIES = {
    "basic": "",
    "extended": "runs in onnxruntime {} and what is compatible with it",
    "layout": "runs in onnxruntime {} on processors like this one only",
}


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    session = ort.SessionOptions()
    session.log_severity_level = 4
    session.intra_op_num_threads = 1
    session.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[options["level"]])
    session.optimized_model_filepath = str(target)
    ort.InferenceSession(str(source), session, providers=["CPUExecutionProvider"])
    return TIES[options["level"]].format(ort.__version__)
