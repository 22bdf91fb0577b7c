"""onnxruntime's static quantization, one sample in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import version_converter
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from onnx_ci.model.graphs import all_names, fresh_name, opset
from onnx_ci.tools.files import LIMIT, load, save

PER_AXIS = 13  # the first opset whose DequantizeLinear has scales per channel
TYPES = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}


class Samples(CalibrationDataReader):  # type: ignore[misc]
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


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    model = _prepared(load(source), options)
    prepared = source.with_name("prepared.onnx")
    save(model, prepared)
    quantize_static(
        prepared,
        target,
        Samples(options["samples"]),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=options["ops"],
        nodes_to_exclude=_kept(model),
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        weight_type=TYPES[options["weight_type"]],
        activation_type=TYPES[options["activation_type"]],
        calibrate_method=METHODS[options["calibration"]],
        use_external_data_format=model.ByteSize() > LIMIT,
        extra_options={"CalibStridedMinMax": 1, "MatMulConstBOnly": True, "WeightSymmetric": True},
    )
    return ""


def _prepared(model: onnx.ModelProto, options: dict[str, Any]) -> onnx.ModelProto:
    """At an opset with scales per channel, and with a name for every node: nodes are left out by name."""
    if options["per_channel"] and opset(model) < PER_AXIS:
        model = version_converter.convert_version(model, PER_AXIS)
    taken = {node.name for node in model.graph.node} | all_names(model)
    for node in model.graph.node:
        node.name = node.name or fresh_name("n", taken)
    return model


def _kept(model: onnx.ModelProto) -> list[str]:
    """Nodes whose weights are Constants: those are the ones that must not be rounded."""
    constants = {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    return [node.name for node in model.graph.node if constants.intersection(node.input[1:2])]
