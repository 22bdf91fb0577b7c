"""Compare feeds samples of several sizes: damage that shorter ones never reach is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import compare
from onnx_ci.inputs.generate import deriver_of, longest
from onnx_ci.policy.schema import InputSpec


def embedder(positions: np.ndarray) -> onnx.ModelProto:
    """Tokens and positions, as many as there are ids."""
    rng = np.random.default_rng(0)
    stored: dict[str, Any] = {
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


def test_what_only_longer_inputs_reach_is_looked_at() -> None:
    positions = np.random.default_rng(1).standard_normal((64, 16))
    wrong = positions.copy()
    wrong[40:] *= -1  # the usual samples have 16 and 32 ids
    found = compare(embedder(positions), embedder(wrong))
    assert found.verdict == "outputs_changed"
    assert found.verification.samples > 8


def test_the_last_position_of_a_table_is_looked_at() -> None:
    positions = np.random.default_rng(1).standard_normal((300, 16))
    wrong = positions.copy()
    wrong[280:] *= -3
    assert compare(embedder(positions), embedder(wrong)).verdict == "outputs_changed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p = Slice(t, zero, n)", 40),
        ("p = Slice(t, zero, n, zero)", 40),
        ("s = Squeeze(n) o = Range(z, s, i) p = Gather(t, o)", 40),
        ("s = Squeeze(n) o = Range(z, s, i) q = Gather(t, o) p0 = Slice(u, zero, n) p = Add(p0, q)", 30),
        ("p = Slice(t, zero, one)", None),
        ("p = Slice(v, zero, n)", 1024),
    ],
)
def test_the_smallest_table_says_how_long_inputs_may_be(text: str, expected: int | None) -> None:
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[B,S,2] x) => (float[B,S,2] y)'
    stored = "<int64[1] zero = {0}, int64[1] one = {1}, int64 z = {0}, int64 i = {1}>"
    body = f"{{ s0 = Shape(x) n = Gather(s0, one) {text} y = Add(x, p) }}"
    proto = onnx.parser.parse_model(f"{head} {stored} {body}")
    for name, rows in (("t", 40), ("u", 30), ("v", 5000)):
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros((rows, 2), np.float32), name))
    goal = longest(deriver_of(proto, InputSpec()))
    assert (goal.sizes if goal is not None else None) == ({("x", 1): expected} if expected else None)
    assert longest(deriver_of(proto, InputSpec(dims={"S": 4}))) is None
