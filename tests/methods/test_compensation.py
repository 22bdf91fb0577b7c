"""Rounding that makes up for its own errors, and what it has to know: second moments, collected by the real
worker from the values that weights meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.gate.planner_trials import second_moments
from onnx_ci.methods.compensation import Moments, Steps, compensated, harm_left
from onnx_ci.methods.rounding import Array, levels_of, nearest_values
from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import Runner

ROWS, COLUMNS = 24, 40


def _correlated(rng: np.random.Generator, count: int) -> Array:
    """Inputs of which a few directions hold most: what layers really get."""
    mix = np.random.default_rng(5).normal(size=(6, COLUMNS))
    return rng.normal(size=(count, 6)) @ mix + 0.1 * rng.normal(size=(count, COLUMNS))


def _moments(inputs: Array, others: Array) -> Moments:
    fit, held_out = ((part.T @ part).astype(np.float32)[None, None] for part in (inputs, others))
    return Moments((1, ROWS, COLUMNS), turned=False, fit=fit, held_out=held_out)


def _plain(weight: Array) -> tuple[Array, Steps]:
    scale = np.broadcast_to(np.abs(weight).max(axis=1, keepdims=True), weight.shape).astype(np.float32)
    return nearest_values(weight / scale, 4), Steps(scale, None, lambda over: nearest_values(over, 4))


def test_errors_make_up_for_each_other_on_inputs_that_had_no_part() -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    plain, steps = _plain(weight)
    found = compensated(weight, plain, steps, _moments(_correlated(rng, 200), _correlated(rng, 50)))
    fresh = _correlated(rng, 500)
    errors = [np.square(fresh @ (weight - codes * steps.scale).T).sum() for codes in (plain, found)]
    assert errors[1] < errors[0] / 4
    assert set(np.unique(found)) <= set(levels_of(4))


def test_what_other_inputs_do_not_confirm_is_left_plain() -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    plain, steps = _plain(weight)
    unlike = rng.normal(size=(50, COLUMNS))
    assert compensated(weight, plain, steps, _moments(_correlated(rng, 9), unlike)) is plain


def test_what_is_left_of_the_harm_is_told_beforehand() -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    alike, unlike = (_moments(part(rng, 400), part(rng, 100)) for part in (_correlated, _independent))
    assert harm_left(weight, alike) < 0.3
    assert 0.7 < harm_left(weight, unlike) <= 1.0


def _independent(rng: np.random.Generator, count: int) -> Array:
    return rng.normal(size=(count, COLUMNS))


def _conv(**attributes: Any) -> tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    groups = attributes.get("group", 1)
    return "Conv", attributes, (2, 4, 9, 8), (6, 4 // groups, 3, 2)


PRODUCTS = {
    "MatMul": ("MatMul", {}, (2, 5, 4), (4, 3)),
    "Gemm": ("Gemm", {}, (5, 4), (4, 3)),
    "Gemm, transposed": ("Gemm", {"transA": 1, "transB": 1}, (4, 5), (3, 4)),
    "Conv": _conv(),
    "Conv, pads and strides": _conv(pads=[1, 0, 2, 1], strides=[2, 1]),
    "Conv, dilations": _conv(dilations=[2, 3]),
    "Conv, groups": _conv(group=2),
    "Conv, same upper": _conv(auto_pad="SAME_UPPER", strides=[2, 2]),
    "Conv, same lower": _conv(auto_pad="SAME_LOWER", strides=[2, 2]),
    "ConvTranspose": ("ConvTranspose", {"strides": [3, 2], "group": 2}, (2, 4, 3, 5), (4, 2, 3, 2)),
}


def _in_if(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The node where a condition holds, and its input squared where it does not."""
    taken, other = (
        helper.make_graph(
            [inner], "branch", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        )
        for inner in (node, helper.make_node("Mul", ["x", "x"], ["y"]))
    )
    holds = helper.make_node("Constant", [], ["holds"], value=numpy_helper.from_array(np.array(True)))
    return [holds, helper.make_node("If", ["holds"], ["y"], then_branch=taken, else_branch=other)]


def _in_loop(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The node in each of two rounds, of the input once and twice."""
    rounds, goes_on = (
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))
        for name, value in (("rounds", 2), ("more", True))
    )
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    inner.input[0] = "sum"
    body = helper.make_graph(
        [
            helper.make_node("Add", ["before", "x"], ["sum"]),
            inner,
            helper.make_node("Identity", ["going"], ["goes"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ],
    )
    zero = helper.make_node("Sub", ["x", "x"], ["zero"])
    return [
        rounds,
        goes_on,
        zero,
        helper.make_node("Loop", ["rounds", "more", "zero"], ["last", "y"], body=body),
    ]


PLACES = {"main graph": lambda node: [node], "If": _in_if, "Loop": _in_loop}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", PRODUCTS)
def test_moments_are_those_of_what_a_weight_meets(case: str, place: str, tmp_path: Path) -> None:
    """Whatever the operator, and wherever it is: the energy of what comes out is what the moments say."""
    op, attributes, given, shape = PRODUCTS[case]
    rng = np.random.default_rng(3)
    weight = rng.normal(size=shape).astype(np.float32)
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    graph = helper.make_graph(
        PLACES[place](node),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    feeds = [{"x": rng.normal(size=given).astype(np.float32)} for _ in range(4)]
    with open_model(path) as model, Runner() as runner:
        outputs = [sample["y"] for sample in runner.run(path, feeds, limits=Limits())]
        moments, products = second_moments(runner, model, {"w": shape}, feeds, tmp_path, limits=Limits())
    found = moments["w"]
    assert products > 0
    matrix = found.matrix(weight).astype(np.float64)
    for squares, ran in ((found.fit, outputs[:3]), (found.held_out, outputs[3:])):
        told = np.einsum("bcn,bcd,bdn->", matrix, squares.reshape(-1, *squares.shape[-2:]), matrix)
        assert told == pytest.approx(sum(np.square(one, dtype=np.float64).sum() for one in ran), rel=0.02)
    assert np.array_equal(found.tensor(found.matrix(weight), shape), weight)


@pytest.mark.parametrize(
    ("op", "given", "shape", "products"),
    [("MatMul", (5, 6), (6, 3), 5 * 18), ("Conv", (2, 3, 8, 8), (4, 3, 1, 1), 2 * 64 * 12)],
)
def test_what_a_run_multiplies_is_counted(
    op: str, given: tuple[int, ...], shape: tuple[int, ...], products: int, tmp_path: Path
) -> None:
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(shape, np.float32), "w")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    feeds = [{"x": np.ones(given, np.float32)}] * 4
    with open_model(path) as model, Runner() as runner:
        _, found = second_moments(runner, model, {"w": shape}, feeds, tmp_path, limits=Limits())
    assert found == products


def test_what_runs_in_other_sizes_each_round_leaves_the_main_graph_its_moments(tmp_path: Path) -> None:
    """A loop can't put out values of many shapes; the model is then run without what is in it."""
    rng = np.random.default_rng(3)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    nodes = [helper.make_node("MatMul", ["x", "v"], ["z"]), *_in_loop(node)]
    body = nodes[-1].attribute[0].g
    body.node[0].CopyFrom(helper.make_node("Concat", ["before", "x"], ["sum"], axis=0))
    del body.output[2:], nodes[-1].output[1:]
    nodes[-1].output[0] = "y"
    stored = [numpy_helper.from_array(rng.normal(size=(4, 4)).astype(np.float32), name) for name in "vw"]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
        stored,
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    feeds = [{"x": rng.normal(size=(5, 4)).astype(np.float32)} for _ in range(4)]
    shapes = {"v": (4, 4), "w": (4, 4)}
    with open_model(path) as model, Runner() as runner:
        assert list(second_moments(runner, model, shapes, feeds, tmp_path, limits=Limits())[0]) == ["v"]
