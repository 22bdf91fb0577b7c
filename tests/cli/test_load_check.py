"""A model that nothing is to be done to is loaded and run once: garbage is no `ok`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.cli import call, onnx_ci, plain_environment
from tests.support.git_repo import Repository, write_policy
from tests.support.models import lean, save_outside
from tests.traps.hostile import crashes_at_load

pytestmark = pytest.mark.sampled(9)

WEIGH = "    methods: []\n"


def nan_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    for tensor in model.graph.initializer:
        tensor.raw_data = np.full(tensor.dims, np.nan, np.float32).tobytes()
    return model


def with_nan_output() -> onnx.ModelProto:
    model = lean()
    model.graph.node.append(helper.make_node("Div", ["zero", "zero"], ["odd"]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(4, np.float32), "zero"))
    model.graph.output.append(helper.make_tensor_value_info("odd", TensorProto.FLOAT, [4]))
    return model


def with_operator(name: str, domain: str) -> onnx.ModelProto:
    model = lean()
    model.graph.node[1].op_type, model.graph.node[1].domain = name, domain
    if domain:
        model.opset_import.add(domain=domain, version=1)
    return model


def in_versions(*, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    model = lean()
    model.opset_import[0].version, model.ir_version = opset, ir
    return model


def dangling() -> onnx.ModelProto:
    model = lean()
    model.graph.node[0].input[1] = "nowhere"
    return model


def shapes_that_never_fit() -> onnx.ModelProto:
    model = lean()
    model.graph.node.insert(0, helper.make_node("Reshape", ["x", "seven"], ["x7"]))
    model.graph.node[1].input[0] = "x7"
    model.graph.initializer.append(numpy_helper.from_array(np.array([7, 64]), "seven"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    return model


def sparse_input() -> onnx.ModelProto:
    """No values can be made up for it."""
    model = lean()
    kind = helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2, 2])
    model.graph.input.append(helper.make_value_info("extra", kind))
    return model


def checked(tmp_path: Path, model: onnx.ModelProto, rule: str = WEIGH, *more: str) -> tuple[int, Any]:
    write_policy(tmp_path, rule)
    onnx.save(model, tmp_path / "m.onnx")
    done = call("check", "m.onnx", "--format", "json", *more, cwd=tmp_path)
    return done.code, done.json["models"][0]


def told(model: Any) -> list[tuple[str, str]]:
    return [(finding["code"], finding["severity"]) for finding in model["findings"]]


BROKEN: list[tuple[str, Callable[[], onnx.ModelProto], str]] = [
    ("nan", lambda: nan_weights(lean()), "OCI054"),
    ("no such operator", lambda: with_operator("MatMum", ""), "OCI053"),
    ("dangling", dangling, "OCI053"),
    ("opset zero", lambda: in_versions(opset=0), "OCI053"),
]


@pytest.mark.parametrize(("make", "code"), [(make, code) for _, make, code in BROKEN])
def test_what_can_not_work_is_an_error(tmp_path: Path, make: Callable[[], Any], code: str) -> None:
    exit_code, model = checked(tmp_path, make())
    assert (exit_code, model["verdict"], told(model)) == (1, "unverified", [(code, "error")])
    assert "load_check: off" in model["findings"][0]["hint"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: with_operator("Foo", "my.ops"), "my.ops:Foo"),
        (lambda: with_operator("Foo", "com.microsoft"), "com.microsoft:Foo"),
        (lambda: in_versions(opset=99), "99"),
        (lambda: in_versions(ir=99), "99"),
    ],
)
def test_what_this_onnxruntime_lacks_is_a_warning(
    tmp_path: Path, make: Callable[[], Any], words: str
) -> None:
    exit_code, model = checked(tmp_path, make())
    assert (exit_code, model["verdict"], told(model)) == (0, "ok", [("OCI053", "warning")])
    assert "could not be loaded here" in model["findings"][0]["message"]
    assert words in model["findings"][0]["message"]


def test_custom_operators_are_told_of_libraries(tmp_path: Path) -> None:
    _, model = checked(tmp_path, with_operator("Foo", "my.ops"))
    assert "libraries:" in model["findings"][0]["hint"]


@pytest.mark.parametrize("make", [shapes_that_never_fit, sparse_input])
def test_loaded_and_not_run_is_a_warning(tmp_path: Path, make: Callable[[], Any]) -> None:
    exit_code, model = checked(tmp_path, make())
    assert (exit_code, told(model)) == (0, [("OCI053", "warning")])
    assert "it was not run" in model["findings"][0]["message"]


def test_samples_that_do_not_run_are_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((2, 64), np.float32))
    exit_code, model = checked(
        tmp_path, shapes_that_never_fit(), WEIGH + '    inputs: {samples: ["s.npz"]}\n'
    )
    assert (exit_code, model["verdict"], told(model)) == (1, "unverified", [("OCI053", "error")])


def test_a_crash_is_an_error(tmp_path: Path) -> None:
    exit_code, model = checked(tmp_path, crashes_at_load())
    assert (exit_code, model["verdict"], told(model)) == (1, "unverified", [("OCI013", "error")])


def test_one_output_of_nothing_but_nan_is_a_warning(tmp_path: Path) -> None:
    exit_code, model = checked(tmp_path, with_nan_output())
    assert (exit_code, told(model)) == (0, [("OCI054", "warning")])
    assert "'odd'" in model["findings"][0]["message"]


@pytest.mark.parametrize("word", ["off", "false", "no"])
def test_it_can_be_turned_off(tmp_path: Path, word: str) -> None:
    exit_code, model = checked(tmp_path, nan_weights(lean()), WEIGH + f"    load_check: {word}\n")
    assert (exit_code, model["verdict"], told(model)) == (0, "ok", [])


def test_severity_counts(tmp_path: Path) -> None:
    rule = WEIGH + "    load_check: on\n    severity: warning\n"
    exit_code, model = checked(tmp_path, nan_weights(lean()), rule)
    assert (exit_code, told(model)) == (0, [("OCI054", "warning")])


def test_a_second_run_starts_no_worker(tmp_path: Path) -> None:
    write_policy(tmp_path, WEIGH)
    onnx.save(lean(), tmp_path / "m.onnx")
    save_outside(nan_weights(lean()), tmp_path / "n.onnx")
    first = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    script = (
        "import sys, onnx_ci.sandbox.process as p\n"
        "def refuse(*a, **k): raise AssertionError('a worker was started')\n"
        "p.Child._start = refuse\n"
        "from onnx_ci.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    again = subprocess.run(
        [sys.executable, "-c", script, "check", "--all", "--format", "json"],
        cwd=tmp_path,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (first.code, again.returncode) == (1, 1), again.stderr
    assert "a worker was started" not in again.stdout
    assert '"models"' in again.stdout, again.stderr  # it got to its report


@pytest.fixture
def committed(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    write_policy(repository.root, WEIGH)
    onnx.save(lean(), repository.root / "m.onnx")
    save_outside(lean(seed=5), repository.root / "outside.onnx")
    repository.commit_all("first")
    return repository


def notes(repository: Repository, *arguments: str) -> dict[str, list[str]]:
    done = call("check", *arguments, "--format", "json", cwd=repository.root)
    return {
        model["path"]: [f["message"] for f in model["findings"] if f["code"] == "OCI055"]
        for model in done.json["models"]
    }


def test_how_far_outputs_moved_is_a_note(committed: Repository) -> None:
    model = lean()
    weight = numpy_helper.to_array(model.graph.initializer[0]) * np.float32(1.2)
    model.graph.initializer[0].raw_data = weight.tobytes()
    onnx.save(model, committed.root / "m.onnx")
    save_outside(lean(seed=6), committed.root / "outside.onnx")
    for _ in range(2):  # as found out, and as remembered
        found = notes(committed)
        assert "'y' moved most, to a cosine of 0.99" in found["m.onnx"][0]
        assert "max_abs" in found["m.onnx"][0]
        assert "moved most" in found["outside.onnx"][0]
    committed.git("add", "--all")
    assert "moved most" in notes(committed, "--staged")["m.onnx"][0]


def test_nan_where_numbers_were_is_no_small_move(committed: Repository) -> None:
    model = lean()
    weight = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[:, 1:] = np.nan
    model.graph.initializer[0].raw_data = weight.tobytes()
    onnx.save(model, committed.root / "m.onnx")
    for _ in range(2):  # as found out, and as remembered
        assert "'y' has NaN or infinity at other places than before" in notes(committed)["m.onnx"][0]


def test_another_graph_is_not_compared(committed: Repository) -> None:
    onnx.save(lean(layers=3), committed.root / "m.onnx")
    assert notes(committed)["m.onnx"] == []
    assert notes(committed, "--all")["outside.onnx"] == []


def test_garbage_is_refused_by_the_hook(committed: Repository) -> None:
    onnx.save(nan_weights(lean()), committed.root / "m.onnx")
    committed.git("add", "--all")
    done = call("check", "--staged", "--hook", "--", "m.onnx", cwd=committed.root)
    assert done.code == 1
    assert "OCI054" in done.out
