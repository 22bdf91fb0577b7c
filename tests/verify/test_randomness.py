"""Nodes that give another answer each run are found wherever they are."""

from __future__ import annotations

import pytest

from onnx_ci.verify.noise import random_nodes
from tests.support.text_models import model

BRANCHES = (
    "y = If(c) <then_branch = a () => (float[2] u) { u = RandomNormal<shape=[2]>() },"
    " else_branch = b () => (float[2] v) { v = Identity(x) }>"
)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("y = RandomNormal<shape=[2]>()", 1),
        ("y = RandomUniformLike(x)", 1),
        ("y = Bernoulli(x)", 1),
        ("y = RandomNormal<shape=[2], seed=1.0>()", 0),
        ("y = Relu(x)", 0),
        (BRANCHES, 1),
        ("y = Dropout(x)", 0),
        ("y = Dropout(x, r)", 0),
        ("y = Dropout(x, r, off)", 0),
        ("o = Constant<value=bool {0}>() y = Dropout(x, r, o)", 0),
        ("y = Dropout(x, r, c)", 1),
        ("y = Dropout<seed=3>(x, r, c)", 0),
    ],
)
def test_random_nodes(body: str, count: int) -> None:
    constants = "<float r = {0.5}, bool off = {0}, bool c = {1}>"
    proto = model(f"g (float[2] x) => (float[2] y) {constants} {{ {body} }}")
    assert len(random_nodes(proto)) == count


def test_in_a_function_and_by_name() -> None:
    proto = model(
        'g (float[2] x) => (float[2] y) { y = f.noise(x) }\n<domain: "f", opset_import: ["": 17]>'
        " noise (a) => (b) { b = RandomNormalLike(a) }",
        '<ir_version: 8, opset_import: ["": 17, "f": 1]>',
    )
    assert random_nodes(proto) == ["b (RandomNormalLike)"]
    proto.functions[0].node[0].name = "sampler"
    assert random_nodes(proto) == ["sampler (RandomNormalLike)"]
