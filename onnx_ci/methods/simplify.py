"""Simplifies the graph with onnxslim or onnxsim: what is constant is computed, what does nothing goes."""

from __future__ import annotations

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import Simplify
from onnx_ci.methods.outside import rewrite
from onnx_ci.methods.unfit import unfit, unpackable
from onnx_ci.model.container import Model


def apply(model: Model, options: Simplify) -> Applied:
    reason = unfit(model.proto) or unpackable(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    return rewrite(model, "simplify", {"engine": options.engine})
