"""The pre-commit manifest, run by real pre-commit in a real repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated

pytestmark = pytest.mark.real

PROJECT = Path(__file__).resolve().parent.parent


def pre_commit(*arguments: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "SKIP": "", "PIP_NO_COMPILE": "1"}
    command = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a repository that pre-commit can clone: what is in the work tree, committed."""
    copy = tmp_path_factory.mktemp("hooks") / "onnx-ci"
    ignored = shutil.ignore_patterns(".git", "*_cache", ".venv", "__pycache__", "build", "dist")
    shutil.copytree(PROJECT, copy, ignore=ignored)
    repository = Repository(copy)
    repository.commit_all("the hooks")
    return copy


def test_the_manifest_is_valid() -> None:
    done = pre_commit("validate-manifest", ".pre-commit-hooks.yaml", cwd=PROJECT, home=Path.home())
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_commit_fails_is_fixed_and_passes(hooks: Path, tmp_path: Path) -> None:
    """Each hook, in an environment that pre-commit makes: check fails, fix rewrites, then check passes."""
    home = tmp_path / "home"
    repository = Repository(tmp_path / "work")
    (repository.root / "models").mkdir()
    model = repository.root / "models" / "encoder.onnx"
    onnx.save(bloated(), model)
    (repository.root / ".onnx-ci.yaml").write_text('version: 1\nmodels: [{path: "models/*.onnx"}]\n')
    rev = Repository(hooks).git("rev-parse", "HEAD").strip()
    both = "{id: onnx-ci-check}, {id: onnx-ci-fix}"
    config = f"repos: [{{repo: 'file://{hooks}', rev: {rev}, hooks: [{both}]}}]\n"
    (repository.root / ".pre-commit-config.yaml").write_text(config)
    repository.git("add", ".")
    before = model.stat().st_size

    def try_hook(name: str) -> subprocess.CompletedProcess[str]:
        return pre_commit("run", name, "--all-files", "--verbose", cwd=repository.root, home=home)

    failed = try_hook("onnx-ci-check")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "OCI003" in failed.stdout
    assert "models/encoder.onnx" in failed.stdout
    assert model.stat().st_size == before

    fixed = try_hook("onnx-ci-fix")
    assert fixed.returncode == 1, "pre-commit fails a hook that changed files"
    assert "files were modified by this hook" in fixed.stdout
    assert model.stat().st_size < before

    repository.git("add", ".")
    passed = try_hook("onnx-ci-check")
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_prek_installs_and_runs_them(hooks: Path, tmp_path: Path) -> None:
    """From a repository and a commit of it, as a user's configuration names them, at a real commit."""
    repository = Repository(tmp_path)
    rev = Repository(hooks).git("rev-parse", "HEAD").strip()
    config = f"repos: [{{repo: 'file://{hooks}', rev: {rev}, hooks: [{{id: onnx-ci-check}}]}}]\n"
    (tmp_path / ".pre-commit-config.yaml").write_text(config)
    write_policy(tmp_path)
    onnx.save(bloated(), tmp_path / "model.onnx")
    home = {"PREK_HOME": str(tmp_path / ".git" / "prek")}
    assert repository.run("prek", "install", **home).returncode == 0
    repository.git("add", ".")
    refused = repository.attempt("commit", "-m", "bloated", **home)
    assert refused.returncode != 0
    assert "OCI003 model.onnx" in refused.stdout + refused.stderr
