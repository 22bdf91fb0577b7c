"""Git may store something else than the work tree has, and call the file clean: what it stores is judged."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import lean, save_outside

RULE = "    budget: {size: 1 MB, growth: 5%}\n    methods: [dedupe]\n"


def with_line_ends(path: Path) -> None:
    """A model whose weights hold bytes that look like the ends of lines."""
    model = lean()
    raw = model.graph.initializer[0].raw_data
    model.graph.initializer[0].raw_data = b"\r\n\x20\x20" * 64 + raw[256:]
    onnx.save(model, path)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    write_policy(tmp_path, RULE)
    made.commit_all("policy")
    return made


@pytest.mark.parametrize("data", [False, True])
def test_text_breaks_a_model(repository: Repository, data: bool) -> None:
    root = repository.root
    (root / ".gitattributes").write_text("*.data text\n" if data else "*.onnx text\n")
    model = root / "m.onnx"
    with_line_ends(model)
    if data:
        save_outside(onnx.load(model), model)
    repository.git("add", ".")
    assert repository.git("diff", "--name-only") == "", "git calls it clean"
    done = onnx_ci("check", "--staged", cwd=root)
    assert done.code == 1, done.out
    assert ("error OCI012" if data else "error OCI006") in done.out
    assert "git changes this file when it is added" in done.out
    assert f"`*{'.data' if data else '.onnx'} -text -filter` in .gitattributes" in done.out
    assert onnx_ci("check", "m.onnx", cwd=root).code == 0, "in the work tree it is whole"
    (root / ".gitattributes").write_text("* -text\n")
    repository.git("add", "--renormalize", ".")
    assert onnx_ci("check", "--staged", cwd=root).code == 0


def test_a_filter_that_keeps_the_size(repository: Repository) -> None:
    root = repository.root
    (root / ".gitattributes").write_text("*.onnx filter=turn\n")
    repository.git("config", "filter.turn.clean", "tr onx pqr")
    onnx.save(lean(), root / "m.onnx")
    repository.git("add", ".")
    done = onnx_ci("check", "--staged", cwd=root)
    assert "warning OCI028 m.onnx" in done.out
    fixed = onnx_ci("fix", "--staged", cwd=root)
    assert "OCI028 m.onnx" in fixed.out


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at(repository: Repository, flag: str) -> None:
    root = repository.root
    onnx.save(lean(layers=2), root / "m.onnx")
    repository.commit_all("small")
    onnx.save(lean(layers=3), root / "m.onnx")
    repository.git("add", ".")
    repository.git("update-index", flag, "m.onnx")
    assert "OCI002 m.onnx" in onnx_ci("check", "--staged", cwd=root).out
    onnx.save(lean(layers=2), root / "m.onnx")
    assert "OCI002 m.onnx" in onnx_ci("check", "--staged", cwd=root).out
