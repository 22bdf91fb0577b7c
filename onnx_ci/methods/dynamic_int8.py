"""Computes matrix products in 8 bits: weights are stored so, inputs are rounded as they come."""

from __future__ import annotations

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.options import DynamicInt8
from onnx_ci.methods.quantizers import quantized
from onnx_ci.methods.unfit import unfit
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import opset

MIN_OPSET = 11  # DynamicQuantizeLinear; onnxruntime would convert older models on the way
OPS = ("MatMul", "Gemm", "LSTM", "Attention")


def apply(model: Model, options: DynamicInt8) -> Applied:
    reason = unfit(model.proto)
    if not reason and opset(model.proto) < MIN_OPSET:
        reason = f"opset {opset(model.proto)} has no dynamic quantization, {MIN_OPSET} has"
    if reason:
        return Applied(0, f"left alone: {reason}")
    settings = {
        "ops": list(options.ops or OPS),
        "per_channel": options.per_channel,
        "reduce_range": options.reduce_range,
        "weight_type": options.weight_type,
    }
    return quantized(model, "dynamic_int8", settings, skip=options.skip)
