"""fold-constants: results are onnxruntime's to the bit, and nothing that is stored small is unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support.cli import onnx_ci
from tests.support.one_method import run_method
from tests.support.run_model import identical, outputs
from tests.traps.base import Weight, constant, graph, model, rng, weight

A = weight(8, 16, seed=1)
A[2, 3], A[4, 5], A[6, 7] = -0.0, np.inf, np.nan
INTS = rng(1).integers(-9, 9, (8, 16))
SMALL = np.array([3, 4, 5], np.int64)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def weights(**more: Weight) -> dict[str, Weight]:
    return {"A": A, "I": INTS, "S": SMALL, **more}


# What is computed, of what type and shape it is, what it needs, and in which opset.
FOLDED = {
    "Identity": ("k = Identity(A)", "float[8,16]", weights(), 17),
    "Reshape": ("k = Reshape(A, s)", "float[4,32]", weights(s=numbers(4, -1)), 17),
    "Reshape with a zero": ("k = Reshape(A, s)", "float[8,2,8]", weights(s=numbers(0, 2, -1)), 17),
    "Flatten": ("k = Flatten<axis = -1>(A)", "float[8,16]", weights(), 17),
    "Squeeze": ("k = Squeeze(B, s)", "float[8,16]", weights(B=A[:, None], s=numbers(-2)), 17),
    "Squeeze all": ("k = Squeeze(B)", "float[8,16]", weights(B=A[None, :, None]), 17),
    "Squeeze by attribute": ("k = Squeeze<axes = [1]>(B)", "float[8,16]", weights(B=A[:, None]), 11),
    "Unsqueeze": ("k = Unsqueeze(A, s)", "float[1,8,16,1]", weights(s=numbers(0, -1)), 17),
    "Unsqueeze by attribute": ("k = Unsqueeze<axes = [0]>(A)", "float[1,8,16]", weights(), 11),
    "Transpose": ("k = Transpose(A)", "float[16,8]", weights(), 17),
    "Transpose of a scalar": ("k = Transpose(B)", "float[]", weights(B=np.array(3, np.float32)), 17),
    "Transpose 3-D": (
        "k = Transpose<perm = [2, 0, 1]>(B)",
        "float[16,2,4]",
        weights(B=A.reshape(2, 4, 16)),
        17,
    ),
    "Concat": ("k = Concat<axis = -1>(A, B)", "float[8,20]", weights(B=weight(8, 4)), 17),
    "Slice": (
        "k = Slice(A, s, e, a, p)",
        "float[8,5]",
        weights(s=numbers(-1), e=numbers(1), a=numbers(1), p=numbers(-3)),
        17,
    ),
    "Slice to the end": (
        "k = Slice(A, s, e)",
        "float[5,16]",
        weights(s=numbers(3), e=numbers(2**63 - 1)),
        17,
    ),
    "Slice backwards": (
        "k = Slice(A, s, e, a, p)",
        "float[8,16]",
        weights(s=numbers(-1), e=numbers(-(2**63)), a=numbers(0), p=numbers(-1)),
        17,
    ),
    "Slice by attribute": (
        "k = Slice<axes = [1], starts = [2], ends = [-2]>(A)",
        "float[8,12]",
        weights(),
        9,
    ),
    "Gather": ("k = Gather(A, s)", "float[3,16]", weights(s=numbers(-1, 0, 3)), 17),
    "Gather a column": ("k = Gather<axis = 1>(A, s)", "float[8]", weights(s=np.array(3, np.int32)), 17),
    "Split": ("k, l = Split<axis = 1>(A, s)", "float[8,6]", weights(s=numbers(6, 10)), 17),
    "Split evenly": ("k, l = Split<axis = 1>(A)", "float[8,8]", weights(), 13),
    "Tile once": ("k = Tile(A, s)", "float[8,16]", weights(s=numbers(1, 1)), 17),
    "Expand": ("k = Expand(A, s)", "float[8,16]", weights(s=numbers(1, 16)), 17),
    "Shape": ("k = Shape(A)", "int64[2]", weights(), 17),
    "Shape from an axis": ("k = Shape<start = -1>(A)", "int64[1]", weights(), 17),
    "Size": ("k = Size(A)", "int64", weights(), 17),
    "ConstantOfShape": (
        "k = ConstantOfShape<value = int64[1] {7}>(s)",
        "int64[3]",
        weights(s=numbers(3)),
        17,
    ),
    "Range": ("k = Range(a, b, c)", "int64[4]", weights(a=np.array(9), b=np.array(1), c=np.array(-2)), 17),
    "Range without end": (
        "k = Range(a, b, c)",
        "int64[0]",
        weights(a=np.array(1), b=np.array(1), c=np.array(1)),
        17,
    ),
    "Cast down": ("k = Cast<to = 6>(I)", "int32[8,16]", weights(), 17),
    "Cast to bool": ("k = Cast<to = 9>(I)", "bool[8,16]", weights(), 17),
    "Cast whole floats": (
        "k = Cast<to = 7>(B)",
        "int64[3]",
        weights(B=np.array([1, -0.0, 3], np.float32)),
        17,
    ),
    "Add": ("k = Add(I, S)", "int64[8,3]", weights(I=INTS[:, :3]), 17),
    "Sub": ("k = Sub(S, s)", "int64[3]", weights(s=np.array(7)), 17),
    "Mul": ("k = Mul(S, S)", "int64[3]", weights(), 17),
    "Div": ("k = Div(S, s)", "int64[3]", weights(s=np.array(2)), 17),
    "int32 Mul": ("k = Mul(s, s)", "int32[3]", weights(s=np.array([1, -2, 300], np.int32)), 17),
    "Equal": ("k = Equal(S, s)", "bool[3]", weights(s=np.array(4)), 17),
    "Less": ("k = Less(S, s)", "bool[3]", weights(s=np.array(4)), 17),
    "GreaterOrEqual": ("k = GreaterOrEqual(S, s)", "bool[3]", weights(s=np.array(4)), 17),
    "And": ("k = And(b, c)", "bool[2]", weights(b=np.array([True, False]), c=np.array(True)), 17),
    "Not": ("k = Not(b)", "bool[2]", weights(b=np.array([True, False])), 17),
    "Where": ("k = Where(b, A, B)", "float[8,16]", weights(b=A > 0, B=-A), 17),
}


def handed_out(text: str, kind: str, stored: dict[str, Weight], opset: int) -> onnx.ModelProto:
    """A model whose outputs are k as it is, chosen over itself by an input, and what it is made from."""
    top = graph(f"""g (bool way) => ({kind} y) {{ {text}
        y = If (way) <then_branch = t () => ({kind} yes) {{ yes = Identity(k) }},
                      else_branch = e () => ({kind} no) {{ no = Identity(k) }}> }}""")
    used = {name for node in top.node for name in node.input}
    return model(graph_with(top, {n: v for n, v in stored.items() if n in used}), opset=opset)


def graph_with(top: onnx.GraphProto, stored: dict[str, Weight]) -> onnx.GraphProto:
    top.initializer.extend(model("g () => () { }", stored).graph.initializer)
    return top


def op_types(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("case", FOLDED)
def test_a_result_is_the_runtimes_to_the_bit(case: str, tmp_path: Path) -> None:
    before, after = run_method("fold-constants", handed_out(*FOLDED[case]), tmp_path)
    feeds = [{"way": np.array(True)}]
    assert op_types(after) == ["If"]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert after.stat().st_size < before.stat().st_size


LOW = np.array([-(2**63)], np.int64)
KEPT: dict[str, tuple[Any, ...]] = {
    "what grows": ("k = Expand(A, s)", "float[64,8,16]", weights(s=numbers(64, 1, 1)), 17),
    "tiles": ("k = Tile(A, s)", "float[64,16]", weights(s=numbers(8, 1)), 17),
    "a large constant": ("k = ConstantOfShape(s)", "float[64,64]", weights(s=numbers(64, 64)), 17),
    "an fp16 weight": ("k = Cast<to = 1>(H)", "float[64,64]", {"H": weight(64, 64).astype(np.float16)}, 17),
    "an int8 weight": (
        "f = Cast<to = 1>(Q) k = Mul(f, s)",
        "float[64,64]",
        {"Q": rng(1).integers(-9, 9, (64, 64)).astype(np.int8), "s": weight(64)},
        17,
    ),
    "a dequantized weight": (
        "k = DequantizeLinear(Q, s)",
        "float[64,64]",
        {"Q": rng(1).integers(-9, 9, (64, 64)).astype(np.int8), "s": np.float32(0.5)},
        17,
    ),
    "a table": (
        "i = Cast<to = 6>(C) g = Gather(T, i) k = Reshape(g, s)",
        "float[64,64]",
        {"C": rng(1).integers(0, 4, (64, 8)).astype(np.uint8), "T": weight(4, 8), "s": numbers(64, 64)},
        17,
    ),
    "sums of floats": ("k = Add(A, A)", "float[8,16]", weights(), 17),
    "a division by zero": ("k = Div(S, s)", "int64[3]", weights(s=np.array(0)), 17),
    "a division that kills": ("k = Div(L, s)", "int64[1]", weights(L=LOW, s=np.array(-1)), 17),
    "a negative division": ("k = Div(I, s)", "int64[8,16]", weights(s=np.array(2)), 17),
    "an overflow": ("k = Mul(L, L)", "int64[1]", weights(L=LOW), 17),
    "bytes that wrap": ("k = Cast<to = 3>(S)", "int8[1]", weights(S=numbers(200)), 17),
    "rounding": ("k = Cast<to = 7>(B)", "int64[3]", weights(B=np.array([1, 2.5, 3], np.float32)), 17),
    "an index past the end": ("k = Gather(S, s)", "int64[1]", weights(s=numbers(3)), 17),
    "another shape": ("k = Reshape(A, s)", "float[4,31]", weights(s=numbers(4, 31)), 17),
    "4 TiB": ("k = ConstantOfShape(s)", "float[n]", weights(s=numbers(2**40)), 17),
    "nothing of 2^62 by 2^62": (
        "k = ConstantOfShape(s)",
        "float[0,n,m]",
        weights(s=numbers(0, 2**62, 2**62)),
        17,
    ),
    "2^63 numbers": (
        "k = Range(a, b, c)",
        "int64[n]",
        weights(a=np.array(-(2**63)), b=np.array(2**63 - 1), c=np.array(1)),
        17,
    ),
    "nothing to join": ("k = Concat<axis = 0>()", "float[8,16]", weights(), 17),
    "one truth value": ("k = And(b)", "bool[2]", weights(b=np.array([True, False])), 17),
    "another domain": ("k = com.example.Identity(A)", "float[8,16]", weights(), 17),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_left_alone(case: str, tmp_path: Path) -> None:
    made = handed_out(*KEPT[case])
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    before, after = run_method("fold-constants", made, tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_a_chain_becomes_one_tensor(tmp_path: Path) -> None:
    """A shape that is put together from another tensor's shape, as exporters write it."""
    text = """g (float[4,8] x) => (float[2,16] y) {
        s = Shape(W) d = Gather(s, zero) e = Unsqueeze(d, axes) two = Constant<value_ints = [2]>()
        h = Div(e, two) t = Concat<axis = 0>(h, minus) m = MatMul(x, W) y = Reshape(m, t) }"""
    stored = {
        "W": np.zeros((4, 8), np.float32),
        "zero": np.array(0),
        "axes": numbers(0),
        "minus": numbers(-1),
    }
    made = model(text.replace("float[4,8] x", "float[8,4] x").replace("[2,16]", "[2,32]"), stored)
    before, after = run_method("fold-constants", made, tmp_path)
    assert op_types(after) == ["MatMul", "Reshape"]
    assert [item.name for item in onnx.load(after).graph.initializer] == ["W", "t"]
    feeds = [{"x": weight(8, 4)}]
    assert identical(outputs(before, feeds), outputs(after, feeds))


def test_nodes_in_any_order(tmp_path: Path) -> None:
    made = model("g () => (float[16,8] y) { y = Neg(b) }", {"A": A})
    made.graph.node.append(helper.make_node("Transpose", ["a"], ["b"]))
    made.graph.node.append(helper.make_node("Identity", ["A"], ["a"]))
    _, after = run_method("fold-constants", made, tmp_path)
    assert op_types(after) == ["Neg"]


def test_a_tensor_with_another_reader_stays(tmp_path: Path) -> None:
    """Folding the Transpose would store the weight twice."""
    text = "g (float[64,64] x) => (float[64,64] y) { t = Transpose(W) h = MatMul(x, t) y = MatMul(h, W) }"
    before, after = run_method("fold-constants", model(text, {"W": weight(64, 64)}), tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_a_tensor_whose_readers_all_shrink_it_goes(tmp_path: Path) -> None:
    """Two slices of one tensor: the second fold frees it, the first alone would not."""
    text = """g (float[1,64] x) => (float[1,64] y) { a = Slice(W, zero, one) b = Slice(W, one, two)
        h = Add(x, a) y = Add(h, b) }"""
    stored = {"W": weight(2, 64), "zero": numbers(0), "one": numbers(1), "two": numbers(2)}
    _, after = run_method("fold-constants", model(text, stored), tmp_path)
    assert op_types(after) == ["Add", "Add"]


def test_what_a_caller_may_override_is_no_constant(tmp_path: Path) -> None:
    text = "g (float[8,16] x, float[16,8] W) => (float[8,8] y) { t = Identity(W) y = MatMul(x, t) }"
    before, after = run_method("fold-constants", model(text, {"W": weight(16, 8)}), tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_outputs_keep_their_makers(tmp_path: Path) -> None:
    """The name of an output stays that of a node: what is returned has to be made by something."""
    text = "g (float[2,8] x) => (float[16,8] y, float[2,16] z) { y = Transpose(A) z = MatMul(x, A) }"
    before, after = run_method("fold-constants", model(text, {"A": weight(8, 16)}), tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_branches_see_the_outer_tensors_and_their_own(tmp_path: Path) -> None:
    """The branch's own W hides the outer one; the loop's body is folded inside."""
    text = """g (float[4,64] x, bool c) => (float[4,64] y) {
        h = If (c) <then_branch = t () => (float[4,64] p) { a = Transpose(W) p = MatMul(x, a) },
                    else_branch = e () => (float[4,64] q) { b = Transpose(V) q = MatMul(x, b) }>
        y = Loop (n, go, h) <body = l (int64 i, bool keep, float[4,64] s) => (bool again, float[4,64] next)
            { again = Identity(keep) d = Transpose(U) next = MatMul(s, d) }> }"""
    stored = {"V": weight(64, 64, seed=2), "n": np.array(3), "go": np.array(True)}
    inside = {"t": {"W": weight(64, 64, seed=1)}, "l": {"U": weight(64, 64, seed=3)}}
    before, after = run_method("fold-constants", model(text, stored, inside=inside), tmp_path)
    feeds = [{"x": weight(4, 64, seed=7), "c": np.array(way)} for way in (True, False)]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    inner = [
        entry.g for node in onnx.load(after).graph.node for entry in node.attribute if entry.HasField("g")
    ]
    assert [[node.op_type for node in body.node] for body in inner] == [
        ["MatMul"],
        ["MatMul"],
        ["Identity", "MatMul"],
    ]


def test_functions_and_old_models_get_constants(tmp_path: Path) -> None:
    """Neither has initializers that are not inputs."""
    top = graph("g (float[4,64] x) => (float[4,64] y) { y = local.F(x) }")
    built = model(top, domains={"local": 1})
    nodes = [
        constant("K", weight(64, 64)),
        helper.make_node("Transpose", ["K"], ["T"]),
        helper.make_node("MatMul", ["x", "T"], ["y"]),
    ]
    imports = [helper.make_opsetid("", 17)]
    built.functions.append(helper.make_function("local", "F", ["x"], ["y"], nodes, imports))
    before, after = run_method("fold-constants", built, tmp_path)
    feeds = [{"x": weight(4, 64, seed=7)}]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert [node.op_type for node in onnx.load(after).functions[0].node] == ["Constant", "MatMul"]

    old = model(graph("g (float[4,64] x) => (float[4,64] y) { }"), opset=8, ir=3)
    old.graph.node.extend(nodes)
    before, after = run_method("fold-constants", old, tmp_path)
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert op_types(after) == ["Constant", "MatMul"]
    assert not onnx.load(after).graph.initializer


@pytest.mark.sampled(0)
def test_a_thousand_transposes_end_soon(tmp_path: Path) -> None:
    """Each would be worth folding; together they would keep a gate busy for long."""
    nodes = [helper.make_node("Transpose", [f"t{n}"], [f"t{n + 1}"]) for n in range(1000)]
    made = model(graph("g (float[2,2048] x) => (float[2,2048] y) { }"), ir=8)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight(2048, 2048), "t0"))
    made.graph.node.extend([*nodes, helper.make_node("MatMul", ["x", "t1000"], ["y"])])
    _, after = run_method("fold-constants", made, tmp_path)
    assert 900 < len(onnx.load(after).graph.node) < 1001


def test_values_that_are_not_all_there(tmp_path: Path) -> None:
    """int64_data with fewer numbers than the shape says."""
    made = model("g (int64[4] x) => (int64[4] y) { k = Identity(S) y = Add(x, k) }")
    made.graph.initializer.append(
        TensorProto(name="S", data_type=TensorProto.INT64, dims=[4], int64_data=[1, 2])
    )
    before, after = run_method("fold-constants", made, tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_a_node_without_outputs_stays(tmp_path: Path) -> None:
    made = model("g (float[4] x) => (float[4] y) { y = Abs(x) }", {"W": weight(4)})
    made.graph.node.append(helper.make_node("Split", ["W"], []))
    before, after = run_method("fold-constants", made, tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_short_nodes_that_would_only_add_bytes_stay(tmp_path: Path) -> None:
    """A node of a few bytes is smaller than its result; what is worth it elsewhere is folded all the same."""
    text = """g (float[4,64] x) => (float[4,64] y, int64[2] z) {
        s = Shape(W) z = Abs(s) h = MatMul(x, W) t = Transpose(V) y = MatMul(h, t) }"""
    made = model(text, {"W": weight(64, 64), "V": weight(64, 64, seed=2)})
    _, after = run_method("fold-constants", made, tmp_path)
    assert op_types(after) == ["Shape", "Abs", "MatMul", "MatMul"]


def test_from_the_command_line(tmp_path: Path) -> None:
    """Enough nodes that the receipt is paid for."""
    nodes = [helper.make_node("Identity", [f"t{n}"], [f"t{n + 1}"], name=f"node {n}") for n in range(200)]
    made = model(graph("g (float[2,64] x) => (float[2,64] y) { }"), ir=8)
    made.graph.initializer.append(onnx.numpy_helper.from_array(weight(64, 64), "t0"))
    made.graph.node.extend([*nodes, helper.make_node("MatMul", ["x", "t200"], ["y"])])
    onnx.save(made, tmp_path / "m.onnx")
    done = onnx_ci(
        "shrink", "m.onnx", "o.onnx", "--methods", "fold-constants", "--format", "json", cwd=tmp_path
    )
    assert done.code == 0
    assert done.json["verification"]["outputs"][0]["exact"]
    assert op_types(tmp_path / "o.onnx") == ["MatMul"]
