"""Nothing that came with a model is run, and no name is anything but a name."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import lean, save_outside

ROOT = Path(__file__).resolve().parent.parent.parent
RULE = "    budget: {size: 1 kB, growth: 5%}\n    methods: []\n"


@pytest.mark.parametrize("outer", [True, False])
def test_a_repository_that_came_with_the_files_is_not_entered(outer: bool, tmp_path: Path) -> None:
    """Its configuration names a program that git would start."""
    if outer:
        Repository(tmp_path)
    write_policy(tmp_path, RULE)
    inner = Repository(tmp_path / "download")
    onnx.save(lean(), inner.root / "m.onnx")
    inner.commit_all("theirs")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'pwned'}\n")
    program.chmod(0o755)
    inner.git("config", "core.fsmonitor", str(program))
    for arguments in (["--all"], ["download"], ["download/m.onnx"], []):
        done = onnx_ci("check", *arguments, cwd=tmp_path)
        assert done.code in (0, 1), done.err
        assert not (tmp_path / "pwned").exists(), arguments
    assert "OCI001 download/m.onnx" in onnx_ci("check", "download", cwd=tmp_path).out
    inner.git("status")
    assert (tmp_path / "pwned").exists(), "git itself starts it"


@pytest.mark.sampled(0)
def test_names_of_files_are_not_options_patterns_or_commands(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write_policy(tmp_path, RULE)
    repository.commit_all("policy")
    names = ["--output=x.onnx", ":(top)*.onnx", "*.onnx", "`touch x`.onnx", "\x1b[31mred.onnx", "HEAD.onnx"]
    for name in names:
        save_outside(lean(), tmp_path / name)
    repository.git("add", ".")
    (tmp_path / "*.onnx").unlink()
    for arguments in (["--staged"], []):
        done = onnx_ci("check", *arguments, "--format", "json", cwd=tmp_path)
        found = {model["path"] for model in done.json["models"]}
        assert found == set(names if arguments else [name for name in names if name != "*.onnx"])
    text = onnx_ci("check", "--staged", cwd=tmp_path)
    assert "\x1b" not in text.out
    assert "\\x1b[31mred.onnx" in text.out
    unknown = onnx_ci("check", "\x1b[31m", cwd=tmp_path)
    (tmp_path / "\x1b[31mfolder").mkdir()
    empty = onnx_ci("check", "\x1b[31mfolder", cwd=tmp_path)
    assert "\x1b" not in unknown.err + empty.out
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "x.onnx").exists()


@pytest.mark.parametrize("ref", ["--output=x", "main:refs/heads/evil", "+main", "$(touch x)"])
def test_a_ref_is_only_a_ref(ref: str, tmp_path: Path) -> None:
    origin = Repository(tmp_path / "origin")
    write_policy(origin.root, RULE)
    origin.commit_all("one")
    origin.commit_all("two")
    origin.git("clone", "--quiet", "--depth=1", f"file://{origin.root}", str(tmp_path / "shallow"))
    done = onnx_ci("check", f"--since={ref}", cwd=tmp_path / "shallow")
    assert done.code == 2
    assert "main" in Repository(tmp_path / "shallow").git("branch", "--all")
    assert "evil" not in Repository(tmp_path / "shallow").git("branch", "--all")
    assert not (tmp_path / "shallow" / "x").exists()


def test_a_tree_that_leads_out_of_the_repository(tmp_path: Path) -> None:
    """Made by hand: git would never check it out. At a push its files are read from the commit."""
    repository = Repository(tmp_path / "work")
    write_policy(repository.root, RULE)
    onnx.save(lean(), repository.root / "m.onnx")
    base = repository.commit_all("good")
    blob = repository.git("rev-parse", "HEAD:m.onnx").strip()
    inner = repository.git("mktree", stdin=f"100644 blob {blob}\tevil.onnx\n").strip()
    content = b"40000 ..\0" + bytes.fromhex(inner)
    (tmp_path / "tree").write_bytes(content)
    tree = repository.git("hash-object", "-t", "tree", "-w", "--literally", str(tmp_path / "tree")).strip()
    tip = repository.git("commit-tree", tree, "-p", base, "-m", "evil").strip()
    refs = {"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": tip, "TMPDIR": str(tmp_path)}
    done = onnx_ci("check", "--staged", cwd=repository.root, env=refs)
    assert "evil" not in done.out
    assert not list(tmp_path.glob("evil*"))


def test_only_one_module_starts_git() -> None:
    """And none uses a shell."""
    starting = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "onnx_ci").rglob("*.py")
        if '"git", "-C"' in path.read_text() or '["git"' in path.read_text()
    }
    assert starting == {"onnx_ci/repo/git.py"}
    assert not [path for path in (ROOT / "onnx_ci").rglob("*.py") if "shell=True" in path.read_text()]
