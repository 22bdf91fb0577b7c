"""Weights that are stored as fp16 already: int8-weights and int4-weights take them as they take float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.support.cli import onnx_ci
from tests.support.run_model import outputs
from tests.support.weight_models import applied, ops_that_run, sqnr
from tests.traps.base import Array, constant, model, weight

W = weight(96, 96, seed=1).astype(np.float16)
V = weight(96, 96, seed=2).astype(np.float16)
X = weight(2, 96, seed=7, scale=1.0)
SIZES = [("int8-weights", 38.0, 0.6), ("int4-weights", 18.0, 0.45)]


def computed() -> onnx.ModelProto:
    """fp16 from end to end."""
    text = "g (float16[2,96] x) => (float16[2,96] y) { h = MatMul(x, W) y = MatMul(h, V) }"
    return model(text, {"W": W, "V": V})


def stored() -> onnx.ModelProto:
    """Stored as fp16, computed in float32; one of the weights is turned on the way."""
    text = """g (float[2,96] x) => (float[2,96] y)
        { w = Cast <to = 1> (W) h = MatMul(x, w) c = Cast <to = 1> (V) v = Transpose (c) y = MatMul(h, v) }"""
    return model(text, {"W": W, "V": V})


def constants() -> onnx.ModelProto:
    made = computed()
    nodes = [constant("W", W), constant("V", V), *made.graph.node]
    del made.graph.initializer[:], made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def both_ways() -> onnx.ModelProto:
    """One weight is computed with as fp16, and cast for a product in float32."""
    text = """g (float[2,96] x) => (float[2,96] y)
        { w = Cast <to = 1> (W) h = MatMul(x, w)
          k = Cast <to = 10> (h) m = MatMul(k, W) y = Cast <to = 1> (m) }"""
    return model(text, {"W": W})


MODELS = [computed, stored, constants, both_ways]


def run(path: Path) -> Array:
    wanted = onnx.load(path).graph.input[0].type.tensor_type.elem_type
    return np.asarray(
        outputs(path, [{"x": X.astype(np.float16 if wanted == TensorProto.FLOAT16 else np.float32)}])[0][0]
    )


@pytest.mark.parametrize("build", MODELS)
@pytest.mark.parametrize(("method", "least", "share"), SIZES)
def test_they_are_rounded_further(
    build: Any, method: str, least: float, share: float, tmp_path: Path
) -> None:
    path, chained = applied(build(), tmp_path, method)
    assert chained.size < share * (tmp_path / "in.onnx").stat().st_size
    onnx.checker.check_model(onnx.load(path), full_check=True)
    before, after = run(tmp_path / "in.onnx"), run(path)
    assert before.dtype == after.dtype
    assert sqnr(before, after) > least
    assert sorted(ops_that_run(path)) == sorted(ops_that_run(tmp_path / "in.onnx"))


@pytest.mark.parametrize("method", ["int8-weights", "int4-weights"])
def test_dequantize_linear_gives_what_was_there(method: str, tmp_path: Path) -> None:
    made = computed()
    made.ir_version, made.opset_import[0].version = 10, 21
    path, chained = applied(made, tmp_path, method, encoding="dq")
    assert chained.steps[0].tensors == 2
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert sqnr(run(tmp_path / "in.onnx"), run(path)) > 18


@pytest.mark.sampled(2)
@pytest.mark.parametrize("method", ["int8-weights", "int4-weights"])
@pytest.mark.parametrize("build", [computed, stored])
def test_the_planner_takes_them_and_it_is_proven(build: Any, method: str, tmp_path: Path) -> None:
    onnx.save(build(), tmp_path / "in.onnx")
    arguments = ("--methods", f"fp16-weights,{method}", "--tolerance", "cosine=0.98", "--format", "json")
    report = onnx_ci("shrink", "in.onnx", "out.onnx", *arguments, cwd=tmp_path).json
    assert report["verification"]["status"] == "passed"
    assert report["plan"]["tensors"] == 2
    assert [step["method"] for step in report["steps"] if step["tensors"]] == [method]
    assert report["after"]["size"] < 0.6 * report["before"]["size"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", ["int8-weights:granularity=block", "int4-weights", "fp16-weights"])
def test_our_own_output_is_not_rounded_again(first: str, tmp_path: Path) -> None:
    text = "g (float[2,512] x) => (float[2,512] y) { y = MatMul(x, W) }"
    onnx.save(model(text, {"W": weight(512, 512, seed=1)}), tmp_path / "in.onnx")
    loose = ("--tolerance", "cosine=0.9", "--plan-seconds", "0")
    assert onnx_ci("shrink", "in.onnx", "a.onnx", "--methods", first, *loose, cwd=tmp_path).code == 0
    assert (
        onnx_ci(
            "shrink", "a.onnx", "b.onnx", "--methods", "int8-weights,int4-weights", *loose, cwd=tmp_path
        ).code
        == 0
    )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_scales_that_are_fp16_are_no_weights(tmp_path: Path) -> None:
    """Not even where no receipt tells that they are ours."""
    text = "g (float[2,512] x) => (float[2,512] y) { y = MatMul(x, W) }"
    path, _ = applied(model(text, {"W": weight(512, 512, seed=1)}), tmp_path, "int4-weights")
    for method in ("int8-weights", "int4-weights"):
        again = tmp_path / method
        again.mkdir()
        _, chained = applied(onnx.load(path), again, method)
        assert not chained.kept


def test_a_mask_is_left_alone(tmp_path: Path) -> None:
    mask = np.where(np.tri(96, dtype=bool), W, np.float16(-65504))
    text = "g (float16[2,96] x) => (float16[2,96] y) { h = MatMul(x, W) m = Slice(M, a, b) y = Add(h, m) }"
    weights = {"W": W, "M": mask, "a": np.array([0]), "b": np.array([2])}
    _, chained = applied(model(text, weights), tmp_path, "int8-weights")
    assert chained.steps[0].tensors == 1
    assert chained.steps[0].note == "1 left alone (masks, indices or not finite): M"
