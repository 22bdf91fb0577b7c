"""`external-data`: what goes out, what stays, what it is called, and the way back."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Chained, Run, run_chain
from onnx_ci.model.graph import tensors
from onnx_ci.model.load import open_model
from onnx_ci.model.save import lay_out, write_model
from tests.methods.test_method_contract import MODELS
from tests.support.cli import onnx_ci
from tests.support.models import bloated, lean
from tests.support.run_model import identical, outputs
from tests.traps import Trap, feeds_for

pytestmark = pytest.mark.sampled(12)

FEEDS = [{"x": np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)}]
RULE = 'version: 1\nmodels:\n  - path: "*.onnx"\n    methods: [{external-data: {threshold: 1 kB}}]\n'


def move(path: Path, target: Path, **options: object) -> Chained:
    with open_model(path) as model:
        chained = run_chain(model, [Run(method("external-data"), options)], size=lay_out(model).size)
        values = [[bytes(one.raw(tensor)) for tensor in tensors(one.proto)] for one in (model, chained.model)]
        assert values[0] == values[1], "moving bytes must not change them"
        target.parent.mkdir(exist_ok=True)
        write_model(chained.model, target)
        return chained


def external(path: Path) -> dict[str, str]:
    """Tensors outside the file, by name, and where they are."""
    graph = onnx.load(path, load_external_data=False).graph
    return {
        tensor.name: tensor.external_data[0].value
        for tensor in graph.initializer
        if tensor.data_location == TensorProto.EXTERNAL
    }


def saved(folder: Path, made: onnx.ModelProto, name: str = "m.onnx") -> Path:
    onnx.save(made, folder / name)
    return folder / name


@pytest.mark.parametrize("trap", MODELS, ids=lambda trap: trap.name)
def test_every_trap_survives_the_way_out_and_back(trap: Trap, tmp_path: Path) -> None:
    path = trap.build(tmp_path)
    out, back = tmp_path / "out" / "model.onnx", tmp_path / "back" / "model.onnx"
    moved = bool(move(path, out, threshold="1 kB").kept)
    assert not move(out, tmp_path / "again" / "model.onnx", threshold="1 kB").kept
    move(out, back, embed=True)
    assert [file.name for file in back.parent.iterdir()] == ["model.onnx"]
    if trap.checks:
        onnx.checker.check_model(str(out))
        onnx.checker.check_model(str(back))
    if trap.runs and trap.repeats:
        feeds = feeds_for(trap, path)
        expected = outputs(path, feeds)
        assert identical(expected, outputs(out, feeds)), f"moved: {moved}"
        assert identical(expected, outputs(back, feeds))


def test_only_what_is_large_enough_goes_out(tmp_path: Path) -> None:
    path = saved(tmp_path, lean())
    assert not move(path, tmp_path / "a" / "m.onnx").kept
    assert not move(path, tmp_path / "b" / "m.onnx", threshold="17 kB").kept
    move(path, tmp_path / "c" / "m.onnx", threshold="16 kB")
    assert external(tmp_path / "c" / "m.onnx") == {"w0": "m.onnx.data", "w1": "m.onnx.data"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tensors": ["w0", "w2"]}, ["w0", "w2"]),
        ({"tensors": ["w[12]"]}, ["w1", "w2"]),
        ({"ops": ["MatMul"]}, ["w0", "w1", "w2", "w3"]),
        ({"ops": ["third"]}, ["w2"]),
        ({"ops": ["Tanh"]}, []),
        ({"tensors": ["w3"], "ops": ["third"]}, ["w2", "w3"]),
    ],
)
def test_names_choose(tmp_path: Path, options: dict[str, object], expected: list[str]) -> None:
    made = bloated()
    made.graph.node[4].name = "third"
    chained = move(saved(tmp_path, made), tmp_path / "out" / "m.onnx", **options)
    assert sorted(external(tmp_path / "out" / "m.onnx")) == expected
    if not expected:
        assert "'Tanh'" in chained.steps[0].note


def test_check_tells_fix_moves_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, lean())
    (tmp_path / ".onnx-ci.yaml").write_text(RULE)
    before = path.read_bytes()
    checked = onnx_ci("check", cwd=tmp_path)
    assert checked.code == 1
    assert "OCI020 m.onnx: would move 2 tensors: 32.8 kB to external data (.onnx-ci.yaml:3)" in checked.out
    assert "would change" in checked.out
    assert path.read_bytes() == before
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert (tmp_path / "m.onnx.data").stat().st_size == 2 * 64 * 64 * 4
    assert path.stat().st_size < 2000
    snapshot = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert onnx_ci("check", cwd=tmp_path).code == 0
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == snapshot


def test_a_model_that_was_embedded_again_is_noticed(tmp_path: Path) -> None:
    """Its receipt still holds, since the model is the same: only where its bytes are is not."""
    path = saved(tmp_path, lean())
    (tmp_path / ".onnx-ci.yaml").write_text(RULE)
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    onnx.save(onnx.load(path), path)
    assert not external(path)
    assert "OCI020" in onnx_ci("check", cwd=tmp_path).out
    (tmp_path / "m.onnx.data").unlink()
    assert onnx_ci("fix", cwd=tmp_path).code == 0
    assert set(external(path).values()) == {"m.onnx.data"}


def test_it_comes_after_what_shrinks_and_is_never_a_default(tmp_path: Path) -> None:
    path = saved(tmp_path, bloated())
    expected = outputs(path, FEEDS)
    methods = "external-data:threshold=1kB,dedupe"
    done = onnx_ci("shrink", "m.onnx", "out.onnx", "--methods", methods, "--format", "json", cwd=tmp_path)
    assert done.code == 0
    assert [step["method"] for step in done.json["steps"]] == ["dedupe", "external-data"]
    assert external(tmp_path / "out.onnx") == {"w0": "out.onnx.data"}
    assert identical(expected, outputs(tmp_path / "out.onnx", FEEDS))
    onnx_ci("shrink", "m.onnx", "plain.onnx", cwd=tmp_path)
    assert not external(tmp_path / "plain.onnx")


def test_a_name_of_ones_own_and_files_of_others(tmp_path: Path) -> None:
    saved(tmp_path, lean())
    arguments = ("--methods", "external-data:threshold=1kB:file=weights.bin")
    assert onnx_ci("shrink", "m.onnx", "one.onnx", *arguments, cwd=tmp_path).code == 0
    assert onnx_ci("shrink", "m.onnx", "two.onnx", *arguments, cwd=tmp_path).code == 0
    assert set(external(tmp_path / "one.onnx").values()) == {"weights.bin"}
    assert set(external(tmp_path / "two.onnx").values()) == {"two.onnx.data"}
    (tmp_path / "m.onnx.data").write_bytes(b"not yours")
    assert (
        onnx_ci("shrink", "m.onnx", "m.onnx", "--methods", "external-data:threshold=1kB", cwd=tmp_path).code
        == 0
    )
    assert (tmp_path / "m.onnx.data").read_bytes() == b"not yours"
    assert set(external(tmp_path / "m.onnx").values()) == {"m.onnx-2.data"}
    onnx.checker.check_model(str(tmp_path / "m.onnx"))


def test_data_of_the_source_is_not_written_over(tmp_path: Path) -> None:
    """The source keeps its data under the very name that the new model would like."""
    onnx.save(
        lean(), tmp_path / "m.onnx", save_as_external_data=True, location="out.onnx.data", size_threshold=0
    )
    before = (tmp_path / "out.onnx.data").read_bytes()
    done = onnx_ci("shrink", "m.onnx", "out.onnx", "--methods", "fp16-weights", cwd=tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "out.onnx.data").read_bytes() == before
    onnx.checker.check_model(str(tmp_path / "out.onnx"))


def test_embed_takes_everything_back_and_removes_the_data_file(tmp_path: Path) -> None:
    saved(tmp_path, lean())
    original = outputs(tmp_path / "m.onnx", FEEDS)
    onnx_ci("shrink", "m.onnx", "m.onnx", "--methods", "external-data:threshold=1kB", cwd=tmp_path)
    shutil.copytree(tmp_path, tmp_path / "copy")
    done = onnx_ci("shrink", "m.onnx", "m.onnx", "--methods", "external-data:embed=true", cwd=tmp_path)
    assert done.code == 0, done.err
    assert not external(tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx.data").exists()
    assert identical(original, outputs(tmp_path / "m.onnx", FEEDS))


@pytest.mark.parametrize("name", ["../x.data", "a/b", "c:\\x", "model.onnx", "..", "a\nb"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="beside the model"):
        method("external-data").read_options({"file": name})
