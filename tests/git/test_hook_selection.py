"""What a hook has to notice though its runner names no file for it: `--hook`, and the manifest."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.hooks import RUNNERS, Hooked
from tests.support.models import lean, save_outside

pytestmark = pytest.mark.real

RULE = "    budget: {size: 40 kB}\n    methods: []\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A model with its data, and one without."""
    made = Repository(tmp_path)
    write_policy(tmp_path, RULE)
    save_outside(lean(), tmp_path / "outer.onnx")
    onnx.save(lean(seed=1), tmp_path / "model.onnx")
    made.commit_all("good")
    return made


def hook(repository: Repository, *names: str, env: dict[str, str] | None = None) -> Done:
    return onnx_ci("check", "--staged", "--hook", *names, cwd=repository.root, env=env)


def test_what_is_staged_is_looked_at_beside_what_is_named(repository: Repository) -> None:
    assert "no model changed" in hook(repository).out
    assert "1 model checked" in hook(repository, "model.onnx").out
    repository.git("rm", "--quiet", "--cached", "outer.onnx.data")
    for names in ([], ["model.onnx"], [".onnx-ci.yaml"]):
        done = hook(repository, *names)
        assert done.code == 1, done.out
        assert "OCI012 outer.onnx" in done.out


def test_a_model_that_became_a_link(repository: Repository) -> None:
    root = repository.root
    (root / "model.onnx").unlink()
    (root / "model.onnx").symlink_to("nowhere.onnx")
    repository.git("add", ".")
    assert "model.onnx" in hook(repository).out
    assert hook(repository).code == 1


def test_a_deleted_policy_means_its_models(repository: Repository) -> None:
    write_policy(repository.root / "sub", RULE)
    onnx.save(lean(layers=3), repository.root / "sub" / "big.onnx")
    repository.commit_all("too large")
    (repository.root / "sub" / ".onnx-ci.yaml").unlink()
    repository.git("add", "--all")
    assert "OCI001 sub/big.onnx" in hook(repository).out


def test_names_of_files_are_never_options(repository: Repository) -> None:
    """`--policy=…` would have named another policy, with which everything passes."""
    root = repository.root
    (root / "--policy=lax.bin").write_bytes(b"1")
    (root / "lax.bin").write_text("version: 1\nmodels: []\n")
    onnx.save(lean(layers=3), root / "model.onnx")
    repository.git("add", ".")
    done = hook(repository, "--policy=lax.bin", "lax.bin", "model.onnx")
    assert done.code == 1
    assert "OCI001 model.onnx" in done.out
    assert "OCI001 model.onnx" in hook(repository, "--only-new", "--jobs", "2", "model.onnx").out
    (root / "--only-new").write_bytes(b"1")
    wrong = hook(repository, "--only-new", "model.onnx")
    assert wrong.code == 2
    assert "rename the file" in wrong.err
    behind = hook(repository, "--", "--no-cache", "model.onnx")
    assert behind.code == 2
    assert "into `args`" in behind.err
    assert onnx_ci("check", "--hook", "--all", cwd=root).code == 2


def test_a_push_is_judged_by_what_is_pushed_alone(repository: Repository) -> None:
    """What runners name at a push are files of the index and the work tree."""
    root = repository.root
    base = repository.git("rev-parse", "HEAD").strip()
    repository.git("checkout", "--quiet", "-b", "side")
    onnx.save(lean(seed=3), root / "side.onnx")
    write_policy(root, RULE, "# another\n")
    good = repository.commit_all("good")
    repository.git("checkout", "--quiet", "main")
    onnx.save(lean(layers=3), root / "mine.onnx")
    onnx.save(lean(layers=3), root / "new.onnx")
    repository.git("add", "mine.onnx")
    names = ["mine.onnx", "new.onnx", "model.onnx", ".onnx-ci.yaml"]
    refs = {"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": good}
    for env in (refs, {"PRE_COMMIT_LOCAL_BRANCH": "refs/heads/side"}):
        done = hook(repository, *names, env=env)
        assert done.code == 0, done.out
        assert "3 models checked" in done.out


def test_a_push_that_leaves_only_history(repository: Repository) -> None:
    """A model that was added and removed again: no file is left that a runner could name."""
    root = repository.root
    write_policy(root, RULE, "history: {budget: 10 kB}\n")
    base = repository.commit_all("a budget")
    onnx.save(lean(seed=5), root / "brief.onnx")
    repository.commit_all("added")
    (root / "brief.onnx").unlink()
    tip = repository.commit_all("removed")
    done = hook(repository, env={"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": tip})
    assert done.code == 1, done.out
    assert "OCI026" in done.out


def test_what_a_settled_merge_brings(repository: Repository) -> None:
    """Runners name only what was in conflict; the commit holds the rest of the other side too."""
    root = repository.root
    for branch in ("side", "main"):
        repository.git("checkout", "--quiet", *(["-b"] if branch == "side" else []), branch)
        (root / "notes").write_text(branch)
        if branch == "side":
            onnx.save(lean(layers=3), root / "big.onnx")
        repository.commit_all(branch)
    assert repository.attempt("merge", "side").returncode != 0
    (root / "notes").write_text("both")
    repository.git("add", ".")
    assert "OCI001 big.onnx" in hook(repository).out


@pytest.mark.parametrize("runner", RUNNERS)
def test_runners_start_it_where_no_file_is_left_to_name(runner: str, tmp_path: Path) -> None:
    args = ["--jobs", "2", "--search", "--format", "json"]
    repository = Hooked(tmp_path, runner, "onnx-ci-check", args=args)
    write_policy(tmp_path, RULE)
    save_outside(lean(), tmp_path / "outer.onnx")
    (tmp_path / "--policy=lax.bin").write_bytes(b"1")
    repository.git("add", ".")
    passed, said = repository.commit()
    assert passed, said
    repository.git("rm", "--quiet", "outer.onnx.data")
    passed, said = repository.commit()
    assert not passed
    assert '"code": "OCI012"' in said, "JSON, as `args` ask for"
