"""The demo's model: a small encoder whose shared weights were written once for every layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, INNER, LAYERS = 2000, 64, 256, 12


def write_demo_model(path: Path) -> None:
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(_matrix(random, VOCABULARY, WIDTH), "embedding")]
    shared = _matrix(random, WIDTH, INNER), _matrix(random, INNER, WIDTH)
    nodes = [helper.make_node("Gather", ["embedding", "tokens"], ["layer0"])]
    for layer in range(LAYERS):
        # One pair of matrices serves all layers; each layer has its own copy, as exporters do it.
        weights += [numpy_helper.from_array(matrix, f"w{layer}_{i}") for i, matrix in enumerate(shared)]
        nodes += _layer(layer)
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("encoded", TensorProto.FLOAT, ["batch", "sequence", WIDTH])],
        weights,
    )
    graph.node[-1].output[0] = "encoded"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def _layer(number: int) -> list[onnx.NodeProto]:
    inner, active, moved = f"inner{number}", f"active{number}", f"moved{number}"
    return [
        helper.make_node("MatMul", [f"layer{number}", f"w{number}_0"], [inner]),
        helper.make_node("Tanh", [inner], [active]),
        helper.make_node("MatMul", [active, f"w{number}_1"], [moved]),
        helper.make_node("Add", [f"layer{number}", moved], [f"layer{number + 1}"]),
    ]


Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


def _matrix(random: np.random.Generator, rows: int, columns: int) -> Matrix:
    values: Matrix = (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
    return values
