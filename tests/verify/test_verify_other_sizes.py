"""Compare feeds samples of several sizes: damage that shorter ones never reach is found."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import compare


def embedder(positions: np.ndarray) -> onnx.ModelProto:
    """Tokens and positions, as many as there are ids."""
    rng = np.random.default_rng(0)
    stored = {
        "tokens": rng.standard_normal((50, 16)).astype(np.float32),
        "positions": positions.astype(np.float32),
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["tokens", "ids"], ["read"]),
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Slice", ["positions", "zero", "length"], ["places"]),
        helper.make_node("Add", ["read", "places"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 16])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_only_longer_inputs_reach_is_looked_at():
    positions = np.random.default_rng(1).standard_normal((64, 16))
    wrong = positions.copy()
    wrong[40:] *= -1  # the usual samples have 16 and 32 ids
    found = compare(embedder(positions), embedder(wrong))
    assert found.verdict == "outputs_changed"
    assert found.verification.samples > 8
