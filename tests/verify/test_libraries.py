"""Custom operators: run with the library that is named, and with nothing that a model could name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import RunFailed, Runner
from onnx_ci.sandbox.versions import custom_operators
from tests.support.cli import Done, call
from tests.support.text_models import save
from tests.traps.domains import ep_context

POLICY = 'version: 1\nmodels:\n  - {path: "*.onnx", methods: [dedupe], libraries: ["%s"]}\n'
DOMAIN = "ai.onnx.contrib"


@pytest.fixture(scope="module")
def library() -> Path:
    found = pytest.importorskip("onnxruntime_extensions")
    return Path(found.get_library_path())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a model that needs a library."""
    folder = tmp_path / "repository"
    (folder / "ops").mkdir(parents=True)
    save(halves(), folder / "m.onnx")
    (folder / ".onnx-ci.yaml").write_text(POLICY % "ops/libops.so")
    return folder


def halves() -> onnx.ModelProto:
    """The positive part of a product, and one more product with the same weight."""
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("NegPos", ["h"], ["below", "above"], domain=DOMAIN),
        helper.make_node("MatMul", ["above", "b"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 64]) for name in "xy"]
    stored = [numpy_helper.from_array(weight, name) for name in "ab"]
    graph = helper.make_graph(nodes, "halves", values[:1], values[1:], stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def checked(folder: Path) -> tuple[Done, str]:
    """What `check` says, and all its findings as one text."""
    done = call("check", "--all", "--format", "json", cwd=folder)
    (outcome,) = done.json["models"]
    return done, " ".join(f"{one['code']} {one['message']} {one['hint']}" for one in outcome["findings"])


def test_with_its_library_it_is_verified(home: Path, library: Path) -> None:
    shutil.copy(library, home / "ops" / "libops.so")
    done = call("fix", "--all", "--format", "json", cwd=home)
    (outcome,) = done.json["models"]
    assert done.code == 0, outcome["findings"]
    assert outcome["verdict"] == "shrunk"
    assert outcome["verification"]["status"] == "passed"
    assert outcome["after"]["size"] < 0.6 * outcome["before"]["size"]


def test_an_earlier_outcome_does_not_count_for_another_library(
    home: Path, library: Path, request: pytest.FixtureRequest
) -> None:
    inside = home / "ops" / "libops.so"
    shutil.copy(library, inside)
    first, _ = checked(home)
    with inside.open("ab") as file:
        file.write(b"\0")
    request.getfixturevalue("idle_gate")
    with pytest.raises(AssertionError, match="work was done"):
        checked(home)
    shutil.copy(library, inside)
    again = [{**model, "seconds": 0} for model in checked(home)[0].json["models"]]
    assert again == [{**model, "seconds": 0} for model in first.json["models"]]


def test_without_a_library_it_is_not_verified(home: Path) -> None:
    (home / ".onnx-ci.yaml").write_text('version: 1\nmodels: [{path: "*.onnx", methods: [dedupe]}]\n')
    done, said = checked(home)
    assert done.json["models"][0]["verdict"] == "unverified"
    assert "OCI005" in said
    assert f"{DOMAIN}.NegPos" in said
    assert "libraries: [" in said


@pytest.mark.sampled(0)
def test_a_library_that_is_not_there(home: Path) -> None:
    done, said = checked(home)
    assert done.json["models"][0]["verdict"] == "unverified"
    assert "the library 'ops/libops.so' is not there" in said


@pytest.mark.sampled(0)
def test_a_library_that_is_none(home: Path) -> None:
    (home / "ops" / "libops.so").write_text("no library\n")
    done, said = checked(home)
    assert done.json["models"][0]["verdict"] == "unverified"
    assert "its library of operators can't be loaded" in said


@pytest.mark.sampled(2)
@pytest.mark.parametrize("link", ["ops/libops.so", "ops"])
def test_no_link_leads_out(home: Path, tmp_path: Path, library: Path, link: str) -> None:
    """The library would be fine; where it lies is not."""
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(library, tmp_path / "elsewhere" / "libops.so")
    if link == "ops":
        (home / "ops").rmdir()
    target = tmp_path / "elsewhere" / ("libops.so" if link.endswith(".so") else "")
    (home / link).symlink_to(target)
    done, said = checked(home)
    assert done.json["models"][0]["verdict"] == "unverified"
    assert "leads out" in said


def test_on_the_command_line(home: Path, library: Path) -> None:
    done = call("shrink", "m.onnx", "o.onnx", "--library", library, "--format", "json", cwd=home)
    assert done.code == 0
    assert done.json["verification"]["status"] == "passed"
    same = call("compare", "m.onnx", "o.onnx", "--library", library, cwd=home)
    assert same.code == 0
    gone = call("compare", "m.onnx", "o.onnx", "--library", "gone.so", cwd=home)
    assert gone.code == 2
    assert "there is no file 'gone.so'" in gone.err


def test_a_worker_that_loaded_a_library_runs_no_other_model(tmp_path: Path, library: Path) -> None:
    from onnx_ci.sandbox.versions import Libraries

    feeds = [{"x": np.ones((1, 64), np.float32)}]
    path = save(halves(), tmp_path / "m.onnx")
    with Runner() as runner:
        given = runner.using(libraries=Libraries((library.name,), library.parent))
        given.run(path, feeds, limits=Limits(seconds=30))
        first = runner.pid
        with pytest.raises(RunFailed, match="NegPos"):
            runner.run(path, feeds, limits=Limits(seconds=30))
        assert runner.pid != first


def test_operators_that_come_from_elsewhere() -> None:
    made = halves()
    made.graph.node.append(helper.make_node("Gelu", ["x"], ["z"], domain="com.microsoft"))
    made.graph.node.append(helper.make_node("Own", ["x"], ["w"], domain="local"))
    made.functions.append(helper.make_function("local", "Own", ["x"], ["w"], [], []))
    assert custom_operators(made) == [f"{DOMAIN}.NegPos"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_compiled_context_opens_no_file(tmp_path: Path) -> None:
    """Whoever opened this file would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    feeds = [{"x": np.zeros((2, 64), np.float32)}]
    with Runner() as runner:
        for name in ("pipe", str(tmp_path / "pipe")):
            path = save(ep_context(0, name), tmp_path / "m.onnx")
            with pytest.raises(RunFailed) as caught:
                runner.run(path, feeds, limits=Limits(seconds=20))
            assert (caught.value.kind, caught.value.stage) == ("error", "load")
