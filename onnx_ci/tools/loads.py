"""Whether onnxruntime accepts what a tool wrote: some write graphs whose types don't fit."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort

from onnx_ci.child.serve import runtime_errors

ort.disable_telemetry_events()


def refuse_broken(source: Path, target: Path) -> None:
    """A RuntimeError where the result does not load although the model did."""
    problem = _problem(target)
    if problem and not _problem(source):
        raise RuntimeError(f"what it made of the model does not load: {problem}")


def _problem(path: Path) -> str:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except runtime_errors(RuntimeError) as error:
        return str(error) or type(error).__name__
    return ""
