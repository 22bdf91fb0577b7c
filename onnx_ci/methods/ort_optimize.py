"""Keeps the graph that onnxruntime makes of the model when a session starts."""

from __future__ import annotations

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import OrtOptimize
from onnx_ci.methods.outside import rewrite
from onnx_ci.methods.unfit import unfit, unpackable
from onnx_ci.model.container import Model


def apply(model: Model, options: OrtOptimize) -> Applied:
    reason = unfit(model.proto) or unpackable(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    return rewrite(model, "ort_optimize", {"level": options.level})
