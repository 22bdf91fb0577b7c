"""Running: models whose answer differs from run to run or with the number of threads, hidden well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, helper

from tests.traps.base import Trap, model, trap, weight

TREES = 300


def random_everywhere() -> ModelProto:
    """Random nodes that look constant, alike or unused, in branches, a loop and a function that is called
    twice: folding, merging or dropping one changes what the model draws."""
    text = """g (float[2,64] x) => (float[2,64] y, float[2,64] twins, float[4] fixed) {
        h = MatMul(x, W) n = RandomNormalLike(h) m = RandomNormalLike(h) twins = Sub(n, m)
        fixed = RandomUniform <shape = [4]> () idle = RandomNormal <shape = [3]> ()
        s = ReduceSum <keepdims = 0> (x) c = Greater(s, zero)
        b = If (c) <then_branch = t () => (float[2,64] p) { d = RandomNormalLike(h) p = Add(h, d) },
                    else_branch = e () => (float[2,64] p) { d = RandomUniformLike(h) p = Add(h, d) }>
        l = Loop (three, on, b) <body = r (int64 i, bool go, float[2,64] a) => (bool more, float[2,64] z)
            { more = Identity(go) u = RandomUniformLike(a) z = Add(a, u) }>
        f = local.Shake(l) y = local.Shake(f) }"""
    weights = {"W": weight(64, 64, seed=1, scale=1.0), "three": np.int64(3), "on": np.array(True)}
    made = model(text, {**weights, "zero": np.float32(0.0)}, domains={"local": 1})
    body = [helper.make_node("RandomNormalLike", ["v"], ["d"]), helper.make_node("Add", ["v", "d"], ["w"])]
    made.functions.append(
        helper.make_function("local", "Shake", ["v"], ["w"], body, [helper.make_opsetid("", 17)])
    )
    return made


def many_trees(order: Sequence[int] = range(TREES), *, flipped: int | None = None) -> ModelProto:
    """Decision trees with several targets: onnxruntime shares their sum out among threads, so that another
    number of threads gives other last bits, with nothing random in it. `order` and `flipped` are for
    models that are to differ from it."""
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((TREES, 2, 3)) * 10 ** generator.standard_normal((TREES, 2, 3))
    splits = generator.standard_normal(TREES)
    if flipped is not None:
        weights[flipped] *= -1
    places = [(tree, leaf, target) for tree in range(TREES) for leaf in (1, 2) for target in range(3)]
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=3,
        nodes_treeids=np.repeat(np.arange(TREES), 3).tolist(),
        nodes_nodeids=[0, 1, 2] * TREES,
        nodes_featureids=[number for tree in order for number in (tree % 8, 0, 0)],
        nodes_values=[number for tree in order for number in (float(splits[tree]), 0.0, 0.0)],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * TREES,
        nodes_truenodeids=[1, 0, 0] * TREES,
        nodes_falsenodeids=[2, 0, 0] * TREES,
        target_treeids=[tree for tree, _, _ in places],
        target_nodeids=[leaf for _, leaf, _ in places],
        target_ids=[target for _, _, target in places],
        target_weights=[float(weights[order[tree], leaf - 1, target]) for tree, leaf, target in places],
    )
    made = model("g (float[1,8] x) => (float[1,3] y) { }", domains={"ai.onnx.ml": 3})
    made.graph.node.append(node)
    return made


NOISY: tuple[Trap, ...] = (trap(random_everywhere, repeats=False), trap(many_trees))
