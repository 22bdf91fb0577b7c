"""dynamic-int8: which weights are reached, which are left alone, and what the defaults are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.model.graph import bodies, tensors
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.results import Step
from tests.support.cli import onnx_ci
from tests.support.run_model import outputs
from tests.traps.axes import AXES
from tests.traps.base import Feed, constant, floats, model, weight, write

pytestmark = pytest.mark.sampled(2)

BRANCHES = """g (bool c, float[2,64] x) => (float[2,64] y) { y = If (c) <then_branch = t () => (float[2,64] a)
    { a = MatMul(x, W) }, else_branch = e () => (float[2,64] b) { b = MatMul(x, V) }> }"""


def quantized(made: onnx.ModelProto, folder: Path, **options: object) -> tuple[onnx.ModelProto, Step]:
    path = write(lambda: made, folder)
    with open_model(path) as opened:
        chained = run_chain(opened, [Run(method("dynamic-int8"), options)], size=path.stat().st_size)
        write_model(chained.model, folder / "made.onnx")
    return onnx.load(folder / "made.onnx"), chained.steps[0]


def kinds(made: onnx.ModelProto) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in tensors(made) if len(tensor.raw_data) > 1000}


def sqnr(folder: Path, feeds: list[Feed]) -> float:
    """dB, of all outputs together."""
    pairs = list(
        zip(outputs(folder / "model.onnx", feeds), outputs(folder / "made.onnx", feeds), strict=True)
    )
    signal = sum(float(np.square(np.asarray(a)).sum()) for before, _ in pairs for a in before)
    noise = sum(
        float(np.square(np.asarray(a) - np.asarray(b)).sum())
        for before, after in pairs
        for a, b in zip(before, after, strict=True)
    )
    return float(10 * np.log10(signal / noise))


def test_weights_are_unsigned_and_have_a_scale_per_column(tmp_path: Path) -> None:
    text = "g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }"
    made, _ = quantized(model(text, {"W": weight(64, 64)}), tmp_path)
    assert list(kinds(made).values()) == [onnx.TensorProto.UINT8]
    assert [64] in [list(t.dims) for t in tensors(made) if t.data_type == onnx.TensorProto.FLOAT]
    assert sqnr(tmp_path, floats(2, 64)()) > 30


def test_signed_weights_come_with_a_warning_unless_a_bit_is_spared(tmp_path: Path) -> None:
    text = "g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }"
    made = model(text, {"W": weight(64, 64)})
    result, step = quantized(made, tmp_path, weight_type="int8")
    assert "without VNNI" in step.note
    assert list(kinds(result).values()) == [onnx.TensorProto.INT8]
    result, step = quantized(made, tmp_path, weight_type="int8", reduce_range=True)
    assert step.note == ""
    stored = next(t for t in tensors(result) if t.data_type == onnx.TensorProto.INT8)
    assert np.abs(onnx.numpy_helper.to_array(stored)).max() <= 64


@pytest.mark.parametrize("where", ["outside", "inside", "constants"])
def test_weights_of_branches_are_reached(where: str, tmp_path: Path) -> None:
    w, v = weight(64, 64, seed=1), weight(64, 64, seed=2)
    made = model(BRANCHES, {"W": w, "V": v} if where == "outside" else {})
    then, other = (attribute.g for attribute in made.graph.node[0].attribute)
    for graph, name, value in ((then, "W", w), (other, "V", v)):
        if where == "inside":
            graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        if where == "constants":
            graph.node.insert(0, constant(name, value))
    result, step = quantized(made, tmp_path)
    assert step.tensors == 2
    assert set(kinds(result).values()) == {onnx.TensorProto.UINT8}
    x = weight(2, 64, seed=9, scale=1.0)
    assert sqnr(tmp_path, [{"x": x, "c": np.array(True)}, {"x": x, "c": np.array(False)}]) > 30


def test_what_must_not_be_rounded_is_not(tmp_path: Path) -> None:
    mask = np.zeros((64, 64), np.float32)
    mask[0, 0] = np.finfo(np.float32).min
    text = """g (float[2,64] x) => (float[2,64] y) { a = MatMul(x, W) b = MatMul(a, M) c = MatMul(a, H)
        y = Add(b, c) }"""
    half = np.round(weight(64, 64, seed=4) * 100)
    made, step = quantized(model(text, {"W": weight(64, 64), "M": mask, "H": half}), tmp_path)
    assert step.tensors == 1
    stored = {name: array for name, array in _floats(made).items() if array.shape == (64, 64)}
    assert np.array_equal(stored["M"], mask)
    assert np.array_equal(stored["H"], half)


def _floats(made: onnx.ModelProto) -> dict[str, np.ndarray]:
    found = {t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer if t.data_type == 1}
    nodes = [node for body in bodies(made) for node in body.node if node.op_type == "Constant"]
    return {**found, **{node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t) for node in nodes}}


def test_a_weight_that_two_turn_differently_still_computes_the_same(tmp_path: Path) -> None:
    """The quantizer turns a Gemm's weight in place, whoever else reads it."""
    text = """g (float[2,64] x) => (float[2,64] y) { a = Gemm <transB = 1> (x, W) b = MatMul(a, W)
        y = MatMul(b, V) }"""
    quantized(model(text, {"W": weight(64, 64), "V": weight(64, 64, seed=2)}), tmp_path)
    assert sqnr(tmp_path, floats(2, 64)()) > 25


def test_an_lstm_is_the_runtime_s_own(tmp_path: Path) -> None:
    trap = next(trap for trap in AXES if trap.name == "lstm_forward")
    made, _ = quantized(onnx.load(trap.build(tmp_path)), tmp_path)
    assert "DynamicQuantizeLSTM" in [node.op_type for node in made.graph.node]
    assert "com.microsoft" in [entry.domain for entry in made.opset_import]


def test_nothing_to_round_is_nothing_done(tmp_path: Path) -> None:
    text = "g (float[1,8,8,8] x) => (float[1,8,6,6] y) { y = Conv(x, W) }"
    before = model(text, {"W": weight(8, 8, 3, 3)})
    made, step = quantized(before, tmp_path)
    assert step.note == "no weight of the operators that it rounds"
    assert made == before


def test_convolutions_on_request(tmp_path: Path) -> None:
    text = "g (float[1,8,8,8] x) => (float[1,8,6,6] y) { y = Conv(x, W) }"
    made, _ = quantized(model(text, {"W": weight(8, 8, 3, 3)}), tmp_path, ops=["Conv"])
    assert "ConvInteger" in [node.op_type for node in made.graph.node]


def test_on_the_command_line(tmp_path: Path) -> None:
    text = "g (float[n,64] x) => (float[n,64] y) { a = MatMul(x, W) b = Relu(a) y = MatMul(b, V) }"
    write(lambda: model(text, {"W": weight(64, 64), "V": weight(64, 64, seed=2)}), tmp_path)
    methods = "dynamic-int8:weight_type=uint8"
    done = onnx_ci("shrink", "model.onnx", "out.onnx", "--methods", methods, "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["verdict"] == "shrunk"
    assert done.json["after"]["size"] < 0.4 * done.json["before"]["size"]
    wrong = onnx_ci(
        "shrink", "model.onnx", "o.onnx", "--methods", "dynamic-int8:weight_type=int4", cwd=tmp_path
    )
    assert wrong.code == 2
    assert "expected one of uint8, int8" in wrong.err


@pytest.mark.parametrize(("cosine", "kind"), [(0.99, TensorProto.UINT8), (0.99999, TensorProto.FLOAT)])
def test_embeddings_are_rounded_too_where_the_tolerance_allows_it(
    cosine: float, kind: int, tmp_path: Path
) -> None:
    text = """g (int64[1,8] ids) => (float[1,8,32] y)
        { e = Gather(table, ids) m = MatMul(e, W) y = Add(e, m) }"""
    small = 0.001 * weight(32, 32)  # so that what is done to the product hardly shows
    path = write(lambda: model(text, {"table": weight(256, 32), "W": small}), tmp_path)
    done = onnx_ci(
        *("shrink", path, tmp_path / "small.onnx", "--methods", "dynamic-int8"),
        *("--tolerance", f"cosine={cosine}"),
        cwd=tmp_path,
    )
    assert done.code == 0, done.err
    made = onnx.load(tmp_path / "small.onnx")
    stored = {tensor.name.split("_quant")[0]: tensor.data_type for tensor in tensors(made)}
    assert (stored["table"], stored["W"]) == (kind, TensorProto.UINT8)
