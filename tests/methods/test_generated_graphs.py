"""Generated graphs: opened and written they are the same, and exact methods keep every bit of outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.methods.catalogue import METHODS
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from tests.support.one_method import rewrite
from tests.support.run_model import identical, outputs

WIDTH = 16  # 16 x 16 floats are just large enough to be taken out of the skeleton
UNARY = ("Relu", "Tanh", "Neg", "Identity", "Abs")
BINARY = ("Add", "Mul", "Sub", "Max")
EXACT = [method.name for method in METHODS if method.fidelity == "exact"]
FEW = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Nodes in any order of use: some unused, with weights that are equal, constant, tiny, or in a branch."""
    values, nodes = ["x"], []
    weights = _weights(draw)
    for number in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["unary", "binary", "matmul", "constant", "if", "twice"]))
        name, last = f"v{number}", draw(st.sampled_from(values))
        if kind == "unary":
            nodes.append(helper.make_node(draw(st.sampled_from(UNARY)), [last], [name], doc_string="a node"))
        elif kind == "binary":
            other = draw(st.sampled_from([*values, *weights]))
            nodes.append(helper.make_node(draw(st.sampled_from(BINARY)), [last, other], [name]))
        elif kind == "matmul":
            nodes.append(helper.make_node("MatMul", [last, draw(st.sampled_from(list(weights)))], [name]))
        elif kind == "constant":
            held = draw(st.sampled_from(list(weights.values())))
            nodes.append(
                helper.make_node("Constant", [], [f"k{number}"], value=numpy_helper.from_array(held))
            )
            nodes.append(helper.make_node("Add", [last, f"k{number}"], [name]))
        elif kind == "if":
            nodes += _choice(draw, number, last, name, list(weights))
        else:
            nodes.append(helper.make_node("Transpose", [last], [f"t{number}"], perm=[1, 0]))
            nodes.append(helper.make_node("Transpose", [f"t{number}"], [name], perm=[1, 0]))
        values.append(name)
    results = draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=3, unique=True))
    graph = helper.make_graph(
        nodes,
        "generated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [WIDTH, WIDTH])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH, WIDTH]) for name in results],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _weights(draw: st.DrawFn) -> dict[str, np.ndarray]:
    found = {}
    for number in range(draw(st.integers(1, 4))):
        seed = draw(st.integers(0, 2))  # few of them: some weights are equal
        made = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH
        how = draw(st.sampled_from(["plain", "transposed", "half", "zero", "negative zero", "diagonal"]))
        made = {
            "plain": made,
            "transposed": np.ascontiguousarray(made.T),
            "half": made.astype(np.float16).astype(np.float32),
            "zero": np.zeros_like(made),
            "negative zero": -np.zeros_like(made),
            "diagonal": np.diag(np.diag(made)),
        }[how]
        found[f"w{number}"] = made
    return found


def _choice(draw: st.DrawFn, number: int, last: str, name: str, weights: list[str]) -> list[onnx.NodeProto]:
    """An If on a value of the graph, with branches that use what is outside."""
    branches = []
    for side in ("then", "else"):
        inner = f"{side}{number}"
        node = helper.make_node(
            draw(st.sampled_from(BINARY)), [last, draw(st.sampled_from(weights))], [inner]
        )
        shape = helper.make_tensor_value_info(inner, TensorProto.FLOAT, [WIDTH, WIDTH])
        branches.append(helper.make_graph([node], side, [], [shape]))
    total, zero, is_more = f"s{number}", f"z{number}", f"c{number}"
    nothing = numpy_helper.from_array(np.zeros((), np.float32))
    return [
        helper.make_node("ReduceSum", [last], [total], keepdims=0),
        helper.make_node("Constant", [], [zero], value=nothing),
        helper.make_node("Greater", [total, zero], [is_more]),
        helper.make_node("If", [is_more], [name], then_branch=branches[0], else_branch=branches[1]),
    ]


FEEDS = [
    {"x": np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype(np.float32)} for seed in range(2)
]


@contextmanager
def saved(model: onnx.ModelProto) -> Iterator[tuple[Path, Path]]:
    """The model as a file, and a place for what is made of it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.onnx")
        onnx.save(model, source)
        yield source, Path(folder, "out.onnx")


@FEW
@given(graphs())
def test_a_model_that_is_opened_and_written_is_the_same(model: onnx.ModelProto) -> None:
    with saved(model) as (source, target):
        with open_model(source) as opened:
            write_model(opened, target)
        assert onnx.load(target) == model


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EXACT)
def test_an_exact_method_keeps_every_bit(name: str) -> None:
    @FEW
    @given(graphs())
    def holds(model: onnx.ModelProto) -> None:
        with saved(model) as (source, target):
            rewrite(name, source, target)
            onnx.checker.check_model(str(target))
            assert identical(outputs(source, FEEDS), outputs(target, FEEDS))

    holds()
