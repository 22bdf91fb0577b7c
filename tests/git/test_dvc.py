"""Models that DVC keeps out of git, with `.dvc` files as `dvc add` writes them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean

FILE = "outs:\n- md5: {md5}\n  size: {size}\n  hash: md5\n  path: {name}\n"


def dvc_add(path: Path) -> Path:
    """What `dvc add` does: content to the cache, a file for git, the model in .gitignore."""
    content = path.read_bytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    cached = path.parent / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]
    cached.parent.mkdir(parents=True, exist_ok=True)
    cached.write_bytes(content)
    (path.parent / ".gitignore").write_text("/.dvc/cache\n/*.onnx\n")
    text = FILE.format(md5=md5, size=len(content), name=path.name)
    path.with_name(f"{path.name}.dvc").write_text(text)
    return cached


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    write_policy(tmp_path)
    onnx.save(lean(), tmp_path / "model.onnx")
    dvc_add(tmp_path / "model.onnx")
    made.commit_all("good")
    onnx.save(bloated(), tmp_path / "model.onnx")
    dvc_add(tmp_path / "model.onnx")
    made.git("add", ".")
    return made


def test_a_changed_dvc_file_means_its_model(repository: Repository) -> None:
    root = repository.root
    done = onnx_ci("check", cwd=root)
    assert done.code == 1
    assert "OCI003 model.onnx" in done.out
    (root / "model.onnx").unlink()
    done = onnx_ci("check", "--staged", cwd=root)
    assert "OCI003 model.onnx" in done.out, "it is in the cache"
    fixed = onnx_ci("fix", cwd=root)
    assert "OCI023" in fixed.out
    assert "run: dvc checkout model.onnx.dvc" in fixed.out
    assert not (root / "model.onnx").exists()


@pytest.mark.sampled(0)
def test_sizes_are_judged_without_the_content(repository: Repository) -> None:
    root = repository.root
    (root / "model.onnx").unlink()
    for cached in (root / ".dvc" / "cache").rglob("*"):
        if cached.is_file():
            cached.unlink()
    write_policy(root, "    budget: {size: 60 kB, growth: 5%}\n    methods: []\n")
    for arguments in (["--all"], ["--staged"], ["model.onnx"], ["model.onnx.dvc"]):
        done = onnx_ci("check", *arguments, cwd=root)
        assert done.code == 1, done.out
        assert "OCI001 model.onnx: 65.8 kB" in done.out
        assert "OCI002 model.onnx" in done.out
    write_policy(root)
    done = onnx_ci("check", cwd=root)
    assert "error OCI007 model.onnx" in done.out
    assert "dvc pull model.onnx.dvc" in done.out


def test_a_fix_says_that_dvc_has_to_be_told(repository: Repository) -> None:
    done = onnx_ci("fix", cwd=repository.root)
    assert done.code == 0, done.out
    assert "note OCI024 model.onnx" in done.out
    assert "dvc add model.onnx" in done.out


def test_the_cache_of_dvc_is_never_written(repository: Repository) -> None:
    root = repository.root
    cached = dvc_add(root / "model.onnx")
    content = cached.read_bytes()
    (root / "model.onnx").unlink()
    (root / "model.onnx").symlink_to(cached)
    done = onnx_ci("fix", cwd=root)
    assert done.code == 1
    assert "error OCI017 model.onnx" in done.out
    assert "dvc unprotect" in done.out
    assert cached.read_bytes() == content


def test_a_broken_dvc_file_is_a_finding(repository: Repository) -> None:
    broken = [
        "",
        "outs: 5\n",
        "outs:\n- [a]\n",
        "[" * 3000,
        "outs:\n- path: m4.onnx\n  size: -4\n",
        "\x00\xff",
    ]
    for number, text in enumerate(broken):
        (repository.root / f"m{number}.onnx.dvc").write_text(text)
    done = onnx_ci("check", "--all", cwd=repository.root)
    assert done.code == 1
    assert all(f"OCI006 m{number}.onnx" in done.out for number in range(len(broken))), done.out
    assert "OCI006 m4.onnx.dvc: does not say what it stands for" in done.out
    repository.git("add", ".")
    staged = onnx_ci("check", "--staged", cwd=repository.root)
    assert "OCI006 m4.onnx.dvc: does not say what it stands for" in staged.out
