"""`downcast`: what becomes narrow, what stays wide, and where a Cast stands between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Chained, Run, run_chain
from onnx_ci.model.load import open_model
from onnx_ci.model.save import lay_out, write_model
from tests.support.cli import onnx_ci
from tests.support.run_model import identical, outputs
from tests.traps.base import Array, model, tensor, weight

W = weight(64, 64, seed=1).astype(np.float64)
TABLE = np.arange(4096, dtype=np.int64).reshape(64, 64)[::-1].copy()
X = np.random.default_rng(3).standard_normal((2, 64))
DOUBLE = "g (double[2,64] x) => (double[2,64] y) "


def downcast(folder: Path, made: onnx.ModelProto, **options: object) -> tuple[Path, Path, Chained]:
    """The model before and after; types must fit, and a second run must find nothing."""
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(made, before)
    run = Run(method("downcast"), options)
    with open_model(before) as opened:
        chained = run_chain(opened, [run], size=lay_out(opened).size)
        write_model(chained.model, after)
    shape_inference.infer_shapes(onnx.load(after), check_type=True, strict_mode=True)
    with open_model(after) as opened:
        assert not run_chain(opened, [run], size=lay_out(opened).size).kept
    return before, after, chained


def stored(path: Path) -> dict[str, int]:
    return {item.name: item.data_type for item in onnx.load(path).graph.initializer}


def interface(path: Path) -> list[tuple[str, int]]:
    graph = onnx.load(path).graph
    return [(value.name, value.type.tensor_type.elem_type) for value in (*graph.input, *graph.output)]


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def close(before: Path, after: Path, feed: dict[str, Array]) -> None:
    for one, other in zip(outputs(before, [feed])[0], outputs(after, [feed])[0], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_float64_model_computes_in_float32_between_casts(tmp_path: Path) -> None:
    text = DOUBLE + "{ h = MatMul(x, W) t = Tanh(h) k = MatMul(t, V) y = Add(k, b) }"
    made = model(text, {"W": W, "V": W + 1, "b": np.ones(64)})
    before, after, chained = downcast(tmp_path, made)
    assert set(stored(after).values()) == {TensorProto.FLOAT}
    assert interface(before) == interface(after)
    assert ops(after) == ["Cast", "MatMul", "Tanh", "MatMul", "Add", "Cast"]
    assert chained.size < before.stat().st_size * 0.52
    close(before, after, {"x": X})


@pytest.mark.parametrize("value", [1e300, 1e-300, 16777217.0])
def test_numbers_that_float32_lacks_stay(tmp_path: Path, value: float) -> None:
    """Too large, too small, or a whole number that would become another one."""
    odd = np.full((64, 64), value)
    text = DOUBLE + "{ h = MatMul(x, W) y = Mul(h, O) }"
    made = model(text.replace("[2,64]", "[64,64]"), {"W": W, "O": odd})
    before, after, _ = downcast(tmp_path, made)
    assert stored(after)["O"] == TensorProto.DOUBLE
    assert TensorProto.FLOAT in stored(after).values()
    close(before, after, {"x": np.vstack([X] * 32)})


def test_what_branches_and_custom_operators_read_stays_wide(tmp_path: Path) -> None:
    text = """g (double[2,64] x, bool c) => (double[2,64] y) {
        h = MatMul(x, W)
        y = If (c) <then_branch = t () => (double[2,64] p) { p = MatMul(h, W) },
                    else_branch = e () => (double[2,64] q) { q = Neg(h) }> }"""
    before, after, _ = downcast(tmp_path, model(text, {"W": W}))
    assert list(stored(after).values()) == [TensorProto.FLOAT]
    for flag in (True, False):
        close(before, after, {"x": X, "c": np.array(flag)})


def test_a_function_of_the_model_is_left_alone(tmp_path: Path) -> None:
    made = model(DOUBLE + "{ h = MatMul(x, W) y = local.Twice(h) }", {"W": W}, domains={"local": 1})
    made.functions.append(
        helper.make_function(
            "local",
            "Twice",
            ["a"],
            ["b"],
            [helper.make_node("Add", ["a", "a"], ["b"])],
            [made.opset_import[0]],
        )
    )
    before, after, _ = downcast(tmp_path, made)
    assert onnx.load(after).functions == onnx.load(before).functions
    close(before, after, {"x": X})


def test_attributes_that_name_a_type_follow(tmp_path: Path) -> None:
    text = """g (float[2,64] x) => (double[2,64] y) {
        d = Cast <to = 11> (x)
        m = MatMul(d, W)
        o = ConstantOfShape <value = double[1] {2.5}> (s)
        y = Mul(m, o) }"""
    before, after, _ = downcast(tmp_path, model(text, {"W": W, "s": np.array([2, 64])}))
    assert ops(after)[-1] == "Cast"
    assert ops(after).count("Cast") == 2
    close(before, after, {"x": X.astype(np.float32)})


def test_integers_narrow_as_far_as_they_are_known_to_fit(tmp_path: Path) -> None:
    """The table, what is picked from it and turned to floats is int32; the sum with an input is int64."""
    text = """g (int64[2] i, int64[2,64] z) => (int64[2,64] y, float[2,64] f) {
        r = Gather(T, i)
        f = Cast <to = 1> (r)
        y = Add(r, z) }"""
    before, after, _ = downcast(tmp_path, model(text, {"T": TABLE}))
    assert stored(after) == {"T": TensorProto.INT32}
    assert interface(before) == interface(after)
    feed = {"i": np.array([3, 60]), "z": np.full((2, 64), 2**40)}
    assert identical(outputs(before, [feed]), outputs(after, [feed]))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_integers_that_do_not_fit_stay(tmp_path: Path, value: int) -> None:
    table = TABLE.copy()
    table[0, 0] = value
    made = model("g (int64[2] i) => (int64[2,64] y) { y = Gather(T, i) }", {"T": table})
    assert not downcast(tmp_path, made)[2].kept


def test_indices_and_shapes(tmp_path: Path) -> None:
    """Gather takes indices of either type, Reshape wants int64: a large shape-like tensor is cast back."""
    text = """g (float[4096] x) => (float[64,64] y, int64[1] n) {
        p = Gather(x, T)
        y = Reshape(p, s)
        n = ReduceMax <axes = [0, 1], keepdims = 0> (T2) }"""
    text = text.replace("int64[1] n", "int64 n")
    before, after, _ = downcast(tmp_path, model(text, {"T": TABLE, "T2": TABLE + 1, "s": np.array([64, 64])}))
    kinds = stored(after)
    assert (kinds["T"], kinds["s"]) == (TensorProto.INT32, TensorProto.INT64)
    feed = {"x": np.random.default_rng(1).standard_normal(4096).astype(np.float32)}
    assert identical(outputs(before, [feed]), outputs(after, [feed]))


def test_constants_of_nodes(tmp_path: Path) -> None:
    made = model(DOUBLE + "{ y = MatMul(x, C) }")
    made.graph.node.insert(0, helper.make_node("Constant", [], ["C"], value=tensor("C", W)))
    before, after, _ = downcast(tmp_path, made)
    value = onnx.load(after).graph.node[1].attribute[0].t
    assert numpy_helper.to_array(value).dtype == np.float32
    close(before, after, {"x": X})


def test_options_choose(tmp_path: Path) -> None:
    text = """g (double[2,64] x, int64[2] i) => (double[2,64] y, int64[2,64] z) {
        y = MatMul(x, W) z = Gather(T, i) }"""
    made = model(text, {"W": W, "T": TABLE})
    _, after, _ = downcast(tmp_path, made, int64=False)
    assert stored(after) == {"W": TensorProto.FLOAT, "T": TensorProto.INT64}
    _, after, _ = downcast(tmp_path, made, float64=False)
    assert stored(after) == {"W": TensorProto.DOUBLE, "T": TensorProto.INT32}


def test_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(model(DOUBLE + "{ y = MatMul(x, W) }", {"W": W}), tmp_path / "m.onnx")
    arguments = ("--methods", "downcast:int64=false", "--format", "json")
    done = onnx_ci("shrink", "m.onnx", "out.onnx", *arguments, cwd=tmp_path)
    assert done.code == 0, done.out
    assert done.json["verdict"] == "shrunk"
    assert done.json["verification"]["outputs"][0]["sqnr"] > 100
