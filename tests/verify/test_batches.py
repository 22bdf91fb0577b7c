"""A tolerance holds for every member of a batch: one that is broken does not hide among many that are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import compare
from onnx_ci.verify.compare import batched, members

WIDTH = 16


def product(weight: np.ndarray, *, symbol: str = "batch") -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [symbol, WIDTH])],
        [numpy_helper.from_array(weight.astype(np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_one_broken_member_of_a_large_batch_is_noticed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((WIDTH, WIDTH))
    wrong = weight.copy()
    wrong[0] += 0.5 * rng.standard_normal(WIDTH)
    x = rng.standard_normal((64, WIDTH)).astype(np.float32)
    x[:, 0] = 0  # only the last member has what the wrong row is for
    x[-1, 0] = 1
    np.savez(tmp_path / "batch.npz", x=x)
    samples = [str(tmp_path / "batch.npz")]
    whole = compare(product(weight), product(wrong), samples=samples, tolerance={"cosine": 0.999})
    assert whole.verdict == "outputs_changed"
    assert compare(product(weight), product(weight * 1.0001), samples=samples).verdict == "ok"
    a, b = (x.astype(np.float64) @ w for w in (weight, wrong))
    together = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    assert together > 0.999  # the whole would have passed


def test_what_is_a_batch() -> None:
    model = product(np.eye(WIDTH))
    one, two = np.ones((1, WIDTH)), np.ones((2, WIDTH))
    assert batched(model, [{"x": two}], [{"y": two}]) == {"y"}  # one symbol
    other = product(np.eye(WIDTH), symbol="unnamed")
    assert batched(other, [{"x": two}], [{"y": two}]) == frozenset()  # may be an accident
    assert batched(other, [{"x": one}, {"x": two}], [{"y": one}, {"y": two}]) == {"y"}
    assert batched(other, [{"x": one}, {"x": two}], [{"y": two}, {"y": two}]) == frozenset()


def test_members_that_are_rounding_beside_the_others_are_left_to_the_whole() -> None:
    before = np.ones((3, WIDTH))
    before[1] = 1e-9
    assert len(list(members(before, before))) == 2
    assert list(members(before[:, :2], before[:, :2])) == []
