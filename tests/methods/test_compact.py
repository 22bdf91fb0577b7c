"""compact: every form gives back every bit, costs nothing at run time, and leaves the rest alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_ci.methods.compact import Narrow, smaller_form
from tests.support.cli import onnx_ci
from tests.support.one_method import ops_at_run_time, rewrite, run_method
from tests.support.run_model import identical, outputs
from tests.traps.base import Array, constant, graph, model, rng, tensor, weight


def table(values: Array, *, opset: int = 17) -> onnx.ModelProto:
    """A model that hands out the rows of a tensor as they are, bit for bit."""
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    node = helper.make_node("Gather", ["W", "at"], ["y"])
    at = helper.make_tensor_value_info("at", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", kind, ["n", *values.shape[1:]])
    top = helper.make_graph([node], "g", [at], [y], [tensor("W", values)])
    return helper.make_model(top, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)


def shrunk(values: Array, folder: Path, *, opset: int = 17) -> float:
    """How much of the file is left; the outputs have to be the same bits, from the same nodes."""
    before, after = run_method("compact", table(values, opset=opset), folder)
    every = [{"at": np.arange(values.shape[0], dtype=np.int64)}]
    assert identical(outputs(before, every), outputs(after, every))
    assert ops_at_run_time(before) == ops_at_run_time(after)
    return after.stat().st_size / before.stat().st_size


def nans(*shape: int) -> Array:
    """Four NaNs that differ in sign and payload."""
    kinds = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0x7FABCDEF], np.uint32)
    return rng(1).choice(kinds, shape).view(np.float32)


def bfloat16s(*shape: int) -> Array:
    """bfloat16 has a range that fp16 has not, denormals included."""
    bits = rng(1).integers(0, 0x7F80, shape) << 16
    return bits.astype(np.uint32).view(np.float32)


FORMS: dict[str, tuple[float, Callable[[], Array]]] = {
    "one value": (0.05, lambda: np.full((64, 256), 0.3, np.float32)),
    "negative zeros": (0.05, lambda: np.full((64, 256), -0.0, np.float32)),
    "a NaN with a payload": (0.05, lambda: np.full((64, 256), 0x7F800001, np.uint32).view(np.float32)),
    "the same rows": (0.05, lambda: np.tile(weight(1, 256), (64, 1))),
    "the same columns": (0.05, lambda: np.tile(weight(64, 1), (1, 256))),
    "blocks of rows": (0.3, lambda: np.tile(weight(16, 256), (4, 1))),
    "blocks of columns": (0.3, lambda: np.tile(weight(64, 64), (1, 4))),
    "rows in any order": (0.15, lambda: weight(8, 256)[rng(1).integers(0, 8, 64)]),
    "a causal mask": (0.07, lambda: np.triu(np.full((128, 128), -np.inf, np.float32), 1)),
    "two values": (0.07, lambda: rng(1).choice(np.array([0.1, -3e38], np.float32), (128, 256))),
    "signs of zero": (0.07, lambda: rng(1).choice(np.array([0.0, -0.0], np.float32), (128, 256))),
    "three values in an odd shape": (0.3, lambda: rng(1).choice(weight(3), (63, 255))),
    "four NaNs": (0.1, lambda: nans(128, 256)),
    "sixteen values": (0.2, lambda: rng(1).choice(weight(16), (128, 256))),
    "256 values": (0.3, lambda: rng(1).choice(weight(256), (128, 256))),
    "60,000 values": (0.75, lambda: rng(1).choice(weight(60_000), (512, 512))),
    "fp16": (0.52, lambda: weight(64, 256).astype(np.float16).astype(np.float32)),
    "fp16 denormals and infinities": (
        0.52,
        lambda: rng(1).integers(0, 0x7C01, (64, 256)).astype(np.uint16).view(np.float16).astype("f4"),
    ),
    "bfloat16": (0.52, lambda: bfloat16s(64, 256)),
    "bytes in float32": (0.3, lambda: rng(1).integers(0, 256, (64, 256)).astype(np.float32)),
    "signed bytes in float32": (0.3, lambda: rng(1).integers(-128, 128, (64, 256)).astype(np.float32)),
    "shorts in float32": (0.52, lambda: rng(1).integers(-32768, 32768, (64, 256)).astype(np.float32)),
    "float32 in float64": (0.52, lambda: weight(64, 256).astype(np.float64)),
    "bytes in float16": (0.55, lambda: rng(1).integers(0, 256, (64, 256)).astype(np.float16)),
    "bytes in int64": (0.15, lambda: rng(1).integers(-128, 128, (64, 256))),
    "shorts in int64": (0.27, lambda: rng(1).integers(0, 65536, (64, 256))),
    "int32 in int64": (0.52, lambda: rng(1).integers(-(2**31), 2**31, (64, 256))),
    "bytes in int32": (0.27, lambda: rng(1).integers(0, 256, (64, 256)).astype(np.int32)),
    "booleans": (0.2, lambda: rng(1).random((128, 256)) < 0.5),
    "a few bytes": (0.6, lambda: rng(1).integers(0, 16, (128, 256)).astype(np.uint8)),
    "fp16 rows that repeat": (
        0.1,
        lambda: np.tile(weight(8, 1024).astype(np.float16).astype(np.float32), (8, 1)),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_smaller_form_gives_back_every_bit(form: str, tmp_path: Path) -> None:
    limit, make = FORMS[form]
    assert shrunk(make(), tmp_path) <= limit


KEPT: dict[str, Callable[[], Array]] = {
    "weights": lambda: weight(64, 256),
    "whole numbers past 16 bits": lambda: rng(1).integers(2**17, 2**24, (64, 256)).astype(np.float32),
    "random int64": lambda: rng(1).integers(-(2**62), 2**62, (64, 256)),
    "random bytes": lambda: rng(1).integers(0, 256, (64, 256)).astype(np.uint8),
    "NaNs of every kind": lambda: (
        (rng(1).integers(0, 2**22, (64, 256)) | 0x7FC00000).astype(np.uint32).view(np.float32)
    ),
    "a small table": lambda: np.zeros((4, 31), np.int64),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_no_form_reproduces_is_left_alone(kind: str, tmp_path: Path) -> None:
    before, after = run_method("compact", table(KEPT[kind]()), tmp_path)
    assert onnx.load(before) == onnx.load(after)


def test_whole_numbers_with_a_negative_zero_stay_floats() -> None:
    values = rng(1).integers(-100, 100, (64, 256)).astype(np.float32)
    values[3, 3] = -0.0
    form = smaller_form(values, opset=17)
    assert isinstance(form, Narrow)
    assert form.values.dtype == np.float16


@pytest.mark.parametrize("opset", [6, 7, 8, 12, 13, 21])
def test_opsets(opset: int, tmp_path: Path) -> None:
    """Without Expand there are tables; without bfloat16 a tensor may have to stay."""
    assert shrunk(np.full((64, 256), 0.3, np.float32), tmp_path, opset=opset) < 0.15
    assert (shrunk(bfloat16s(64, 256), tmp_path, opset=opset) < 0.6) == (opset >= 13)
    assert shrunk(weight(64, 256).astype("f2").astype("f4"), tmp_path, opset=opset) < 0.6


@pytest.mark.sampled(0)
def test_random_structure(tmp_path: Path) -> None:
    """Odd shapes, types and repetitions in any mixture."""
    random = rng(5)
    for number in range(60):
        shape = tuple(random.choice([1, 2, 3, 5, 8, 30, 64], int(random.integers(1, 4))))
        kinds = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.int8]
        dtype = kinds[number % len(kinds)]
        values = random.integers(0, random.choice([2, 3, 40, 100]), shape).astype(dtype)
        if number % 3 == 0 and np.dtype(dtype).kind == "f":
            values = (values / dtype(3)) * dtype(-1)  # -0.0 among them
        values = np.tile(values, random.choice([1, 2, 3, 16], len(shape)))
        shrunk(values, tmp_path)


def test_weights_in_branches_loops_functions_and_constants(tmp_path: Path) -> None:
    """Folded there too: nothing runs again at each turn."""
    exact = weight(64, 64, seed=1).astype(np.float16).astype(np.float32)
    mask = np.triu(np.full((64, 64), -1e9, np.float32), 1)
    text = """g (float[64,64] x, bool c) => (float[64,64] y) {
        h = If (c) <then_branch = t () => (float[64,64] p) { p = MatMul(x, W) },
                    else_branch = e () => (float[64,64] q) { q = Add(x, K) }>
        y = Loop (n, go, h) <body = b (int64 i, bool keep, float[64,64] s) => (bool again, float[64,64] next)
            { again = Identity(keep) m = MatMul(s, V) next = Add(m, M) }> }"""
    inside = {"t": {"W": exact}, "b": {"V": exact, "M": mask}}
    built = model(text, {"n": np.array(3), "go": np.array(True)}, inside=inside)
    other = built.graph.node[0].attribute[1].g
    other.node.insert(0, constant("K", mask))
    before, after = run_method("compact", built, tmp_path)
    feeds = [{"x": weight(64, 64, seed=7), "c": np.array(way)} for way in (True, False)]
    assert identical(outputs(before, feeds), outputs(after, feeds))
    assert ops_at_run_time(before) == ops_at_run_time(after)
    assert after.stat().st_size < 0.4 * before.stat().st_size


def test_a_function_has_an_opset_of_its_own(tmp_path: Path) -> None:
    """The function imports opset 7, which has no Expand, whatever the model imports."""
    top = graph("g (float[64,64] x) => (float[64,64] y) { y = local.F(x) }")
    built = model(top, domains={"local": 1})
    nodes = [constant("K", np.full((64, 64), 0.3, np.float32)), helper.make_node("Add", ["x", "K"], ["y"])]
    built.functions.append(
        helper.make_function("local", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 7)])
    )
    before, after = run_method("compact", built, tmp_path)
    assert "Expand" not in {node.op_type for node in onnx.load(after).functions[0].node}
    assert after.stat().st_size < before.stat().st_size / 2


def two_weights() -> onnx.ModelProto:
    """A weight that is exactly fp16 and a mask of two values."""
    text = """g (float[64,64] x) => (float[64,64] y) { h = MatMul(x, W) s = Add(h, M) y = Softmax(s) }"""
    exact = weight(64, 64, seed=1).astype(np.float16).astype(np.float32)
    return model(text, {"W": exact, "M": np.triu(np.full((64, 64), -np.inf, np.float32), 1)})


def test_int8_weights_still_reach_what_is_exactly_fp16(tmp_path: Path) -> None:
    onnx.save(two_weights(), tmp_path / "m.onnx")
    exact = onnx_ci("shrink", "m.onnx", "a.onnx", "--methods", "compact", "--format", "json", cwd=tmp_path)
    assert exact.json["verification"]["outputs"][0]["exact"]
    assert {step["method"]: step["tensors"] for step in exact.json["steps"]} == {"compact": 2}
    lossy = ["shrink", "m.onnx", "b.onnx", "--methods", "compact,int8-weights", "--tolerance", "cosine=0.99"]
    both = onnx_ci(*lossy, "--format", "json", cwd=tmp_path)
    assert {step["method"]: step["tensors"] for step in both.json["steps"]} == {
        "int8-weights": 1,
        "compact": 1,
    }
    assert both.json["after"]["size"] < exact.json["after"]["size"] - 3000


@pytest.mark.parametrize("method", ["fp16-weights", "int8-weights"])
def test_a_compact_form_is_not_rounded(method: str, tmp_path: Path) -> None:
    """The table of 256 numbers and the block of a row are parts of an encoding, however large they are."""
    rows = weight(32, 256)[rng(1).integers(0, 32, 512)]
    blocks = np.tile(weight(8, 512, seed=2), (8, 1))
    text = "g (int64[n] at) => (float[n,256] y, float[n,512] z) { y = Gather(W, at) z = Gather(V, at) }"
    _, after = run_method("compact", model(text, {"W": rows, "V": blocks}), tmp_path)
    rewrite(method, after, tmp_path / "again.onnx", min_elements=1)
    assert onnx.load(after) == onnx.load(tmp_path / "again.onnx")
