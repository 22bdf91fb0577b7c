"""After `fix --staged` what is staged is still what it was: a runner of any kind has to stop the commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import onnx
import pytest

from tests.git.test_dvc import dvc_add
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean, save_outside

pytestmark = pytest.mark.sampled(3)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    write_policy(tmp_path)
    made.commit_all("policy")
    return made


def pasted(repository: Repository, out: str) -> None:
    """The command that a report says to run, given to bash."""
    (line,) = (line for line in out.splitlines() if line.startswith("  run: git add "))
    command = ["bash", "-c", line.removeprefix("  run: ")]
    subprocess.run(command, cwd=repository.root, check=True)


@pytest.mark.parametrize("name", ["model.onnx", "-x.onnx", "a 'b'\nc\x1b.onnx"])
def test_a_fix_of_what_is_staged_stops_the_commit(repository: Repository, name: str) -> None:
    root = repository.root
    save_outside(bloated(), root / name)
    repository.git("add", ".")
    done = onnx_ci("fix", "--staged", cwd=root)
    assert done.code == 1, done.out
    assert "error OCI029" in done.out
    pasted(repository, done.out)
    assert repository.git("status", "--porcelain").count("A ") == 2, "all is staged"
    again = onnx_ci("fix", "--staged", cwd=root)
    assert again.code == 0, again.out


def test_the_same_where_only_new_models_count(repository: Repository) -> None:
    onnx.save(bloated(), repository.root / "model.onnx")
    repository.commit_all("bloated")
    done = onnx_ci("fix", "--staged", "--only-new", "model.onnx", cwd=repository.root)
    assert done.code == 1, done.out


def test_what_was_not_staged_needs_no_staging(repository: Repository) -> None:
    onnx.save(bloated(), repository.root / "model.onnx")
    done = onnx_ci("fix", cwd=repository.root)
    assert done.code == 0, done.out
    assert "OCI029" not in done.out


def test_new_data_files_are_told_of(repository: Repository) -> None:
    root = repository.root
    write_policy(root, "    methods: [{external-data: {threshold: 1 kB}}]\n")
    onnx.save(lean(), root / "model.onnx")
    repository.commit_all("one file")
    done = onnx_ci("fix", "--all", cwd=root)
    assert done.code == 0, done.out
    assert "note OCI029 model.onnx" in done.out
    assert "git add model.onnx model.onnx.data" in done.out
    assert "OCI029" not in onnx_ci("fix", "--all", cwd=root).out


def test_dvc_is_told_first(repository: Repository) -> None:
    onnx.save(bloated(), repository.root / "model.onnx")
    dvc_add(repository.root / "model.onnx")
    repository.git("add", ".")
    done = onnx_ci("fix", "--staged", cwd=repository.root)
    assert done.code == 1, done.out
    assert "error OCI029 model.onnx" in done.out
    assert "run: dvc add model.onnx && git add model.onnx.dvc" in done.out


def test_only_what_was_written_counts_as_saved(repository: Repository) -> None:
    root = repository.root
    for name in ("fixed.onnx", "left.onnx"):
        onnx.save(bloated(), root / name)
    repository.git("add", ".")
    onnx.save(lean(), root / "left.onnx")
    done = onnx_ci("fix", "--staged", "left.onnx", cwd=root)
    assert "OCI023 left.onnx" in done.out
    assert "saved: failed" not in done.out
    assert re.search(r"1 model checked, [\d.]+ kB new: failed", done.out)
    report = onnx_ci("fix", "--staged", "--format", "json", cwd=root).json
    sizes = {model["path"]: (model["before"]["size"], model["after"]) for model in report["models"]}
    before, after = sizes["fixed.onnx"]
    assert after["size"] < before
    assert sizes["left.onnx"][1]["size"] == sizes["left.onnx"][0]
    assert report["totals"]["size_after"] == after["size"] + sizes["left.onnx"][0]
