"""What holds on some inputs is tried on others, on many where it was near the limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import compare
from onnx_ci.gate.single import make_samples
from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import InputSpec, Rule
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.prove import Prover
from onnx_ci.verify.verifier import MANY

pytestmark = pytest.mark.sampled(2)


def network(*, off: float = 0.0, seed: int = 4, width: int = 32) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    first, second = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, width)))
    second = second + off * rng.standard_normal(second.shape).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["kept"]),
            helper.make_node("MatMul", ["kept", "second"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_is_near_the_limit_has_to_hold_on_many_more_inputs(tmp_path: Path) -> None:
    for name, off in (("a", 0.0), ("b", 0.03)):
        onnx.save(network(off=off), tmp_path / f"{name}.onnx")
    pair = (tmp_path / "a.onnx", tmp_path / "b.onnx")
    loose = compare(*pair, tolerance={"cosine": 0.5})
    assert loose.verdict == "ok"
    seen = loose.verification.outputs[0].cosine
    assert loose.verification.samples < 20

    near = compare(*pair, tolerance={"cosine": seen - 1e-7})
    assert near.verdict == "outputs_changed"
    assert near.verification.reason.startswith("on further inputs, output 'y': cosine")
    assert near.verification.samples == 8 + 8 + MANY

    far = compare(*pair, tolerance={"cosine": 1 - 8 * (1 - seen)})
    assert (far.verdict, far.verification.samples) == ("ok", loose.verification.samples)


def test_an_output_of_few_numbers_has_to_hold_on_many_more_inputs(tmp_path: Path) -> None:
    """Of one number an input, a few inputs say next to nothing."""
    for name, off in (("a", 0.0), ("b", 0.001)):
        onnx.save(network(off=off, width=2), tmp_path / f"{name}.onnx")
    found = compare(tmp_path / "a.onnx", tmp_path / "b.onnx", tolerance={"cosine": 0.5})
    assert (found.verdict, found.verification.samples) == ("ok", 8 + 8 + MANY)


def test_samples_of_the_user_are_all_there_is(tmp_path: Path) -> None:
    for name, off in (("a", 0.0), ("b", 0.03)):
        onnx.save(network(off=off), tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "s.npz", x=np.random.default_rng(1).standard_normal((1, 16)).astype(np.float32))
    given = tmp_path / "s.npz"
    found = compare(tmp_path / "a.onnx", tmp_path / "b.onnx", tolerance={"cosine": 0.5}, samples=given)
    limit = found.verification.outputs[0].cosine - 1e-7
    near = compare(tmp_path / "a.onnx", tmp_path / "b.onnx", tolerance={"cosine": limit}, samples=given)
    assert (near.verdict, near.verification.samples) == ("ok", 1)


def test_what_stands_beside_samples_is_chosen_as_without_them(tmp_path: Path) -> None:
    """Few inputs have to tell much, so they are chosen from more."""
    path = tmp_path / "m.onnx"
    onnx.save(network(), path)
    np.savez(tmp_path / "sample.npz", x=np.ones((1, 16), np.float32))
    alone = make_samples(path, InputSpec(count=4)).samples
    rule = Rule(pattern="m.onnx", inputs=InputSpec(samples=("sample.npz",), count=4))
    with open_model(path) as model, Runner() as runner:
        own, *beside = Prover(rule, model, runner, tmp_path, home=tmp_path).planning.feeds()
    assert np.array_equal(np.asarray(own["x"]), np.ones((1, 16), np.float32))
    assert [np.asarray(one["x"]).tolist() for one in beside] == [
        np.asarray(one["x"]).tolist() for one in alone
    ]


def test_beside_samples_stands_what_they_have_in_another_order(tmp_path: Path) -> None:
    """What is one-hot in every sample is never fed in any other way."""
    proto = network()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(proto, tmp_path / "m.onnx")
    np.savez(tmp_path / "sample.npz", x=np.eye(16, dtype=np.float32))
    rule = Rule(pattern="m.onnx", inputs=InputSpec(samples=("sample.npz",), count=4))
    with open_model(tmp_path / "m.onnx") as model, Runner() as runner:
        beside = Prover(rule, model, runner, tmp_path, home=tmp_path).planning.feeds()[1:]
    assert beside
    for sample in beside:
        rows = np.asarray(sample["x"])
        assert rows.shape[1:] == (16,)
        if len(rows) > 1:
            assert sorted(np.unique(rows)) == [0, 1]
            assert (rows.sum(axis=1) == 1).all()


def test_one_place_is_drawn_number_by_number(tmp_path: Path) -> None:
    """A row of a table gets each number from one of the samples, at its place."""
    onnx.save(network(), tmp_path / "m.onnx")
    columns = np.arange(16, dtype=np.float32)
    for number in range(8):
        np.savez(tmp_path / f"sample-{number}.npz", x=(columns + number / 10)[None])
    rule = Rule(pattern="m.onnx", inputs=InputSpec(samples=("sample-*.npz",), count=4))
    with open_model(tmp_path / "m.onnx") as model, Runner() as runner:
        beside = Prover(rule, model, runner, tmp_path, home=tmp_path).planning.feeds()[8:]
    assert beside
    for sample in beside:
        row = np.asarray(sample["x"])[0]
        assert (np.floor(row) == columns).all()
        assert len(np.unique(np.round(row - columns, 1))) > 1
