"""What is said of what to do next fits what was just done, and where one stands."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper

from onnx_ci.inputs.generate import deriver_of
from onnx_ci.policy.schema import InputSpec
from tests.support.cli import call
from tests.support.git_repo import Repository
from tests.support.models import bloated, lean

POLICY = """\
version: 1
models:
  - {path: "**/*.onnx", methods: [exact], plan_seconds: 20}
groups:
  - {name: all, paths: ["**/*.onnx"], budget: {size: 1 kB}}
"""


def test_after_a_fix_of_the_work_tree(tmp_path: Path) -> None:
    Repository(tmp_path)
    (tmp_path / ".onnx-ci.yaml").write_text(POLICY)
    here = tmp_path / "sub"
    here.mkdir()
    onnx.save(bloated(), here / "m.onnx")
    first = call("check", cwd=here).out
    assert "../.onnx-ci.yaml:3: plan_seconds has no meaning" in first
    assert "1 model takes" in first
    assert "onnx-ci fix --all" in first
    done = call("fix", "--all", cwd=here).out
    assert "next: git add m.onnx" in done
    assert "onnx-ci fix --all" not in done, "that was just run"
    assert "onnx-ci survey" in done


def test_a_link_to_nowhere_and_a_name_in_capitals_are_seen(tmp_path: Path) -> None:
    Repository(tmp_path)
    (tmp_path / ".onnx-ci.yaml").write_text(POLICY)
    (tmp_path / "far.onnx").symlink_to("nowhere.onnx")
    (tmp_path / "M.ONNX").write_bytes(b"")
    done = call("check", "--all", cwd=tmp_path)
    assert done.code == 1
    assert "error OCI006 far.onnx: can't be read" in done.out
    assert '- path: "**/*.ONNX"' in done.out


def test_sizes_are_called_as_the_model_calls_them() -> None:
    infos = [helper.make_tensor_value_info(name, 1, ["batch", "n_samples"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    deriver = deriver_of(helper.make_model(graph), InputSpec())
    assert deriver.usual_sizes == {"batch": 1, "n_samples": 16000}


def test_what_can_not_be_written_is_said_before_any_work(tmp_path: Path) -> None:
    onnx.save(bloated(), tmp_path / "m.onnx")
    done = call("shrink", "m.onnx", "/proc/x.onnx", cwd=tmp_path)
    assert (done.code, "nothing can be written in '/proc'" in done.err) == (3, True)


def test_all_that_is_explained_of_a_folder_names_its_model(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        onnx.save(lean(), tmp_path / name)
    (tmp_path / ".onnx-ci.yaml").write_text('version: 1\nmodels: [{path: "*.onnx", methods: [dedupe]}]\n')
    lines = call("explain", ".", cwd=tmp_path).out.splitlines()
    assert [line for line in lines if "what a check says" in line] == [
        "a.onnx: what a check says: ok",
        "b.onnx: what a check says: ok",
    ]
    assert "what a check says: ok" in call("explain", "a.onnx", cwd=tmp_path).out.splitlines()
