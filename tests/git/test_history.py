"""A budget on what a branch leaves in history, where nothing ever gets smaller again."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import lean, save_outside

pytestmark = pytest.mark.sampled(2)

RULE = "    methods: []\n"


def budget(text: str, root: Path) -> None:
    write_policy(root, RULE, f"history: {text}\n")


@pytest.fixture
def branch(tmp_path: Path) -> Repository:
    """A branch that made a model of 98 kB, then one of 33 kB of it, and removed another of 33 kB."""
    made = Repository(tmp_path)
    budget("{budget: 50 kB}", tmp_path)
    onnx.save(lean(seed=9), tmp_path / "old.onnx")
    made.commit_all("main")
    made.git("checkout", "--quiet", "-b", "branch")
    onnx.save(lean(layers=6), tmp_path / "m.onnx")
    onnx.save(lean(seed=8), tmp_path / "old.onnx")
    made.commit_all("bloated")
    onnx.save(lean(), tmp_path / "m.onnx")
    onnx.save(lean(seed=9), tmp_path / "old.onnx")
    made.commit_all("shrunk")
    return made


def check(repository: Repository, *arguments: str) -> Done:
    return onnx_ci("check", *arguments, cwd=repository.root)


def test_every_version_counts_and_squashing_helps(branch: Repository) -> None:
    done = check(branch, "--since", "main")
    assert done.code == 1, done.out
    assert "OCI026 this branch adds 165 kB of models to git" in done.out
    assert ".onnx-ci.yaml:5" in done.out
    assert "m.onnx in 2 versions 132 kB" in done.out
    base = branch.git("rev-parse", "--short=12", "main").strip()
    assert f"as one commit it adds 32.9 kB: git reset --soft {base} && git commit" in done.out
    branch.git("reset", "--quiet", "--soft", base)
    branch.git("commit", "--quiet", "-m", "one commit")
    assert check(branch, "--since", "main").code == 0, "old.onnx is back at what it was"


def test_what_was_added_and_removed_counts_too(branch: Repository) -> None:
    branch.git("rm", "--quiet", "m.onnx")
    branch.git("commit", "--quiet", "-m", "gone")
    done = check(branch, "--since", "main")
    assert done.code == 1, "though no model differs"
    assert "as one commit it adds 0 B" in done.out
    assert check(branch).code == 0, "nothing says what the branch left"
    budget("{budget: 50 kB, since: main}", branch.root)
    assert check(branch).code == 1
    assert check(branch, "--staged").code == 1
    budget("{budget: 500 kB, since: main}", branch.root)
    assert check(branch).code == 0


def test_merging_main_adds_nothing(branch: Repository) -> None:
    branch.git("checkout", "--quiet", "main")
    onnx.save(lean(layers=9), branch.root / "theirs.onnx")
    branch.commit_all("on main")
    branch.git("checkout", "--quiet", "branch")
    branch.git("merge", "--quiet", "--no-edit", "main")
    assert "error OCI026 this branch adds 165 kB" in check(branch, "--since", "main").out


def test_going_back_to_the_base_adds_nothing(branch: Repository) -> None:
    branch.git("reset", "--quiet", "--hard", "HEAD~1")
    branch.git("checkout", "--quiet", "main", "--", "old.onnx")
    budget("{budget: 140 kB, since: main}", branch.root)
    done = check(branch, "--staged")
    assert done.code == 0, done.out
    budget("{budget: 130 kB, since: main}", branch.root)
    assert "error OCI026 this branch adds 132 kB" in check(branch, "--staged").out


def test_data_and_what_is_staged(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    budget("{budget: 50 kB}", tmp_path)
    repository.commit_all("main")
    (tmp_path / "firmware.bin").write_bytes(bytes(90_000))
    save_outside(lean(layers=3), tmp_path / "new\nline.onnx")
    repository.git("add", ".")
    done = check(repository, "--staged")
    assert done.code == 0, done.out
    save_outside(lean(layers=4), tmp_path / "new\nline.onnx")
    repository.git("add", ".")
    done = check(repository, "--staged")
    assert done.code == 1
    assert "error OCI026 this branch adds 66.1 kB" in done.out
    assert "new\\nline.onnx.data" in done.out
    assert "even as one commit it adds" in done.out


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_lfs_has_a_budget_of_its_own(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.onnx")
    budget("{budget: 10 kB, lfs: 50 kB}", tmp_path)
    base = repository.commit_all("main")
    for seed in range(2):
        onnx.save(lean(seed=seed), tmp_path / "m.onnx")
        repository.commit_all("a version")
    done = check(repository, "--since", base)
    assert done.code == 1
    assert "OCI026 this branch adds 65.9 kB of models to Git LFS" in done.out
    assert "models to git" not in done.out


@pytest.mark.parametrize("text", ["{}", "{since: main}", "{budget: 5 MB, since: --all}", "{budgte: 1 MB}"])
def test_a_bad_history_budget_is_refused(text: str, tmp_path: Path) -> None:
    budget(text, tmp_path)
    done = onnx_ci("check", cwd=tmp_path)
    assert done.code == 2
    assert ".onnx-ci.yaml:5: " in done.err
