"""The hooks through real pre-commit and real prek, at real commits, merges and pushes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.hooks import RUNNERS, Hooked
from tests.support.models import bloated, lean, save_outside

pytestmark = pytest.mark.real

BUDGET = "    budget: {size: 40 kB, growth: 5%}\n    methods: []\n"  # judged without running anything
ODD_NAMES = [
    "a b.onnx",
    "qu\"o'te.onnx",
    "new\nline.onnx",
    "größe-模型.onnx",
    "-x.onnx",
    "$(touch pwned).onnx",
]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_commit_fails_is_fixed_and_passes(runner: str, tmp_path: Path) -> None:
    repository = Hooked(tmp_path, runner, "onnx-ci-fix")
    write_policy(tmp_path)
    repository.git("add", ".")
    assert repository.commit()[0], "no model, nothing to do"
    model = tmp_path / "model.onnx"
    onnx.save(bloated(), model)
    before = model.stat().st_size
    repository.git("add", ".")
    passed, said = repository.commit()
    assert not passed
    assert "shrunk" in said
    assert model.stat().st_size < before / 2
    assert repository.git("status", "--porcelain") == "AM model.onnx\n"
    repository.git("add", ".")
    passed, said = repository.commit()
    assert passed, said
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize("runner", RUNNERS)
def test_unstaged_edits_survive_a_fix(runner: str, tmp_path: Path) -> None:
    """Fixed is what is staged; what is not staged comes back as it was, or the fix is rolled back."""
    repository = Hooked(tmp_path, runner, "onnx-ci-fix")
    write_policy(tmp_path)
    onnx.save(bloated(), tmp_path / "model.onnx")
    repository.git("add", ".")
    onnx.save(lean(seed=5), tmp_path / "model.onnx")
    unstaged = (tmp_path / "model.onnx").read_bytes()
    staged = repository.git("ls-files", "--stage")
    passed, said = repository.commit()
    assert not passed
    assert "model.onnx" in said
    assert (tmp_path / "model.onnx").read_bytes() == unstaged
    assert repository.git("ls-files", "--stage") == staged


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_is_staged_is_checked(runner: str, tmp_path: Path) -> None:
    repository = Hooked(tmp_path, runner, "onnx-ci-check")
    write_policy(tmp_path, BUDGET)
    model = tmp_path / "model.onnx"
    onnx.save(lean(), model)
    repository.git("add", ".")
    assert repository.commit()[0]
    onnx.save(lean(layers=3), model)
    repository.git("add", ".")
    onnx.save(lean(), model)
    passed, said = repository.commit()
    assert not passed, "too large as staged, small in the work tree"
    assert "OCI001" in said
    assert "OCI002" in said
    passed, said = repository.commit("--all")
    assert not passed, "nothing is left to commit"
    onnx.save(lean(seed=1), model)
    passed, said = repository.commit("--all")
    assert passed, said
    onnx.save(lean(layers=3), model)
    assert not repository.commit("--all", "--amend")[0]
    onnx.save(lean(seed=2), model)
    assert repository.commit("--all", "--amend")[0]


@pytest.mark.parametrize("runner", RUNNERS)
def test_renamed_deleted_and_data_alone(runner: str, tmp_path: Path) -> None:
    repository = Hooked(tmp_path, runner, "onnx-ci-check")
    write_policy(tmp_path, BUDGET)
    save_outside(lean(), tmp_path / "outer.onnx")
    onnx.save(lean(seed=1), tmp_path / "model.onnx")
    onnx.save(lean(seed=2), tmp_path / "gone.onnx")
    repository.git("add", ".")
    assert repository.commit()[0]
    repository.git("mv", "model.onnx", "moved.onnx")
    repository.git("rm", "--quiet", "gone.onnx")
    passed, said = repository.commit()
    assert passed, said
    data = tmp_path / "outer.onnx.data"
    data.write_bytes(data.read_bytes() + bytes(9000))
    passed, said = repository.commit("--all")
    assert not passed
    assert "OCI001 outer.onnx" in said
    repository.git("checkout", "--quiet", "HEAD", "--", ".")
    onnx.save(lean(layers=3), tmp_path / "bad.onnx")
    everywhere = repository.run_hooks("run", "--all-files")
    assert everywhere.returncode == 0, "a file that git does not know is not looked at"
    repository.git("add", ".")
    everywhere = repository.run_hooks("run", "--all-files")
    assert everywhere.returncode == 1
    assert "bad.onnx" in everywhere.stdout


def test_a_renamed_model_does_not_escape_its_growth_limit(tmp_path: Path) -> None:
    repository = Hooked(tmp_path, "pre-commit", "onnx-ci-check")
    write_policy(tmp_path, "    budget: {growth: 5%}\n    methods: []\n")
    onnx.save(lean(layers=2), tmp_path / "old.onnx")
    repository.git("add", ".")
    assert repository.commit()[0]
    (tmp_path / "old.onnx").unlink()
    onnx.save(lean(layers=6), tmp_path / "new.onnx")
    assert "was old.onnx before" in onnx_ci("check", cwd=tmp_path).out, "not even staged"
    repository.git("add", "--all")
    passed, said = repository.commit()
    assert not passed
    assert "OCI002" in said
    assert "was old.onnx before" in said


@pytest.mark.parametrize("runner", RUNNERS)
def test_odd_names(runner: str, tmp_path: Path) -> None:
    repository = Hooked(tmp_path, runner, "onnx-ci-check")
    write_policy(tmp_path, "    budget: {size: 1 kB}\n    methods: []\n")
    for name in ODD_NAMES:
        onnx.save(lean(), tmp_path / name)
    repository.git("add", ".")
    passed, said = repository.commit()
    assert not passed
    assert said.count("error OCI001") == len(ODD_NAMES)
    assert "new\\nline.onnx" in said, "escaped where it is shown"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_merge_is_a_commit_too(runner: str, tmp_path: Path) -> None:
    repository = Hooked(tmp_path, runner, "onnx-ci-check", "pre-commit", "pre-merge-commit")
    write_policy(tmp_path, BUDGET)
    repository.git("add", ".")
    repository.git("commit", "--quiet", "-m", "first")
    repository.git("checkout", "--quiet", "-b", "side")
    onnx.save(lean(layers=3), tmp_path / "big.onnx")
    repository.git("add", ".")
    repository.git("commit", "--quiet", "--no-verify", "-m", "too large")
    repository.git("checkout", "--quiet", "main")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "elsewhere")
    merged = repository.attempt("merge", "--no-edit", "side")
    assert merged.returncode != 0
    assert "OCI001 big.onnx" in merged.stdout + merged.stderr


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_is_pushed_is_checked(runner: str, tmp_path: Path) -> None:
    """By its refs: the pushed branch is not the one that is checked out."""
    Repository(tmp_path / "remote").git("config", "receive.denyCurrentBranch", "ignore")
    repository = Hooked(tmp_path / "work", runner, "onnx-ci-check", "pre-push")
    root = repository.root
    write_policy(root, BUDGET)
    repository.git("remote", "add", "origin", f"file://{tmp_path / 'remote'}")
    onnx.save(lean(), root / "model.onnx")
    repository.commit_all("good")
    repository.git("push", "--quiet", "origin", "main")
    repository.git("checkout", "--quiet", "-b", "side")
    onnx.save(lean(layers=3), root / "model.onnx")
    repository.commit_all("too large")
    repository.git("checkout", "--quiet", "main")
    refused = repository.attempt("push", "origin", "side")
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert "OCI001 model.onnx" in said
    assert "OCI002 model.onnx" in said, "compared with what the remote has"
    repository.git("checkout", "--quiet", "side")
    onnx.save(lean(seed=1), root / "model.onnx")
    repository.commit_all("small again")
    passed = repository.attempt("push", "origin", "side")
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_a_part_of_what_is_staged_in_a_worktree(tmp_path: Path) -> None:
    """`git commit PATH` has an index of its own, and a worktree a folder of git elsewhere."""
    main = Hooked(tmp_path / "main", "prek", "onnx-ci-check")
    write_policy(main.root, "    budget: {size: 20 kB}\n    methods: []\n")
    main.git("add", ".")
    main.git("commit", "--quiet", "-m", "policy")
    main.git("worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "other")
    tree = Repository(tmp_path / "tree")
    onnx.save(lean(), tree.root / "big.onnx")
    onnx.save(lean(layers=1), tree.root / "small.onnx")
    tree.git("add", ".")
    tree.git("commit", "-m", "only this one", "small.onnx")
    refused = tree.attempt("commit", "-m", "the rest")
    assert refused.returncode != 0
    assert "OCI001 big.onnx" in refused.stdout + refused.stderr
