"""Structure: weights that are not initializers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tests.traps.base import Feed, Trap, constant, graph, model, rng, tensor, trap, weight


def constant_nodes() -> ModelProto:
    """Weights in Constant nodes, one equal to another and one equal to an initializer."""
    same = weight(64, 64, seed=1)
    top = graph(
        "g (float[2,64] x) => (float[2,64] y) { a = MatMul(x, W) b = MatMul(a, V) y = MatMul(b, U) }",
        {"U": same},
    )
    for name in "VW":
        top.node.insert(0, constant(name, same))
    return model(top)


def constant_in_branches() -> ModelProto:
    """Constants with the same name and other values in two branches, and one outside that both take."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) {
        y = If (c) <then_branch = t () => (float[2,64] p) { m = MatMul(x, W) p = MatMul(m, V) },
                    else_branch = e () => (float[2,64] q) { m = MatMul(x, W) q = MatMul(m, V) }> }"""
    top = graph(text)
    for seed, attribute in enumerate(top.node[0].attribute):
        attribute.g.node.insert(0, constant("W", weight(64, 64, seed=seed)))
    top.node.insert(0, constant("V", weight(64, 64, seed=0)))
    return model(top)


def constant_short_forms() -> ModelProto:
    """Constants given as value_float, value_floats, value_int and value_ints; the lists are long."""
    top = graph("""g (float[2,64] x) => (float[2,64] y, float[64,64] z) {
        W = Reshape(flat, square) a = MatMul(x, W) b = Mul(a, half) G = Gather(W, at) y = MatMul(b, G)
        H = Gather <axis = 1> (W, one) z = Add(W, H) }""")
    short: dict[str, dict[str, Any]] = {
        "flat": {"value_floats": weight(4096, seed=1).tolist()},
        "square": {"value_ints": [64, 64]},
        "half": {"value_float": 0.5},
        "one": {"value_ints": [1]},
        "at": {"value_ints": rng(2).permutation(64).tolist()},
    }
    for name, value in short.items():
        top.node.insert(0, helper.make_node("Constant", [], [name], **value))
    return model(top)


def constant_scalar_and_list_of_one() -> ModelProto:
    """value_float is a scalar and value_floats of one number is not: the output's rank tells them apart."""
    top = graph("""g (float[64] x) => (float y, float[1] z, int64 i, int64[1] j) {
        m = ReduceMean <keepdims = 0> (x) y = Mul(m, s) z = Mul(m, v) i = Add(k, k) j = Add(l, l) }""")
    short: dict[str, dict[str, Any]] = {
        "s": {"value_float": 3.0},
        "v": {"value_floats": [3.0]},
        "k": {"value_int": 3},
        "l": {"value_ints": [3]},
    }
    for name, value in short.items():
        top.node.insert(0, helper.make_node("Constant", [], [name], **value))
    return model(top)


def constant_strings() -> ModelProto:
    """Constants in value_string and value_strings form, and an attribute of bytes that are not text."""
    top = graph("g (int64[2] at) => (string[2] y, string z) { y = Gather(words, at) z = Identity(word) }")
    top.node.insert(0, helper.make_node("Constant", [], ["words"], value_strings=["a", "", "żółw", "b\n"]))
    top.node.insert(0, helper.make_node("Constant", [], ["word"], value_string="solo"))
    return model(top)


def constant_is_output() -> ModelProto:
    """A Constant's value is handed out and used, and an equal one is handed out too."""
    same = weight(64, 64, seed=1)
    top = graph("g (float[2,64] x) => (float[2,64] y, float[64,64] W, float[64,64] V) { y = MatMul(x, W) }")
    top.node.insert(0, constant("W", same))
    top.node.insert(0, constant("V", same))
    return model(top)


def sparse_constant() -> ModelProto:
    """A Constant in sparse form."""
    top = graph("g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }")
    top.node.insert(0, helper.make_node("Constant", [], ["W"], sparse_value=sparse("")))
    return model(top)


def sparse(name: str, *, seed: int = 1, pairs: bool = False) -> object:
    """A 64 by 64 sparse tensor of 1500 numbers; `pairs` gives coordinates in place of flat positions."""
    places = np.sort(rng(seed).choice(4096, 1500, replace=False))
    values = tensor(name, weight(1500, seed=seed))
    where = np.stack([places // 64, places % 64], axis=1) if pairs else places
    return helper.make_sparse_tensor(values, tensor("", where.astype(np.int64)), [64, 64])


def sparse_initializers() -> ModelProto:
    """Sparse initializers in both index forms, one of them twice, beside an equal dense one."""
    text = """g (float[2,64] x) => (float[2,64] y) { a = MatMul(x, W) b = MatMul(a, V) c = MatMul(b, U) y
        = Add(c, a) }"""
    made = model(text, {"dense": weight(64, 64, seed=3)})
    made.graph.sparse_initializer.extend([sparse("W"), sparse("V"), sparse("U", seed=2, pairs=True)])
    return made


def filled_constant() -> ModelProto:
    """ConstantOfShape keeps its value in an attribute tensor of one element, with and without a type."""
    top = graph("""g (float[2,64] x) => (float[2,64] y, int64[3] k) {
        W = ConstantOfShape(square) Z = ConstantOfShape(square) a = MatMul(x, W) b = Add(a, row) c =
        MatMul(b, Z)
        y = Add(c, b) k = ConstantOfShape(three) }""")
    top.initializer.extend(
        [tensor("square", np.array([64, 64], np.int64)), tensor("three", np.array([3], np.int64))]
    )
    top.initializer.append(tensor("row", np.full(64, 0.25, np.float32)))
    top.node[0].attribute.append(helper.make_attribute("value", tensor("", np.array([0.01], np.float32))))
    top.node[-1].attribute.append(helper.make_attribute("value", tensor("", np.array([9], np.int64))))
    return model(top)


def attribute_lists() -> ModelProto:
    """Large lists of numbers and strings in attributes of ai.onnx.ml nodes, where weights also live."""
    keys = [f"key {n}" for n in range(1500)]
    nodes = [
        helper.make_node(
            "LinearRegressor",
            ["x"],
            ["y"],
            domain="ai.onnx.ml",
            coefficients=weight(64 * 64, seed=1).tolist(),
            intercepts=weight(64, seed=2).tolist(),
            targets=64,
        ),
        helper.make_node(
            "LabelEncoder",
            ["word"],
            ["z"],
            domain="ai.onnx.ml",
            keys_strings=keys,
            values_floats=weight(1500, seed=3).tolist(),
        ),
    ]
    top = graph("g (float[2,64] x, string[3] word) => (float[2,64] y, float[3] z) { }")
    top.node.extend(nodes)
    return model(top, domains={"ai.onnx.ml": 3})


def words() -> list[Feed]:
    return [{"x": weight(2, 64, seed=7, scale=1.0), "word": np.array(["key 3", "key 1499", "none"], object)}]


def attribute_tensors() -> ModelProto:
    """Large tensors in attributes that are not called value: a label encoder's keys and values."""
    node = helper.make_node(
        "LabelEncoder",
        ["k"],
        ["z"],
        domain="ai.onnx.ml",
        keys_tensor=tensor("keys", np.arange(4096, dtype=np.int64)),
        values_tensor=tensor("values", weight(4096, seed=3)),
        default_tensor=tensor("default", np.array([0.0], np.float32)),
    )
    top = graph("g (int64[8] k) => (float[8] z) { }")
    top.node.append(node)
    return model(top, domains={"ai.onnx.ml": 4})


def string_weights() -> ModelProto:
    """String tensors have no raw bytes; two are equal, one differs only in the case of a letter."""
    lists = {"A": ["a", "b"] * 1024, "B": ["a", "b"] * 1024, "C": ["A", "b"] * 1024}
    top = graph("""g (int64[2] at, float[2,64] x) => (string[2] a, string[2] b, string[2] c, float[2,64] y)
        { a = Gather(A, at) b = Gather(B, at) c = Gather(C, at) y = MatMul(x, W) }""")
    for name, items in lists.items():
        data = [item.encode() for item in items]
        top.initializer.append(
            TensorProto(name=name, data_type=TensorProto.STRING, dims=[2048], string_data=data)
        )
    top.initializer.append(tensor("W", weight(64, 64, seed=1)))
    return model(top)


CONSTANTS: tuple[Trap, ...] = (
    trap(constant_nodes),
    trap(
        constant_in_branches, feeds=lambda: [{"x": words()[0]["x"], "c": np.array(c)} for c in (True, False)]
    ),
    trap(constant_short_forms),
    trap(constant_scalar_and_list_of_one),
    trap(constant_strings),
    trap(constant_is_output),
    trap(sparse_constant),
    trap(sparse_initializers),
    trap(filled_constant),
    trap(attribute_lists, feeds=words),
    trap(attribute_tensors),
    trap(string_weights),
)
