"""Optimizes the graph with onnxoptimizer: ops are fused where the result is smaller or faster."""

from __future__ import annotations

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import Optimize
from onnx_ci.methods.outside import rewrite
from onnx_ci.methods.unfit import unfit, unpackable
from onnx_ci.model.container import Model


def apply(model: Model, options: Optimize) -> Applied:
    reason = unfit(model.proto) or unpackable(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    return rewrite(model, "optimize", {"passes": list(options.passes)})
