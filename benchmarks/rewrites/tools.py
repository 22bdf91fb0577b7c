"""Rewrites made by tools: our exact methods, onnxruntime, onnxslim, onnxsim, onnxoptimizer and onnx_ir."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import peers
from harness import Contender, FailedRunError, run_once
from onnx import ModelProto

from onnx_ci import shrink
from rewrites.base import Rewrite

EXACT = ("dedupe", "drop-unused", "strip-docs", "fold-constants", "compact")
NAMES = ("onnxslim", "onnxsim", "onnxoptimizer", "onnx_ir")


def _method(name: str) -> Callable[[Path, ModelProto, Path], bool]:
    """What the method makes of it, unverified; False where it gains nothing and the model is as it was."""

    def write(source: Path, _: ModelProto, target: Path) -> bool:
        done = shrink(source, target, methods=[name], verify=False, cache=False)
        return done.model is not None and bool(done.outcome.written)

    return write


def _peer(name: str) -> Callable[[Path, ModelProto, Path], bool]:
    """What another tool writes, right or wrong: the truth tells. Some fail on some models."""

    def write(source: Path, _: ModelProto, target: Path) -> bool:
        try:
            run_once(Contender(name=name, command=peers.command(name, source, target), output=target))
        except FailedRunError:
            return False
        return True

    return write


def ort_basic(source: Path, _: ModelProto, target: Path) -> bool:
    """The graph that onnxruntime itself runs, written down: also where it is not smaller."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return True


PEERS = tuple(Rewrite(name=name, write=_peer(name)) for name in NAMES)
TOOLS = (
    *(Rewrite(name=name, write=_method(name)) for name in EXACT),
    *PEERS,
    Rewrite(name="onnxruntime, basic", write=ort_basic),
)
