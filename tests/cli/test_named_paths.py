"""A PATH that is named is checked, or the call is refused: nothing passes because nobody looked."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import call
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "checkout")
    write_policy(made.root, "    methods: []\n")
    onnx.save(lean(), made.root / "m.onnx")
    (made.root / "README.md").write_text("read me")
    (made.root / "nobodys.data").write_bytes(b"1234")
    (made.root / "empty").mkdir()
    (made.root / "empty" / "notes.txt").write_text("no model")
    made.commit_all("start")
    (tmp_path / "elsewhere").mkdir()
    onnx.save(bloated(), tmp_path / "elsewhere" / "other.onnx")
    return made


NOT_CHECKED = [
    "missing.onnx",
    "README.md",
    "nobodys.data",
    "empty",
    "../elsewhere/other.onnx",
    "../elsewhere",
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("command", ["check", "fix", "files", "check --staged", "plan --shards 2"])
@pytest.mark.parametrize("path", NOT_CHECKED)
def test_what_is_named_and_not_checked(path: str, command: str, repository: Repository) -> None:
    alone = call(*command.split(), path, cwd=repository.root)
    assert alone.code == 2, alone.out
    assert path in alone.err
    assert call(*command.split(), "m.onnx", path, cwd=repository.root).code == 2


def test_all_that_can_not_be_checked_are_named(repository: Repository) -> None:
    done = call("check", "m.onnx", "README.md", "empty", cwd=repository.root)
    assert "README.md, empty" in done.err


def test_a_model_that_no_policy_reaches(repository: Repository) -> None:
    """Rules hold below the folder of their policy."""
    write_policy(repository.root / "sub", "    methods: []\n")
    (repository.root / ".onnx-ci.yaml").unlink()
    done = call("check", "../m.onnx", cwd=repository.root / "sub")
    assert done.code == 2
    assert "is not below the folder of" in done.err


def test_what_a_rule_ignores_was_looked_at(repository: Repository) -> None:
    write_policy(repository.root, "    ignore: true\n")
    done = call("check", "m.onnx", cwd=repository.root)
    assert done.code == 0
    assert "ignored" in done.out


def test_a_path_through_a_link_is_inside(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repository.root)
    done = call("check", str(tmp_path / "link" / "m.onnx"), cwd=repository.root)
    assert done.code == 0, done.err
    assert "1 model checked" in done.out


def test_a_hook_names_whatever_is_staged(repository: Repository) -> None:
    done = call("check", "--staged", "--hook", "--", *NOT_CHECKED, "m.onnx", cwd=repository.root)
    assert done.code == 0, done.err
    assert "1 model checked" in done.out
