"""Structure: subgraphs, their own weights, and the names they take from outside."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from tests.traps.base import Feed, Trap, model, trap, weight


def both_ways() -> list[Feed]:
    return [{"x": weight(2, 64, seed=7, scale=1.0), "c": np.array(way)} for way in (True, False)]


def _if(then: str, other: str, *, before: str = "", out: str = "p", out2: str = "q") -> str:
    return f"""g (float[2,64] x, bool c) => (float[2,64] y) {{ {before}
        y = If (c) <then_branch = t () => (float[2,64] {out}) {{ {then} }},
                    else_branch = e () => (float[2,64] {out2}) {{ {other} }}> }}"""


def if_same_names_in_branches() -> ModelProto:
    """The same names stand for other tensors in each branch: a table keyed by name mixes them up."""
    text = _if("p = MatMul(x, W)", "p = MatMul(x, W)", out2="p")
    return model(text, inside={"t": {"W": weight(64, 64, seed=1)}, "e": {"W": weight(64, 64, seed=2)}})


def if_equal_weights_in_branches() -> ModelProto:
    """Both branches store the same bytes; merging them means hoisting, or it breaks one branch."""
    same = weight(64, 64, seed=1)
    text = _if("p = MatMul(x, W)", "m = MatMul(x, V) q = Neg(m)")
    return model(text, inside={"t": {"W": same}, "e": {"V": same}})


def if_equal_weight_outside() -> ModelProto:
    """A branch repeats an outer weight under another name, and once as a Constant."""
    same = weight(64, 64, seed=1)
    text = _if("p = MatMul(x, V)", "m = MatMul(h, U) q = Neg(m)", before="h = MatMul(x, W)")
    return model(text, {"W": same}, inside={"t": {"V": same}, "e": {"U": same}})


def shadowed_name() -> ModelProto:
    """A branch has its own W beside the outer W, with other values, and the outer one is used too."""
    text = _if("p = MatMul(h, W)", "q = Neg(h)", before="h = MatMul(x, W)")
    return model(text, {"W": weight(64, 64, seed=1)}, inside={"t": {"W": weight(64, 64, seed=2)}})


def shadowed_name_captured_elsewhere() -> ModelProto:
    """As before, but the other branch takes the outer W: onnxruntime loads this and then misses W."""
    text = _if("p = MatMul(h, W)", "q = MatMul(h, W)", before="h = MatMul(x, W)")
    return model(text, {"W": weight(64, 64, seed=1)}, inside={"t": {"W": weight(64, 64, seed=2)}})


def shadowed_merge_target() -> ModelProto:
    """A equals B outside; the branch takes that B and has its own A: there B must not become A."""
    same = weight(64, 64, seed=1)
    text = _if("m = MatMul(h, B) p = MatMul(m, A)", "q = MatMul(h, B)", before="h = MatMul(x, A)")
    return model(text, {"A": same, "B": same}, inside={"t": {"A": weight(64, 64, seed=2)}})


def inner_name_used_later_outside() -> ModelProto:
    """A value inside a branch has the name that a later node of the main graph gives its own."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) {
        h = If (c) <then_branch = t () => (float[2,64] p) { k = MatMul(x, W) p = Neg(k) },
                    else_branch = e () => (float[2,64] q) { k = MatMul(x, V) q = Abs(k) }>
        k = MatMul(h, W) y = MatMul(k, V) }"""
    return model(text, {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2)})


def captured_only() -> ModelProto:
    """No node of the main graph uses W; two levels down one does, so W is not unused."""
    text = _if(
        "p = If (c) <then_branch = tt () => (float[2,64] r) { r = MatMul(x, W) }, "
        "else_branch = te () => (float[2,64] s) { s = Neg(x) }>",
        "q = MatMul(x, V)",
    )
    return model(
        text, {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2), "idle": weight(64, 64, seed=3)}
    )


def captured_before_use() -> ModelProto:
    """The first user of W sits in a branch of the first node: whatever computes W must come before that."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) {
        h = If (c) <then_branch = t () => (float[2,64] p) { p = MatMul(x, W) },
                    else_branch = e () => (float[2,64] q) { q = Neg(x) }>
        y = MatMul(h, W) }"""
    return model(text, {"W": weight(64, 64, seed=1)})


def captured_duplicates() -> ModelProto:
    """Equal outer weights, one used outside and the other only inside both branches."""
    same = weight(64, 64, seed=1)
    text = _if("p = MatMul(h, B)", "m = MatMul(h, B) q = Neg(m)", before="h = MatMul(x, A)")
    return model(text, {"A": same, "B": same})


def captured_value() -> ModelProto:
    """The branches use a computed value of the outer graph that no outer node uses: it is not dead."""
    text = _if("p = Add(h, x)", "q = Sub(h, x)", before="h = MatMul(x, W) dead = MatMul(x, V)")
    return model(text, {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2)})


def branch_output_is_weight() -> ModelProto:
    """A branch without nodes: its output is its own initializer, whose name and type must stay."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) {
        k = If (c) <then_branch = t () => (float[64,64] W) { }, else_branch = e () => (float[64,64] V) { }>
        y = MatMul(x, k) }"""
    same = weight(64, 64, seed=1)
    return model(text, {"U": same}, inside={"t": {"W": same}, "e": {"V": weight(64, 64, seed=2)}})


def if_constant_condition() -> ModelProto:
    """The condition is stored: one branch and its weights are dead, the other takes its place."""
    text = """g (float[2,64] x) => (float[2,64] y) {
        y = If (c) <then_branch = t () => (float[2,64] p) { p = MatMul(x, W) },
                    else_branch = e () => (float[2,64] q) { q = MatMul(x, V) }> }"""
    weights = {"c": np.array(False), "V": weight(64, 64, seed=2)}
    return model(text, weights, inside={"t": {"W": weight(64, 64, seed=1)}})


def nested_ifs() -> ModelProto:
    """Eight levels of subgraphs, a weight in the innermost and one taken through all of them."""
    inner = "r = MatMul(x, W) o8 = MatMul(r, V)"
    for level in range(8, 0, -1):
        other = f"n{level} () => (float[2,64] z{level}) {{ z{level} = Neg(x) }}"
        then = f"b{level} () => (float[2,64] o{level}) {{ {inner} }}"
        inner = f"o{level - 1} = If (c) <then_branch = {then}, else_branch = {other}>"
    text = f"g (float[2,64] x, bool c) => (float[2,64] o0) {{ {inner} }}"
    return model(text, {"W": weight(64, 64, seed=1)}, inside={"b8": {"V": weight(64, 64, seed=2)}})


LOOP = """g (float[2,64] x) => (float[2,64] y, float[3,2,64] steps) {{ {before}
    y, steps = Loop (three, go, x) <body = b (int64 i, bool keep, float[2,64] {state})
        => (bool again, float[2,64] next, float[2,64] step) {{ again = Identity(keep) {body} }}> }}"""
THREE = {"three": np.array(3, np.int64), "go": np.array(True)}


def loop_body() -> ModelProto:
    """Weights in a Loop's body and outside it; what is inserted in the body runs at every turn."""
    text = LOOP.format(before="", state="s", body="m = MatMul(s, W) next = MatMul(m, V) step = Neg(next)")
    weights = {**THREE, "W": weight(64, 64, seed=1)}
    return model(text, weights, inside={"b": {"V": weight(64, 64, seed=2)}})


def loop_local_duplicates() -> ModelProto:
    """The body repeats an outer weight under another name and takes an outer value."""
    same = weight(64, 64, seed=1)
    text = LOOP.format(before="h = MatMul(x, A)", state="s", body="next = MatMul(s, V) step = Add(next, h)")
    return model(text, {**THREE, "A": same}, inside={"b": {"V": same}})


def loop_state_named_like_a_weight() -> ModelProto:
    """The body's carried value has the name that an equal weight has outside."""
    same = weight(64, 64, seed=1)
    text = LOOP.format(before="h = MatMul(x, A)", state="A", body="next = MatMul(A, B) step = Add(next, h)")
    return model(text, {**THREE, "A": same, "B": same})


def loop_without_turns() -> ModelProto:
    """The trip count is an input: once it is 0, so the weights of the body are not used at all."""
    text = """g (float[2,64] x, int64 n) => (float[2,64] y) {
        y = Loop (n, go, x) <body = b (int64 i, bool keep, float[2,64] s) => (bool again, float[2,64] next)
            { again = Identity(keep) next = MatMul(s, W) }> }"""
    return model(text, {"go": np.array(True)}, inside={"b": {"W": weight(64, 64, seed=1)}})


def scan_body() -> ModelProto:
    """A Scan with a weight of its own, one from outside, and two that are equal."""
    same = weight(64, 64, seed=1)
    text = """g (float[5,64] x, float[64] s0) => (float[64] last, float[5,64] y) {
        last, y = Scan (s0, x) <num_scan_inputs = 1, body = b (float[64] s, float[64] e)
            => (float[64] next, float[64] out)
            { a = MatMul(s, W) d = MatMul(e, V) sum = Add(a, d) next = Tanh(sum) out = MatMul(next, U) }> }"""
    return model(text, {"W": same}, inside={"b": {"V": same, "U": weight(64, 64, seed=2)}})


def turns() -> list[Feed]:
    return [{"x": weight(2, 64, seed=7, scale=1.0), "n": np.array(n, np.int64)} for n in (3, 0)]


CONTROL_FLOW: tuple[Trap, ...] = (
    *(
        trap(make, feeds=both_ways)
        for make in (
            if_same_names_in_branches,
            if_equal_weights_in_branches,
            if_equal_weight_outside,
            shadowed_name,
            shadowed_merge_target,
            inner_name_used_later_outside,
            captured_only,
            captured_before_use,
            captured_duplicates,
            captured_value,
            branch_output_is_weight,
            nested_ifs,
        )
    ),
    trap(shadowed_name_captured_elsewhere, feeds=both_ways, runs=False),
    trap(if_constant_condition),
    trap(loop_body),
    trap(loop_local_duplicates),
    trap(loop_state_named_like_a_weight),
    trap(loop_without_turns, feeds=turns),
    trap(scan_body),
)
