"""Small models for tests that need one with something to save, or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def bloated(*, width: int = 64, layers: int = 4, seed: int = 0, scale: float = 1.0) -> onnx.ModelProto:
    """Every layer has its own copy of one weight: dedupe saves most of the file."""
    weight = np.random.default_rng(seed).standard_normal((width, width)) / np.sqrt(width) * scale
    return _chain([weight.astype(np.float32)] * layers, width)


def lean(*, width: int = 64, layers: int = 2, seed: int = 0) -> onnx.ModelProto:
    """Nothing is stored twice or unused: exact methods have nothing to do."""
    random = np.random.default_rng(seed)
    weights = [random.standard_normal((width, width)) / np.sqrt(width) for _ in range(layers)]
    return _chain([weight.astype(np.float32) for weight in weights], width)


def narrow(width: int = 128, rank: int = 8) -> onnx.ModelProto:
    """All that its second weight meets comes through a few directions of the first."""
    random = np.random.default_rng(0)
    first = random.standard_normal((width, rank)) @ random.standard_normal((rank, width)) / 60
    second = random.standard_normal((width, width)) / np.sqrt(width)
    return _chain([first.astype(np.float32), second.astype(np.float32)], width)


def _chain(weights: list[np.ndarray], width: int) -> onnx.ModelProto:
    nodes, last = [], "x"
    for number in range(len(weights)):
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"m{number}"]))
        nodes.append(helper.make_node("Tanh", [f"m{number}"], [f"h{number}"]))
        last = f"h{number}"
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", width])],
        [numpy_helper.from_array(weight, f"w{number}") for number, weight in enumerate(weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save_outside(model: onnx.ModelProto, path: Path) -> None:
    """All weights in a data file that is called after the model."""
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)  # onnx would add to it
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
