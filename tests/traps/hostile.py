"""Running: models that kill, hang or starve the process that loads or runs them."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, helper

from tests.traps.base import Feed, Trap, model, trap, weight

W64 = {"W": weight(64, 64, seed=1)}
LOWEST = np.iinfo(np.int64).min


def crashes_at_load() -> ModelProto:
    """The lowest int64 divided by -1, both stored: on x86 folding it kills the process with SIGFPE."""
    text = "g (float[2,64] x) => (float[2,64] y, int64[2] z) { y = MatMul(x, W) z = Div(low, minus) }"
    return model(text, {**W64, "low": np.full(2, LOWEST, np.int64), "minus": np.array(-1, np.int64)})


def crashes_at_run() -> ModelProto:
    """The same division by an input: it kills the process only when it is fed that number."""
    text = (
        "g (float[2,64] x, int64[2] n) => (float[2,64] y, int64[2] z) { y = MatMul(x, W) z = Div(n, minus) }"
    )
    return model(text, {**W64, "minus": np.array(-1, np.int64)})


def lowest() -> list[Feed]:
    return [{"x": weight(2, 64, seed=7), "n": np.full(2, LOWEST, np.int64)}]


def hangs_at_load() -> ModelProto:
    """Thirty functions, each calling the one before twice: a billion nodes once inlined, the checker too."""
    made = model(
        "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = local.F30(h) }",
        W64,
        domains={"local": 1},
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for level in range(31):
        twice = [helper.make_node(f"F{level - 1}", [a], [b], domain="local") for a, b in ("xh", "hy")]
        body = twice if level else [helper.make_node("Neg", ["x"], ["y"])]
        made.functions.append(helper.make_function("local", f"F{level}", ["x"], ["y"], body, imports))
    return made


def hangs_at_run() -> ModelProto:
    """A Loop of 2^62 turns over stored values: it never ends, and whoever folds it never ends either."""
    text = """g (float[2,64] x) => (float[2,64] y) { V = Loop (n, go, W) <body = b (int64 i, bool keep,
        float[64,64] s)
        => (bool again, float[64,64] next) { again = Identity(keep) next = Sin(s) }> y = MatMul(x, V) }"""
    return model(text, {**W64, "n": np.array(2**62, np.int64), "go": np.array(True)})


def wants_all_memory() -> ModelProto:
    """4 TiB asked for at once, from a shape of one number."""
    text = """g (float[2,64] x) => (float[2,64] y) { e = ConstantOfShape(n) s = ReduceSum <keepdims = 0> (e)
        h = MatMul(x, W) y = Add(h, s) }"""
    return model(text, {**W64, "n": np.array([2**40], np.int64)})


def eats_memory() -> ModelProto:
    """A tensor that doubles at each of 60 turns. Run it under a limit of memory only."""
    text = """g (float[2,64] x) => (float[n] y) { f = Reshape(x, flat) y = Loop (turns, go, f)
        <body = b (int64 i, bool keep, float[k] s) => (bool again, float[l] next)
        { again = Identity(keep) next = Concat <axis = 0> (s, s) }> }"""
    ints = {"flat": np.array([-1], np.int64), "turns": np.array(60, np.int64)}
    return model(text, {**W64, **ints, "go": np.array(True)})


def fails_at_run() -> ModelProto:
    """It loads, and each run ends in an error: an index past the table."""
    text = "g (float[2,64] x) => (float[2,64] y) { r = Gather(W, at) y = Add(x, r) }"
    return model(text, {**W64, "at": np.array([999], np.int64)})


HOSTILE: tuple[Trap, ...] = (
    trap(crashes_at_load, runs=False),
    trap(crashes_at_run, runs=False, feeds=lowest),
    trap(hangs_at_load, runs=False, checks=False),  # the checker would hang as well
    trap(hangs_at_run, runs=False),
    trap(wants_all_memory, runs=False),
    trap(eats_memory, runs=False),
    trap(fails_at_run, runs=False),
)
