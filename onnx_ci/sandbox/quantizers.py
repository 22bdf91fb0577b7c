"""onnxruntime's quantizers; loaded in a child process only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import version_converter
from onnxruntime import quantization

from onnx_ci.model.graph import all_names, all_nodes, fresh_name, nested, opset
from onnx_ci.model.proto import HANDED_LIMIT, TensorProto
from onnx_ci.sandbox.optimizers import load, save

TYPES = {"uint8": quantization.QuantType.QUInt8, "int8": quantization.QuantType.QInt8}
SATURATES = "int8 weights of full range saturate on x86 processors without VNNI: other outputs there"

SIGNED = "DynamicQuantizeLSTM"
PER_AXIS = 13  # the first opset whose DequantizeLinear has scales per channel
PRODUCTS = ("MatMul", "Gemm")
CALIBRATIONS = {method.name.lower(): method for method in quantization.CalibrationMethod}


def dynamic_int8(source: Path, target: Path, options: dict[str, Any]) -> str:
    """onnxruntime's dynamic quantization."""
    _quantize_dynamically(source, target, options)
    if options["reduce_range"]:
        return ""
    made = onnx.load(target, load_external_data=False)
    # Those of an LSTM are signed, whatever is asked for.
    signed = options["weight_type"] == "int8" or any(node.op_type == SIGNED for node in all_nodes(made))
    return SATURATES if signed else ""


def _quantize_dynamically(
    source: Path, target: Path, options: dict[str, Any], nodes: Sequence[str] = ()
) -> None:
    """All that the options allow, or just the nodes of these names, wherever they are."""
    size = sum(file.stat().st_size for file in source.parent.glob(f"{source.name}*"))
    quantization.quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul" if op == "Gemm" else op for op in options["ops"]],
        nodes_to_quantize=list(nodes),
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        weight_type=TYPES[options["weight_type"]],
        use_external_data_format=size > HANDED_LIMIT,
        extra_options={"EnableSubgraph": True, "DefaultTensorType": TensorProto.FLOAT},
    )


class SampleReader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Samples from their files, as many at a time as the calibrator asks for."""

    def __init__(self, files: list[dict[str, str]]) -> None:
        self.files = files
        self.set_range(0, len(files))

    def __len__(self) -> int:
        return len(self.files)

    def set_range(self, start_index: int, end_index: int) -> None:
        self.left: Iterator[dict[str, str]] = iter(self.files[start_index:end_index])

    def get_next(self) -> dict[str, Any] | None:
        sample = next(self.left, None)
        return None if sample is None else {name: _read(file) for name, file in sample.items()}


def _read(file: str) -> Any:
    array = np.load(file, allow_pickle=False)
    return array.astype(object) if array.dtype.kind == "U" else array


def static_int8(source: Path, target: Path, options: dict[str, Any]) -> str:
    """onnxruntime's static quantization, one sample in memory at a time."""
    model = _prepared(load(source), options)
    prepared, measured = source.with_name("prepared.onnx"), source.with_name("measured.onnx")
    save(model, prepared)
    inner = _inner_products(model, options["ops"])
    onnxruntime.set_seed(0)  # random nodes must not give other ranges, so another model, each time
    quantization.quantize_static(
        prepared,
        measured if inner else target,
        SampleReader(options["samples"]),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=options["ops"],
        nodes_to_exclude=_kept(model),
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        weight_type=TYPES[options["weight_type"]],
        activation_type=TYPES[options["activation_type"]],
        calibrate_method=CALIBRATIONS[options["calibration"]],
        use_external_data_format=model.ByteSize() > HANDED_LIMIT,
        extra_options={"CalibStridedMinMax": 1, "MatMulConstBOnly": True, "WeightSymmetric": True},
    )
    if inner:
        _quantize_dynamically(measured, target, {**options, "ops": ["MatMul"]}, inner)
    return ""


def _inner_products(model: onnx.ModelProto, ops: list[str]) -> list[str]:
    """Matrix products in branches and loops: ranges there are taken at each inference."""
    graphs = [body for body in nested(model.graph) if body is not model.graph]
    products = set(PRODUCTS).intersection(ops)
    return [node.name for body in graphs for node in body.node if node.op_type in products]


def _prepared(model: onnx.ModelProto, options: dict[str, Any]) -> onnx.ModelProto:
    """At an opset with scales per channel, and with a name for every node: nodes are left out by name."""
    if options["per_channel"] and opset(model) < PER_AXIS:
        model = version_converter.convert_version(model, PER_AXIS)
    nodes = list(all_nodes(model))
    taken = {node.name for node in nodes} | all_names(model)
    for node in nodes:
        node.name = node.name or fresh_name("n", taken)
    return model


def _kept(model: onnx.ModelProto) -> list[str]:
    """Nodes whose weights are Constants: those are the ones that must not be rounded."""
    constants = {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    return [node.name for node in model.graph.node if constants.intersection(node.input[1:2])]
