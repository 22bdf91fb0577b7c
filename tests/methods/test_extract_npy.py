"""`extract-npy` and `restore`: constants out of a model as inputs, and back."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci import shrink
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Chained, Run, run_chain
from onnx_ci.methods.layout import restore_file
from onnx_ci.model.load import open_model
from onnx_ci.model.npy import KEY, recorded
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import replace_model
from onnx_ci.model.save import lay_out, write_model
from tests.methods.test_method_contract import MODELS
from tests.support.cli import onnx_ci
from tests.support.models import bloated, lean
from tests.support.run_model import fed, identical, outputs
from tests.traps import Trap, feeds_for

pytestmark = pytest.mark.sampled(20)

FEEDS: list[dict[str, Any]] = [{"x": np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)}]


def extract(path: Path, target: Path, **options: object) -> Chained:
    with open_model(path) as model:
        chained = run_chain(model, [Run(method("extract-npy"), options)], size=lay_out(model).size)
        target.parent.mkdir(exist_ok=True)
        write_model(chained.model, target)
        return chained


def saved(folder: Path, made: onnx.ModelProto, name: str = "m.onnx") -> Path:
    onnx.save(made, folder / name)
    return folder / name


def inputs(path: Path) -> list[str]:
    return [value.name for value in onnx.load(path, load_external_data=False).graph.input]


@pytest.mark.parametrize("trap", MODELS, ids=lambda trap: trap.name)
def test_everything_of_every_trap_goes_out_and_comes_back(trap: Trap, tmp_path: Path) -> None:
    """Whatever can be taken out is, by name; the way back must give the very same outputs."""
    path = trap.build(tmp_path)
    out, back = tmp_path / "out" / "model.onnx", tmp_path / "back.onnx"
    extract(path, out, tensors=["*"])
    restore_file(out, back)
    assert len(inputs(back)) == len(inputs(path))
    if trap.checks:
        onnx.checker.check_model(str(out))
        onnx.checker.check_model(str(back))
    if trap.runs and trap.repeats:
        feeds = feeds_for(trap, path)
        assert identical(outputs(path, feeds), outputs(back, feeds))


def test_repeated_constants_go_out_once(tmp_path: Path) -> None:
    path = saved(tmp_path, bloated())
    done = onnx_ci(
        "shrink", "m.onnx", "out.onnx", "--methods", "extract-npy", "--format", "json", cwd=tmp_path
    )
    assert done.code == 0, done.out
    assert done.json["verification"]["status"] == "passed"
    assert inputs(tmp_path / "out.onnx") == ["x", "w0"]
    file = tmp_path / "out.w0.npy"
    assert np.load(file).tobytes() == numpy_helper.to_array(onnx.load(path).graph.initializer[0]).tobytes()
    size = (tmp_path / "out.onnx").stat().st_size + file.stat().st_size
    assert done.json["after"]["size"] == size < done.json["before"]["size"]
    assert done.json["after"]["params"] == 64 * 64
    assert identical(outputs(path, FEEDS), outputs(tmp_path / "out.onnx", fed(FEEDS, tmp_path / "out.onnx")))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tensors": ["w1"]}, ["x", "w1"]),
        ({"ops": ["MatMul"]}, ["x", "w0", "w1"]),
        ({"ops": ["second"]}, ["x", "w1"]),
        ({"repeated": True}, ["x"]),
        ({"tensors": ["w1"], "repeated": True}, ["x", "w1"]),
        ({"tensors": ["absent"]}, ["x"]),
    ],
)
def test_names_choose(tmp_path: Path, options: dict[str, Any], expected: list[str]) -> None:
    made = lean()
    made.graph.node[2].name = "second"
    chained = extract(saved(tmp_path, made), tmp_path / "out" / "m.onnx", **options)
    assert inputs(tmp_path / "out" / "m.onnx") == expected
    assert ("'absent'" in chained.steps[0].note) == ("absent" in options.get("tensors", []))


def test_an_operator_in_branches_is_not_called_unmatched(tmp_path: Path) -> None:
    """Its tensors have other names once they are inputs; the note is about those that were there."""
    trap = next(trap for trap in MODELS if trap.name == "if_same_names_in_branches")
    done = extract(trap.build(tmp_path), tmp_path / "out" / "model.onnx", ops=["MatMul", "Conv"])
    assert done.steps[0].tensors == 2
    assert done.steps[0].note.endswith("; no stored tensor belongs to 'Conv'")


def test_an_input_keeps_type_and_shape(tmp_path: Path) -> None:
    weights = {"i": np.arange(600, dtype=np.int64).reshape(2, 300), "s": np.array(2.5, np.float64)}
    graph = helper.make_graph(
        [helper.make_node("Identity", ["i"], ["a"]), helper.make_node("Identity", ["s"], ["b"])],
        "g",
        [],
        [
            helper.make_tensor_value_info("a", TensorProto.INT64, [2, 300]),
            helper.make_tensor_value_info("b", TensorProto.DOUBLE, []),
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    out = tmp_path / "out" / "m.onnx"
    extract(saved(tmp_path, made), out, tensors=["*"])
    for name, value in weights.items():
        stored = np.load(out.parent / f"m.{name}.npy")
        assert (stored.dtype, stored.shape) == (value.dtype, value.shape)
    assert identical(outputs(tmp_path / "m.onnx", [{}]), outputs(out, fed([{}], out)))


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/passwd", "a\nb", "w:0", "..", "é" * 300, "C:\\x", "a\0b"]
)
def test_a_hostile_name_stays_in_the_folder(tmp_path: Path, name: str) -> None:
    made = lean()
    made.graph.initializer[0].name = name
    made.graph.node[0].input[1] = name
    folder = tmp_path / "folder" / "inner"
    folder.mkdir(parents=True)
    saved(folder, made)
    done = onnx_ci("shrink", "m.onnx", "out.onnx", "--methods", "extract-npy:ops=MatMul", cwd=folder)
    assert done.code == 0, done.out + done.err
    assert len(list(folder.glob("out.*.npy"))) == 2
    assert {file for file in tmp_path.rglob("*") if file.is_file()} == set(folder.iterdir())
    assert onnx_ci("restore", "out.onnx", "back.onnx", cwd=folder).code == 0
    assert identical(outputs(folder / "m.onnx", FEEDS), outputs(folder / "back.onnx", FEEDS))


@pytest.mark.parametrize(
    "file",
    ["../outside.npy", "/etc/hosts", "sub/x.npy", "x.txt", ".x.npy", 3, "\ud800.npy", "a" * 300 + ".npy"],
)
def test_a_forged_record_is_not_followed(tmp_path: Path, file: object) -> None:
    made = lean()
    made.metadata_props.add(key=KEY, value=json.dumps({"x": file}))
    path = saved(tmp_path, made)
    assert recorded(made) == {}
    assert onnx_ci("info", path, cwd=tmp_path).code == 0


def test_policy_check_fix_and_a_second_run(tmp_path: Path) -> None:
    saved(tmp_path, lean())
    (tmp_path / "m.w0.npy").write_bytes(b"somebody else's")
    rule = 'version: 1\nmodels:\n  - path: "*.onnx"\n    methods: [{extract-npy: {tensors: ["w*"]}}]\n'
    (tmp_path / ".onnx-ci.yaml").write_text(rule)
    checked = onnx_ci("check", cwd=tmp_path)
    assert checked.code == 1
    assert "would move 2 tensors: 32.8 kB to .npy files, fed as inputs" in checked.out
    fixed = onnx_ci("fix", cwd=tmp_path)
    assert fixed.code == 0, fixed.out
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(files) == {".onnx-ci.yaml", "m.onnx", "m.w0.npy", "m.w0-2.npy", "m.w1.npy"}
    assert files["m.w0.npy"] == b"somebody else's"
    for command in ("fix", "check"):
        assert onnx_ci(command, cwd=tmp_path).code == 0
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == files


@pytest.mark.parametrize("step", range(1, 14))
def test_model_and_files_fit_together_at_every_step_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each rename, copy and flush in turn fails: what is there must run with the files it names."""
    path = saved(tmp_path, lean())
    expected, calls = outputs(path, FEEDS), 0

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch, contextlib.suppress(ModelError), open_model(path) as model:
        patch.setattr(Path, "replace", failing(Path.replace))
        patch.setattr(shutil, "copyfile", failing(shutil.copyfile))
        patch.setattr(os, "fsync", failing(os.fsync))
        run = Run(method("extract-npy"), {"ops": ["MatMul"]})
        made = run_chain(model, [run], size=1 << 40).model
        replace_model(made, model, root=tmp_path, digest=model_digest(made))
    assert identical(expected, outputs(path, fed(FEEDS, path)))
    restore_file(path, path)
    assert identical(expected, outputs(path, FEEDS))


def test_an_extracted_model_can_be_shrunk_further(tmp_path: Path) -> None:
    """Its own files are fed to it; samples need not hold them, and its files stay with it."""
    saved(tmp_path, bloated())
    onnx_ci("shrink", "m.onnx", "a.onnx", "--methods", "extract-npy:tensors=w0", cwd=tmp_path)
    np.savez(tmp_path / "sample.npz", **FEEDS[0])
    arguments = ("--methods", "dedupe", "--samples", "sample.npz", "--format", "json")
    done = onnx_ci("shrink", "a.onnx", "b.onnx", *arguments, cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    assert done.json["verification"]["status"] == "passed"
    assert (tmp_path / "b.w0.npy").read_bytes() == (tmp_path / "a.w0.npy").read_bytes()
    assert onnx_ci("compare", "m.onnx", "b.onnx", cwd=tmp_path).code == 0
    assert onnx_ci("compare", "b.onnx", "m.onnx", cwd=tmp_path).code == 0


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    saved(tmp_path, lean())
    onnx_ci("shrink", "m.onnx", "out.onnx", "--methods", "extract-npy:ops=MatMul", cwd=tmp_path)
    np.save(tmp_path / "out.w0.npy", np.zeros((64, 64), np.float32))
    assert onnx_ci("compare", "m.onnx", "out.onnx", cwd=tmp_path).code == 1
    np.save(tmp_path / "out.w0.npy", np.zeros((64, 65), np.float32))
    refused = onnx_ci("restore", "out.onnx", "back.onnx", cwd=tmp_path)
    assert refused.code == 1
    assert "out.w0.npy" in refused.err
    assert not (tmp_path / "back.onnx").exists()


def test_restore_puts_back_what_was_lossless_and_remembers_what_was_not(tmp_path: Path) -> None:
    path = saved(tmp_path, lean())
    onnx_ci(
        "shrink",
        "m.onnx",
        "a.onnx",
        "--methods",
        "external-data:tensors=w0,extract-npy:tensors=w1",
        cwd=tmp_path,
    )
    assert {file.name for file in tmp_path.glob("a.*")} == {"a.onnx", "a.onnx.data", "a.w1.npy"}
    assert onnx_ci("restore", "a.onnx", "a.onnx", cwd=tmp_path).code == 0
    assert {file.name for file in tmp_path.glob("a.*")} == {"a.onnx"}
    one, other = onnx.load(path), onnx.load(tmp_path / "a.onnx")
    assert {t.name: t.raw_data for t in one.graph.initializer} == {
        t.name: t.raw_data for t in other.graph.initializer
    }
    assert [value.name for value in other.graph.input] == ["x"]
    assert not other.metadata_props
    onnx_ci("shrink", "m.onnx", "b.onnx", "--methods", "fp16-weights,extract-npy:tensors=w1*", cwd=tmp_path)
    onnx_ci("restore", "b.onnx", "c.onnx", cwd=tmp_path)
    again = onnx_ci(
        "shrink", "c.onnx", "d.onnx", "--methods", "int8-weights", "--format", "json", cwd=tmp_path
    )
    assert again.json["findings"][0]["code"] == "OCI011"


def test_models_in_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs paths"):
        shrink(lean(), methods=["extract-npy"])
