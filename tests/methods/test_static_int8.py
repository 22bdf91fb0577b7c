"""static-int8: ranges measured on samples, weights found where they are, and what happens without samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, no_feeds, run_chain
from onnx_ci.model.graph import tensors
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.results import Step
from tests.support.cli import onnx_ci
from tests.support.run_model import outputs
from tests.traps.base import Feed, constant, floats, model, weight, write

LAYERS = """g (float[1,8,8,8] x) => (float[1,8,6,6] y) { h = Conv<pads = [1,1,1,1]>(x, W) r = Relu(h)
    y = Conv(r, V) }"""
BRANCHES = """g (bool c, float[2,64] x) => (float[2,64] y) { h = MatMul(x, U)
    y = If (c) <then_branch = t () => (float[2,64] a) { a = MatMul(h, W) },
    else_branch = e () => (float[2,64] b) { b = MatMul(h, V) }> }"""
WEIGHTS = {"W": weight(8, 8, 3, 3, seed=1), "V": weight(8, 8, 3, 3, seed=2)}


def quantized(
    made: onnx.ModelProto, folder: Path, feeds: list[Feed] | None, **options: object
) -> tuple[onnx.ModelProto, Step]:
    path = write(lambda: made, folder)
    given = no_feeds if feeds is None else lambda: feeds
    with open_model(path) as opened:
        run = Run(method("static-int8"), options)
        chained = run_chain(opened, [run], size=path.stat().st_size, feeds=given)
        write_model(chained.model, folder / "made.onnx")
    return onnx.load(folder / "made.onnx"), chained.steps[0]


def cosine(folder: Path, feeds: list[Feed]) -> float:
    a, b = (np.ravel(outputs(folder / name, feeds)) for name in ("model.onnx", "made.onnx"))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("calibration", ["minmax", "entropy", "percentile"])
def test_convolutions_are_quantized_on_samples(calibration: str, tmp_path: Path) -> None:
    feeds = floats(1, 8, 8, 8, count=3)()
    made, step = quantized(model(LAYERS, WEIGHTS), tmp_path, feeds, calibration=calibration)
    stored = [t for t in tensors(made) if t.data_type == onnx.TensorProto.INT8 and len(t.dims) == 4]
    assert step.tensors == len(stored) == 2
    assert {node.op_type for node in made.graph.node} >= {"QuantizeLinear", "DequantizeLinear"}
    assert all(np.abs(onnx.numpy_helper.to_array(t)).max() <= 64 for t in stored), (
        "7 bits are safe everywhere"
    )
    assert cosine(tmp_path, feeds) > 0.995


def test_the_ranges_are_those_of_the_samples(tmp_path: Path) -> None:
    scales = []
    for scale in (1.0, 100.0):
        feeds = [{"x": weight(1, 8, 8, 8, seed=7, scale=scale)}]
        made, _ = quantized(model(LAYERS, WEIGHTS), tmp_path, feeds)
        stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
        scales.append(float(stored["x_scale"]))
    assert scales[1] == pytest.approx(100 * scales[0], rel=1e-3)


def test_weights_in_constants_are_reached_and_an_old_opset_is_raised(tmp_path: Path) -> None:
    made = model(LAYERS, {"W": WEIGHTS["W"]}, opset=11)
    made.graph.node.insert(0, constant("V", WEIGHTS["V"]))
    feeds = floats(1, 8, 8, 8)()
    result, step = quantized(made, tmp_path, feeds)
    assert step.tensors == 2
    assert result.opset_import[0].version == 13
    assert cosine(tmp_path, feeds) > 0.995


def test_weights_of_branches_are_reached(tmp_path: Path) -> None:
    made = model(BRANCHES, {name: weight(64, 64, seed=seed) for seed, name in enumerate("UVW")})
    feeds = [{"c": np.array(which), "x": weight(2, 64, seed=5, scale=1.0)} for which in (True, False)]
    result, step = quantized(made, tmp_path, feeds)
    assert step.tensors == 3
    assert not [t for t in tensors(result) if t.data_type == onnx.TensorProto.FLOAT and len(t.dims) == 2]
    assert cosine(tmp_path, feeds) > 0.995


def test_what_must_not_be_rounded_is_not(tmp_path: Path) -> None:
    odd = WEIGHTS["V"].copy()
    odd[0, 0, 0, 0] = np.finfo(np.float32).max / 4
    feeds = floats(1, 8, 8, 8)()
    result, step = quantized(model(LAYERS, {**WEIGHTS, "V": odd}), tmp_path, feeds)
    assert step.tensors == 1
    kept = next(node for node in result.graph.node if node.op_type == "Constant" and node.output[0] == "V")
    assert np.array_equal(onnx.numpy_helper.to_array(kept.attribute[0].t), odd)
    reader = next(node for node in result.graph.node if "V" in node.input)
    assert reader.op_type == "Conv"


def test_without_samples_it_says_so_and_the_model_stays(tmp_path: Path) -> None:
    made = model(LAYERS, WEIGHTS)
    result, step = quantized(made, tmp_path, None)
    assert step.failed
    assert "no inputs to calibrate on" in step.note
    assert result == made


def test_on_the_command_line_it_uses_the_samples_given(tmp_path: Path) -> None:
    write(lambda: model(LAYERS, {"W": weight(32, 8, 3, 3), "V": weight(8, 32, 3, 3)}), tmp_path)
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=weight(1, 8, 8, 8, seed=number, scale=1.0))
    policy = """
version: 1
models:
  - path: "*.onnx"
    methods: [static-int8]
    tolerance: {cosine: 0.99}
    inputs: {samples: ["*.npz"]}
"""
    (tmp_path / ".onnx-ci.yaml").write_text(policy)
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    outcome = done.json["models"][0]
    assert done.code == 0, done.out
    assert outcome["verdict"] == "shrunk"
    assert outcome["verification"]["inputs"] == "samples"
    assert outcome["after"]["size"] < 0.5 * outcome["before"]["size"]
    left = onnx_ci(
        "shrink", "model.onnx", "out.onnx", "--methods", "static-int8", "--no-verify", cwd=tmp_path
    )
    assert left.code == 0
