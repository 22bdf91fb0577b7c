"""Whatever happens while a model is replaced, a whole model stands at its path."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.methods.catalogue import METHODS
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.model import save
from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import replace_model


def make(path: Path, *, external: str = "", seed: int = 0, elements: int = 64) -> Path:
    """Two equal weights: dedupe has something to do."""
    weights = np.random.default_rng(seed).standard_normal((elements, elements)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, elements])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, elements])],
        [numpy_helper.from_array(weights, name) for name in "ab"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if external:
        onnx.save(model, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        onnx.save(model, path)
    return path


def dedupe_in_place(path: Path, root: Path | None = None) -> None:
    with open_model(path, root=root) as model:
        chained = run_chain(model, [Run(METHODS[0], {})], size=1 << 40)
        digest = model_digest(chained.model)
        replace_model(chained.model, model, root=root or path.parent, digest=digest)


def weights_of(path: Path) -> list[bytes]:
    return [numpy_helper.to_array(tensor).tobytes() for tensor in onnx.load(path).graph.initializer]


@pytest.mark.parametrize("external", ["", "model.onnx.data", "data/model.weights"])
def test_replaces_and_leaves_nothing_behind(tmp_path: Path, external: str) -> None:
    if "/" in external:
        (tmp_path / "data").mkdir()
    path = make(tmp_path / "model.onnx", external=external)
    before, files = weights_of(path), {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")}
    dedupe_in_place(path)
    assert weights_of(path) == before[:1]
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")} == files
    if external:
        assert (tmp_path / external).stat().st_size == len(before[0])


@pytest.mark.parametrize("external", ["weights.bin", "train.py", "model.py"])
def test_a_file_that_is_not_called_after_the_model_is_never_touched(tmp_path: Path, external: str) -> None:
    """A model can name any file as its data; that does not make the file its own."""
    path = make(tmp_path / "model.onnx", external=external)
    before = (tmp_path / external).read_bytes()
    weights = weights_of(path)
    dedupe_in_place(path)
    assert (tmp_path / external).read_bytes() == before
    assert weights_of(path) == weights[:1]
    assert (tmp_path / "model.onnx.data").exists()


def test_a_model_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = make(tmp_path / "model.onnx")
    newer = make(tmp_path / "newer.onnx", seed=1).read_bytes()
    with open_model(path) as model:
        chained = run_chain(model, [Run(METHODS[0], {})], size=1 << 40)
        digest = model_digest(chained.model)
        path.write_bytes(newer)
        with pytest.raises(ModelError, match="changed while"):
            replace_model(chained.model, model, root=tmp_path, digest=digest)
    assert path.read_bytes() == newer
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "newer.onnx"]


def test_keeps_the_file_mode(tmp_path: Path) -> None:
    path = make(tmp_path / "model.onnx", external="model.onnx.data")
    path.chmod(0o640)
    (tmp_path / "model.onnx.data").chmod(0o604)
    dedupe_in_place(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "model.onnx.data").stat().st_mode) == 0o604


def test_a_read_only_model_is_left_alone(tmp_path: Path) -> None:
    path = make(tmp_path / "model.onnx")
    path.chmod(0o444)
    before = path.read_bytes()
    with pytest.raises(ModelError, match="read-only"):
        dedupe_in_place(path)
    assert path.read_bytes() == before


def test_follows_a_link_inside_the_repository_only(tmp_path: Path) -> None:
    repository, outside = tmp_path / "repository", tmp_path / "outside"
    repository.mkdir()
    outside.mkdir()
    inner, outer = make(repository / "real.onnx"), make(outside / "real.onnx")
    (repository / "good.onnx").symlink_to(inner)
    (repository / "bad.onnx").symlink_to(outer)
    dedupe_in_place(repository / "good.onnx", repository)
    assert (repository / "good.onnx").is_symlink()
    assert len(weights_of(inner)) == 1
    before = outer.read_bytes()
    with pytest.raises(ModelError, match="outside the repository"):
        dedupe_in_place(repository / "bad.onnx", repository)
    assert outer.read_bytes() == before


@pytest.mark.parametrize("second", ["second.onnx", "SECOND.ONNX"])
def test_data_of_another_model_is_left_alone(tmp_path: Path, second: str) -> None:
    first = make(tmp_path / "first.onnx", external="first.data")
    shutil.copy(first, tmp_path / second)
    before = weights_of(tmp_path / second)
    dedupe_in_place(first)
    assert weights_of(tmp_path / second) == before
    assert weights_of(first) == before[:1]
    assert (tmp_path / "first.onnx.data").exists()


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "model.onnx", external="model.onnx.data")
    before, files = weights_of(path), sorted(tmp_path.iterdir())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(save, "write_all", full)
    with pytest.raises(ModelError, match="No space left"):
        dedupe_in_place(path)
    assert weights_of(path) == before
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize("step", range(1, 12))
def test_loads_at_every_step_of_a_replacement_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each rename, link and flush in turn fails; the model must load, and a second try must succeed."""
    path = make(tmp_path / "model.onnx", external="model.onnx.data")
    before = weights_of(path)
    calls = 0

    def failing(real: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **options)  # type: ignore[operator]

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing(Path.replace))
        patch.setattr(os, "fsync", failing(os.fsync))
        with contextlib.suppress(ModelError):
            dedupe_in_place(path)
    assert weights_of(path) in (before, before[:1])
    dedupe_in_place(path)
    assert weights_of(path) == before[:1]
    assert {file.name for file in tmp_path.iterdir()} >= {"model.onnx", "model.onnx.data"}
    assert (
        onnx.load(path, load_external_data=False).graph.initializer[0].external_data[0].value
        == "model.onnx.data"
    )


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.support.model_killing import loop
loop(Path(sys.argv[1]))
"""


@pytest.mark.sampled(0)
def test_survives_being_killed_at_any_moment(tmp_path: Path) -> None:
    """A child replaces a model over and over and is killed at odd moments; the model must always load."""
    path = make(tmp_path / "model.onnx", external="model.onnx.data", elements=256)
    tests = str(Path(__file__).parents[2])
    random = np.random.default_rng(1)
    seen = set()
    for _ in range(12):
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(tests=tests), str(path)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        for _ in range(random.integers(1, 4)):
            assert child.stdout.readline() == b"about to replace\n"
        time.sleep(float(random.uniform(0, 0.02)))
        child.kill()
        child.wait()
        child.stdout.close()
        loaded = onnx.load(path)
        onnx.checker.check_model(loaded)
        seen.add(loaded.metadata_props[0].value if loaded.metadata_props else "")
        leftovers = list(tmp_path.glob("*.onnx-ci-tmp")) + list(tmp_path.glob(".*.onnx-ci-tmp"))
        assert all(file.suffix != ".onnx" for file in leftovers)
    assert len(seen) > 1, "the child never got to replace the model"
