"""ort-optimize and optimize: graphs that other libraries rewrite, and models that break those libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_ci.methods import external_tools
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Chained, Run, run_chain
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from tests.support.run_model import outputs
from tests.traps import HOSTILE, Trap
from tests.traps.base import floats, model, weight, write

pytestmark = pytest.mark.sampled(12)

GELU = """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) a = Div(h, root) b = Erf(a) c = Add(b, one)
    d = Mul(h, c) y = Mul(d, half) }"""
NUMBERS = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
BATCH_NORM = """g (float[1,8,8,8] x) => (float[1,8,8,8] y) { h = Conv<pads = [1,1,1,1]>(x, W)
    y = BatchNormalization(h, s, b, m, v) }"""


def rewritten(name: str, options: dict[str, Any], path: Path) -> Chained:
    with open_model(path) as opened:
        chained = run_chain(opened, [Run(method(name), options)], size=path.stat().st_size)
        write_model(chained.model, path.with_name("made.onnx"))
    return chained


def ops(path: Path) -> list[tuple[str, str]]:
    return [(node.domain, node.op_type) for node in onnx.load(path).graph.node]


def test_extended_uses_operators_of_the_runtime_and_says_so(tmp_path: Path) -> None:
    weights = {"W": weight(64, 64), **{name: np.asarray(value) for name, value in NUMBERS.items()}}
    path = write(lambda: model(GELU, weights), tmp_path)
    step = rewritten("ort-optimize", {"level": "extended"}, path).steps[0]
    made = onnx.load(path.with_name("made.onnx"))
    assert ("com.microsoft", "Gelu") in ops(path.with_name("made.onnx"))
    assert [entry.domain for entry in made.opset_import] == ["", "com.microsoft"]
    assert "runs in onnxruntime" in step.note
    feeds = floats(2, 64)()
    np.testing.assert_allclose(outputs(path.with_name("made.onnx"), feeds), outputs(path, feeds), atol=1e-5)


def test_batch_normalization_goes_into_the_convolution(tmp_path: Path) -> None:
    weights = {"W": weight(8, 8, 3, 3), **{k: np.abs(weight(8, seed=3)) for k in "sbmv"}}
    path = write(lambda: model(BATCH_NORM, weights), tmp_path)
    rewritten("ort-optimize", {}, path)
    assert ops(path.with_name("made.onnx")) == [("", "Conv")]
    feeds = floats(1, 8, 8, 8)()
    np.testing.assert_allclose(outputs(path.with_name("made.onnx"), feeds), outputs(path, feeds), atol=1e-4)


def test_what_cancels_out_goes(tmp_path: Path) -> None:
    text = """g (float[2,64] x) => (float[2,64] y) { a = Transpose(x) b = Transpose(a) c = Identity(b)
        h = MatMul(c, W) y = Add(h, B) }"""
    path = write(lambda: model(text, {"W": weight(64, 64), "B": weight(64)}), tmp_path)
    rewritten("optimize", {}, path)
    assert ops(path.with_name("made.onnx")) == [("", "MatMul"), ("", "Add")]
    feeds = floats(2, 64)()
    np.testing.assert_allclose(outputs(path.with_name("made.onnx"), feeds), outputs(path, feeds), atol=1e-5)


def test_only_the_passes_that_are_named_are_run(tmp_path: Path) -> None:
    text = BATCH_NORM.replace("y = Batch", "k = Batch").replace("}", " y = Identity(k) }")
    weights = {"W": weight(8, 8, 3, 3), **{k: np.abs(weight(8, seed=3)) for k in "sbmv"}}
    path = write(lambda: model(text, weights), tmp_path)
    rewritten("optimize", {"passes": ["eliminate_identity"]}, path)
    assert [op for _, op in ops(path.with_name("made.onnx"))] == ["Conv", "BatchNormalization"]


def test_an_unknown_pass_is_a_failure_that_is_told(tmp_path: Path) -> None:
    path = write(lambda: model(BATCH_NORM, {"W": weight(8, 8, 3, 3)}), tmp_path)
    step = rewritten("optimize", {"passes": ["no_such_pass"]}, path).steps[0]
    assert step.failed
    assert "no_such_pass" in step.note


@pytest.mark.parametrize("name", ["simplify", "optimize", "ort-optimize"])
@pytest.mark.parametrize("trap", HOSTILE, ids=lambda trap: trap.name)
def test_models_that_kill_a_library_leave_us_alive(
    trap: Trap, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_tools, "SECONDS", 4.0)
    path = trap.build(tmp_path)
    step = rewritten(name, {}, path).steps[0]
    if step.failed:
        assert step.note.startswith(f"{name} failed: ")
        assert step.size_after == step.size_before


def test_a_crash_and_a_hang_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_tools, "SECONDS", 4.0)
    found = {trap.name: rewritten("ort-optimize", {}, trap.build(tmp_path)).steps[0].note for trap in HOSTILE}
    assert "crashed" in found["crashes_at_load"]
    assert "did not finish within 4 s" in found["hangs_at_load"]
