"""onnxruntime's dynamic quantization."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxruntime.quantization import QuantType, quantize_dynamic

from onnx_ci.model.proto import TensorProto
from onnx_ci.tools.files import LIMIT

TYPES = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}
SATURATES = "int8 weights of full range saturate on x86 processors without VNNI: other outputs there"


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    quantize(source, target, options)
    return SATURATES if options["weight_type"] == "int8" and not options["reduce_range"] else ""


def quantize(source: Path, target: Path, options: dict[str, Any], nodes: Sequence[str] = ()) -> None:
    """All that the options allow, or just the nodes of these names, wherever they are."""
    size = sum(file.stat().st_size for file in source.parent.glob(f"{source.name}*"))
    quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul" if op == "Gemm" else op for op in options["ops"]],
        nodes_to_quantize=list(nodes),
        per_channel=options["per_channel"],
        reduce_range=options["reduce_range"],
        weight_type=TYPES[options["weight_type"]],
        use_external_data_format=size > LIMIT,
        extra_options={"EnableSubgraph": True, "DefaultTensorType": TensorProto.FLOAT},
    )
