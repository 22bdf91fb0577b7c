"""How a child is started: which modules it can see, which variables, how much memory it gets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_ci
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox import process, runner, worker
from onnx_ci.sandbox.process import environment, memory_for, module_path, stored_bytes
from onnx_ci.sandbox.runner import Runner
from tests.support.known import known
from tests.support.text_models import LINEAR, model, save

pytestmark = pytest.mark.cold
HOME = str(Path(onnx_ci.__file__).resolve().parent.parent)
GIB = 1 << 30


def test_modules_of_the_folder_under_test_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("onnxruntime", "numpy", "json", "queue", "statistics"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(3)")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit(4)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    path = save(model(LINEAR), tmp_path / "model.onnx")
    with Runner() as runner:
        assert runner.run(path, [{"x": np.ones((1, 4), np.float32)}], limits=Limits(seconds=30))


def test_the_path_keeps_our_own_place_in_a_checkout(tmp_path: Path) -> None:
    found = module_path(["", ".", str(tmp_path), "src", "/site"], cwd=Path(HOME))
    assert found == [str(tmp_path), str(Path(HOME, "src")), "/site", HOME]
    assert str(tmp_path) not in module_path([str(tmp_path)], cwd=tmp_path)


def test_the_environment_is_cleaned() -> None:
    before = {
        "PATH": "/bin",
        "HOME": "/root",
        "LD_LIBRARY_PATH": "/lib",
        "PYTHONPATH": ".",
        "PYTHONSTARTUP": "x",
        "ORT_LOAD_CONFIG_FROM_MODEL": "1",
        "GITHUB_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "DB_PASSWORD": "secret",
    }
    after = environment(before)
    assert {"PATH", "HOME", "LD_LIBRARY_PATH"} <= after.keys()
    assert not after.keys() & (before.keys() - {"PATH", "HOME", "LD_LIBRARY_PATH"})


def test_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_physical", lambda: 64 * GIB)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")
    assert memory_for(stored_bytes(path), GIB) == GIB
    assert memory_for(stored_bytes(path), 123) == GIB // 2
    assert memory_for(stored_bytes(path)) == 4 * GIB
    with (tmp_path / "model.onnx.data").open("wb") as file:
        file.truncate(GIB)
    assert memory_for(stored_bytes(path)) == 8 * (GIB + 1)
    monkeypatch.setattr(process, "_physical", lambda: 5 * GIB)
    assert memory_for(stored_bytes(path)) == 4 * GIB
    monkeypatch.setattr(process, "_physical", lambda: None)
    assert memory_for(2 * stored_bytes(path)) == 16 * (GIB + 1)
    assert memory_for(stored_bytes(tmp_path / "gone" / "m.onnx")) == 4 * GIB


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="POSIX")
def test_physical_memory_is_known() -> None:
    assert known(process._physical()) > 1 << 28


def test_a_worker_has_as_many_threads_as_the_container_has_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(_: process.Child, request: dict[str, Any], **__: object) -> dict[str, Any]:
        asked.append(request)
        return {"kind": "ok", "operators": []}

    monkeypatch.setattr(runner, "processors", lambda: 3)
    monkeypatch.setattr(process.Child, "ask", answer)
    with Runner() as one:
        one.operators()
    assert [worker._threads(request) for request in asked] == [3]
    usual = [worker._threads({"threads": number}) for number in (1, 2, 99)]
    other = [worker._threads({"threads": number, "other_threads": True}) for number in (1, 2, 99)]
    assert (usual, other) == ([1, 2, 8], [2, 1, 1])
