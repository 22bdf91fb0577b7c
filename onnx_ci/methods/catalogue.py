"""All methods, mildest first: the one place where a method is registered.

Stages: below 20 what simplifies a graph (simplifiers would unpack stored encodings again), 20 to 39
exact clean-up, 40 to 59 methods that change the graph's arithmetic, 60 to 79 encodings of weights, the
strongest first (and exact ones last, for what those left or made), 80 and above what only moves bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_ci.methods.base import Method

METHODS = (
    Method(
        name="dedupe",
        fidelity="exact",
        summary="store identical tensors once: initializers, Constants, subgraphs",
        stage=20,
        options="Dedupe",
    ),
    Method(
        name="drop-unused",
        fidelity="exact",
        summary="remove nodes, weights and orphaned external bytes that no output needs",
        stage=24,
    ),
    Method(
        name="strip-docs",
        fidelity="exact",
        summary="remove doc strings and node metadata, never model metadata",
        stage=28,
    ),
    Method(
        name="fold-constants",
        fidelity="exact",
        summary="replace constant subgraphs where the result is not larger",
        stage=10,
    ),
    Method(
        name="compact",
        fidelity="exact",
        summary="tensors that a smaller form gives back bit for bit: few values, repeats, fp16- or int-exact",
        stage=76,
    ),
    Method(
        name="simplify",
        fidelity="exact*",
        summary="onnxslim or onnxsim, extra `simplify`",
        stage=4,
        options="Simplify",
    ),
    Method(
        name="optimize",
        fidelity="exact*",
        summary="onnxoptimizer passes, extra `simplify`",
        stage=6,
        options="Optimize",
    ),
    Method(
        name="ort-optimize",
        fidelity="exact*",
        summary="onnxruntime's own graph optimizations",
        stage=8,
        options="OrtOptimize",
        changes=("opset",),
    ),
    Method(
        name="fuse-transformer",
        fidelity="approximate",
        summary="onnxruntime's transformer optimizer: attention, normalization and GELU fused, extra `fuse`",
        stage=40,
        options="FuseTransformer",
        changes=("opset",),
    ),
    Method(
        name="dynamic-int8",
        fidelity="approximate",
        summary="onnxruntime dynamic quantization: matrix products computed in 8 bits",
        stage=44,
        options="DynamicInt8",
        changes=("opset",),
    ),
    Method(
        name="static-int8",
        fidelity="approximate",
        summary="onnxruntime static quantization, calibrated on the rule's samples",
        stage=48,
        options="StaticInt8",
        changes=("opset",),
        wants_feeds=True,
    ),
    Method(
        name="downcast",
        fidelity="approximate",
        summary="float64 to float32, int64 to int32, where types allow",
        stage=42,
        options="Downcast",
    ),
    Method(
        name="fp16-weights",
        fidelity="approximate",
        summary="weights stored as fp16, computed in float32",
        stage=68,
        options="Fp16Weights",
    ),
    Method(
        name="int8-weights",
        fidelity="approximate",
        summary="8-bit weights with a scale per channel, computed in float32",
        stage=64,
        options="Int8Weights",
    ),
    Method(
        name="int4-weights",
        fidelity="approximate",
        summary="4-bit weights with a scale per block, computed in float32",
        stage=60,
        options="Int4Weights",
        changes=("opset", "ir"),
    ),
    Method(
        name="float-levels",
        fidelity="approximate",
        summary="weights rounded to evenly spaced levels, kept as float32, for compressed size",
        stage=72,
        options="FloatLevels",
        gains="compressed",
    ),
    Method(
        name="round-mantissa",
        fidelity="approximate",
        summary="weights rounded to fewer mantissa bits, kept as float32, for compressed size",
        stage=76,
        options="RoundMantissa",
        gains="compressed",
    ),
    Method(
        name="external-data",
        fidelity="exact",
        summary="large tensors to a standard external data file, or back into the model",
        stage=80,
        options="ExternalData",
        gains="layout",
    ),
    Method(
        name="extract-npy",
        fidelity="changes inputs",
        summary="named or repeated constants to .npy files, fed as inputs",
        stage=84,
        options="ExtractNpy",
        gains="layout",
        changes=("inputs",),
    ),
)

_BY_NAME = {method.name: method for method in METHODS}


def method(name: str) -> Method:
    """The method of that name; a KeyError for any other name is a bug of the caller."""
    return _BY_NAME[name]


class Catalogue:
    """The catalogue as the policy sees it: names, and a check of options."""

    def names(self) -> Sequence[str]:
        return tuple(_BY_NAME)

    def check_options(self, name: str, options: Mapping[str, object]) -> None:
        if options:
            _BY_NAME[name].read_options(options)
