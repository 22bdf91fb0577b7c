"""simplify: what other libraries do to a model, and that nothing else of it changes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.cli import onnx_ci
from tests.support.run_model import outputs
from tests.traps.base import model, weight
from tests.traps.shrunk import SHRUNK

pytestmark = pytest.mark.sampled(4)

W = weight(64, 64, seed=1)
TEXT = """g (float[batch,64] x) => (float[batch,64] y) { a = Add(half, half) b = Mul(a, V) k = Identity(x)
    h = MatMul(k, b) y = Identity(h) }"""


def roundabout() -> onnx.ModelProto:
    """A weight computed from two stored ones, and nodes that do nothing."""
    made = model(TEXT, {"V": W, "half": np.full((64, 64), 0.5, np.float32)})
    made.doc_string, made.model_version, made.producer_version = "what it is", 7, "3.1"
    made.metadata_props.add(key="author", value="me")
    return made


def saved(made: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(made, folder / "in.onnx")
    return folder / "in.onnx"


def first_on_path(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("engine", ["onnxslim", "onnxsim"])
def test_what_is_constant_is_computed_and_the_interface_stays(engine: str, tmp_path: Path) -> None:
    path = saved(roundabout(), tmp_path)
    done = onnx_ci(
        "shrink", path, "out.onnx", "--methods", f"simplify:engine={engine}", "--format", "json", cwd=tmp_path
    )
    assert done.code == 0, done.err
    assert done.json["verdict"] == "shrunk"
    before, after = onnx.load(path), onnx.load(tmp_path / "out.onnx")
    assert len(after.graph.node) == 1
    assert len(after.graph.initializer) == 1
    assert after.graph.input == before.graph.input
    assert after.graph.output == before.graph.output
    kept = ("doc_string", "model_version", "producer_name", "producer_version", "ir_version", "opset_import")
    assert all(getattr(after, name) == getattr(before, name) for name in kept)
    assert after.metadata_props[0] == before.metadata_props[0]
    feeds = [{"x": weight(3, 64, seed=5)}]
    np.testing.assert_allclose(outputs(tmp_path / "out.onnx", feeds), outputs(path, feeds), rtol=1e-5)


def test_short_constants_keep_their_type(tmp_path: Path) -> None:
    """onnxslim makes doubles of them, and its result would not load."""
    made = roundabout()
    made.graph.node[-1].CopyFrom(onnx.helper.make_node("Mul", ["h", "two"], ["y"]))
    made.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["two"], value_float=2.0))
    path = saved(made, tmp_path)
    done = onnx_ci("shrink", path, "out.onnx", "--methods", "simplify", "--format", "json", cwd=tmp_path)
    assert done.json["verdict"] == "shrunk"
    assert done.json["verification"]["status"] == "passed"


def test_tensors_go_back_to_the_data_file(tmp_path: Path) -> None:
    made = roundabout()
    onnx.save(made, tmp_path / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=0)
    before = (tmp_path / "in.data").stat().st_size
    done = onnx_ci("shrink", "in.onnx", "in.onnx", "--methods", "simplify", "--format", "json", cwd=tmp_path)
    assert done.json["verdict"] == "shrunk"
    assert (tmp_path / "in.data").stat().st_size == before / 2
    assert (tmp_path / "in.onnx").stat().st_size < 2000


def test_encoded_weights_are_left_alone_and_said(tmp_path: Path) -> None:
    path = next(trap for trap in SHRUNK if trap.name == "int8_cast_mul").build(tmp_path)
    done = onnx_ci("shrink", path, "out.onnx", "--methods", "simplify", "--format", "json", cwd=tmp_path)
    assert done.json["verdict"] == "ok"
    assert "weights are stored encoded" in done.json["steps"][0]["note"]


def test_a_failure_is_a_warning_and_the_other_methods_go_on(tmp_path: Path) -> None:
    """onnxsim refuses nodes that stand in another order than they run in; onnxruntime does not mind."""
    text = "g (float[2,64] x) => (float[2,64] y) { y = MatMul(h, V) h = MatMul(x, W) }"
    path = saved(model(text, {"W": W, "V": W}), tmp_path)
    methods = "simplify:engine=onnxsim,dedupe"
    done = onnx_ci("shrink", path, "out.onnx", "--methods", methods, "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["verdict"] == "shrunk"
    steps = {step["method"]: step for step in done.json["steps"]}
    assert steps["simplify"]["failed"]
    assert steps["simplify"]["note"].startswith("simplify failed: ")
    assert not steps["dedupe"]["failed"]
    finding = next(finding for finding in done.json["findings"] if finding["code"] == "OCI022")
    assert finding["severity"] == "warning"


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    blocked = tmp_path / "path"
    blocked.mkdir()
    (blocked / "onnxslim.py").write_text("raise ModuleNotFoundError(\"No module\", name='onnxslim')")
    path = saved(roundabout(), tmp_path)
    done = onnx_ci(
        "shrink", path, "out.onnx", "--methods", "simplify", cwd=tmp_path, env=first_on_path(blocked)
    )
    assert done.code == 3
    assert "simplify needs the package onnxslim" in done.err
    assert "pip install 'onnx-ci[simplify]'" in done.err


WRONG = """
def slim(model, **_):
    if len(model.graph.node) == 2:
        del model.graph.node[1], model.graph.initializer[1]
        model.graph.node[0].output[0] = "y"
    return model
"""


def test_where_a_library_is_wrong_the_others_are_tried_without_it(tmp_path: Path) -> None:
    """onnxslim 0.1.98 computes another pitch with crepe; here a stand-in for it is wrong on purpose."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "onnxslim.py").write_text(WRONG)
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }"
    path = saved(model(text, {"W": W, "V": W}), tmp_path)
    arguments = ("shrink", path, "out.onnx", "--methods", "simplify,dedupe", "--format", "json")
    done = onnx_ci(*arguments, cwd=tmp_path, env=first_on_path(tmp_path / "path"))
    assert done.code == 0, done.err
    assert [step["method"] for step in done.json["steps"]] == ["dedupe"]
    assert done.json["verification"]["status"] == "passed"
    assert done.json["alternatives"][0]["methods"] == ["simplify"]
