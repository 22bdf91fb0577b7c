"""freeze-inputs: weights that are graph inputs too become constants; without it other methods say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_ci.model.interface import contract_breaks
from tests.support.cli import onnx_ci
from tests.support.run_model import identical, outputs
from tests.support.weight_models import applied
from tests.traps.base import Array, model, weight
from tests.traps.structure import all_weights_are_inputs, defaults_around_inputs

pytestmark = pytest.mark.sampled(2)

X = weight(2, 64, seed=7, scale=1.0)


def listed(weights: dict[str, Array], *, ir: int = 8, opset: int = 17) -> onnx.ModelProto:
    """Two layers whose weights are all inputs."""
    made = model("g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }", weights)
    made.ir_version, made.opset_import[0].version = ir, opset
    for name, value in weights.items():
        made.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape))
    return made


def two_layers(**settings: int) -> onnx.ModelProto:
    return listed({"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2)}, **settings)


def shrink(folder: Path, made: onnx.ModelProto, methods: str, *more: str | Path, code: int = 0) -> Any:
    onnx.save(made, folder / "in.onnx")
    arguments = ("--methods", methods, "--format", "json", *more)
    done = onnx_ci("shrink", "in.onnx", "out.onnx", *arguments, cwd=folder)
    assert done.code == code, done.err
    return done.json


def inputs(path: Path) -> list[str]:
    return [value.name for value in onnx.load(path).graph.input]


def notes(report: Any) -> dict[str, str]:
    return {step["method"]: step["note"] for step in report["steps"]}


def test_it_says_how_many_and_keeps_the_order_of_the_others(tmp_path: Path) -> None:
    path, chained = applied(defaults_around_inputs(), tmp_path, "freeze-inputs")
    assert chained.steps[0].note == "3 inputs frozen"
    assert inputs(path) == ["x", "z"]


def test_some_stay_inputs_by_name(tmp_path: Path) -> None:
    path, chained = applied(two_layers(), tmp_path, "freeze-inputs", skip=["V*"])
    assert chained.steps[0].note == "1 input frozen"
    assert inputs(path) == ["x", "V"]
    fed = {"x": X, "V": weight(64, 64, seed=9)}
    assert identical(outputs(tmp_path / "in.onnx", [fed]), outputs(path, [fed]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ir", [3, 4, 8])
@pytest.mark.parametrize(("methods", "most"), [("fp16-weights", 0.55), ("int8-weights", 0.35)])
def test_other_methods_profit(ir: int, methods: str, most: float, tmp_path: Path) -> None:
    """The order in which methods are named does not matter."""
    report = shrink(tmp_path, two_layers(ir=ir, opset=8), f"{methods},freeze-inputs")
    assert [step["method"] for step in report["steps"]] == ["freeze-inputs", methods]
    assert report["verification"]["status"] == "passed"
    assert report["after"]["size"] < most * report["before"]["size"]
    assert inputs(tmp_path / "out.onnx") == ["x"]
    assert onnx_ci("compare", "in.onnx", "out.onnx", cwd=tmp_path).code == 0


def test_before_ir_4_the_ir_version_is_raised(tmp_path: Path) -> None:
    path, chained = applied(all_weights_are_inputs(), tmp_path, "freeze-inputs")
    assert chained.steps[0].note == "4 inputs frozen; IR version 3 raised to 4"
    made = onnx.load(path)
    onnx.checker.check_model(made)
    assert made.ir_version == 4
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]


def test_older_models_are_left_alone(tmp_path: Path) -> None:
    """They don't say which opset they use, and from IR 3 on a model has to."""
    made = all_weights_are_inputs()
    made.ir_version = 2
    _, chained = applied(made, tmp_path, "freeze-inputs")
    assert chained.steps[0].note == "IR version 2 can't be raised to 4"


def test_it_is_done_by_default(tmp_path: Path) -> None:
    """In shrink without methods, and in a check without a policy."""
    same = weight(64, 64, seed=1)
    onnx.save(listed({"W": same, "V": same}), tmp_path / "in.onnx")
    done = onnx_ci("shrink", "in.onnx", "out.onnx", "--format", "json", cwd=tmp_path)
    assert "freeze-inputs" in notes(done.json)
    checked = onnx_ci("check", "in.onnx", cwd=tmp_path)
    assert checked.code == 1
    assert "with freeze-inputs, dedupe" in checked.out


@pytest.mark.parametrize(
    "method",
    ["dedupe", "fp16-weights", "int8-weights", "int4-weights", "extract-npy", "compact", "drop-unused"],
)
def test_where_it_is_not_allowed_others_say_what_they_leave_alone(method: str, tmp_path: Path) -> None:
    same = weight(64, 64, seed=1).astype(np.float16).astype(np.float32)
    made = listed({"W": same, "V": same, "idle": same})
    _, chained = applied(made, tmp_path, method)
    assert not chained.kept
    assert chained.steps[0].note.endswith(" too: add freeze-inputs")


@pytest.mark.parametrize("method", ["simplify", "dynamic-int8", "fuse-transformer"])
@pytest.mark.parametrize("ir", [3, 8])
def test_other_libraries_are_spared_and_it_is_said(method: str, ir: int, tmp_path: Path) -> None:
    _, chained = applied(two_layers(ir=ir), tmp_path, method)
    assert "add freeze-inputs" in chained.steps[0].note


def test_a_method_that_gains_nothing_anyway_says_nothing_of_inputs(tmp_path: Path) -> None:
    for method in ("strip-docs", "dedupe", "fold-constants"):
        _, chained = applied(two_layers(), tmp_path, method)
        assert chained.steps[0].note == "nothing to gain"


def test_what_is_planned_says_so_too(tmp_path: Path) -> None:
    made = two_layers()
    del made.graph.input[1]  # W is a constant, V is not
    report = shrink(tmp_path, made, "int8-weights")
    assert report["verdict"] == "shrunk"
    assert notes(report)["int8-weights"].endswith("1 weight is a graph input too: add freeze-inputs")


def test_where_bits_count_it_is_left_out(tmp_path: Path) -> None:
    """onnxruntime folds a normalization into constant weights and rounds elsewhere; the rest is done."""
    text = """g (float[1,8,9,9] x, float[8,8,3,3] W, float[8] s, float[8] m) => (float[1,8,7,7] y)
        { h = Conv(x, W, b) y = BatchNormalization(h, s, b, m, s) dead = Relu(idle) }"""
    weights = {"W": weight(8, 8, 3, 3, seed=1), "idle": weight(128, 64, seed=5)}
    numbers = {name: np.abs(weight(8, seed=seed)) + 1 for name, seed in (("s", 2), ("m", 3), ("b", 4))}
    made = model(text, {**weights, **numbers})
    methods = "freeze-inputs,drop-unused"
    report = shrink(tmp_path, made, methods)
    assert inputs(tmp_path / "out.onnx") == ["x"]
    (tmp_path / "out.onnx").unlink()
    report = shrink(tmp_path, made, methods, "--tolerance", "exact=true")
    assert [step["method"] for step in report["steps"]] == ["drop-unused"]
    assert inputs(tmp_path / "out.onnx") == ["x", "W", "s", "m"]
    assert any("freeze-inputs, drop-unused left out" in one["message"] for one in report["findings"])


def test_only_a_default_may_go() -> None:
    before, after = two_layers(ir=3), two_layers(ir=4)
    del after.graph.input[2]
    assert not contract_breaks(before, after, allow=["defaults"])
    assert len(contract_breaks(before, after)) == 2
    after.ir_version = 5
    assert contract_breaks(before, after, allow=["defaults"]) == ["IR version was 3 and is now 5"]
    after.ir_version = 4
    del after.graph.input[0]
    assert contract_breaks(before, after, allow=["defaults"]) == ["input 'x' is gone"]
    reordered = defaults_around_inputs()
    kept = [reordered.graph.input[4], reordered.graph.input[1]]
    del reordered.graph.input[:]
    reordered.graph.input.extend(kept)
    (broken,) = contract_breaks(defaults_around_inputs(), reordered, allow=["defaults"])
    assert "order" in broken
