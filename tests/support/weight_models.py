"""Models with one weight of a kind, and what became of it: shared by the tests of the weight methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Chained, Run, run_chain
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from tests.support.run_model import outputs

Array = np.ndarray[Any, np.dtype[Any]]


def weights_model(weights: dict[str, Array], *, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    """One output for each weight: the weight itself, added to a zero that the caller gives."""
    graph = helper.make_graph(
        [helper.make_node("Add", [name, "zero"], [f"{name}_out"]) for name in weights],
        "weights",
        [helper.make_tensor_value_info("zero", TensorProto.FLOAT, [1])],
        [
            helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, w.shape)
            for name, w in weights.items()
        ],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def applied(model: onnx.ModelProto, folder: Path, name: str, **options: object) -> tuple[Path, Chained]:
    """The model after one method, written beside the original."""
    source, target = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, source)
    with open_model(source) as opened:
        chained = run_chain(opened, [Run(method(name), options)], size=source.stat().st_size)
        write_model(chained.model, target)
    return target, chained


def rebuilt(path: Path) -> list[Array]:
    """The weights as a session sees them."""
    return [np.asarray(out) for out in outputs(path, [{"zero": np.zeros(1, np.float32)}])[0]]


def sqnr(wanted: Array, found: Array) -> float:
    noise = np.sum((wanted.astype(np.float64) - found) ** 2)
    return float(10 * np.log10(np.sum(wanted.astype(np.float64) ** 2) / max(noise, 1e-30)))


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def ops_that_run(path: Path) -> list[str]:
    """What is left of the graph once onnxruntime has loaded it."""
    optimized = path.with_suffix(".loaded.onnx")
    settings = onnxruntime.SessionOptions()
    settings.optimized_model_filepath = str(optimized)
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return ops(optimized)
