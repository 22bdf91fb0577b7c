"""What is staged, or pushed, is what is judged, whatever the work tree holds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean, save_outside

pytestmark = pytest.mark.sampled(6)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with one good model in it."""
    made = Repository(tmp_path)
    write_policy(tmp_path)
    onnx.save(lean(), tmp_path / "model.onnx")
    made.commit_all("good")
    return made


def test_a_bad_model_is_staged_and_a_good_one_is_in_the_work_tree(repository: Repository) -> None:
    root = repository.root
    onnx.save(bloated(), root / "model.onnx")
    repository.git("add", "model.onnx")
    onnx.save(lean(), root / "model.onnx")
    done = onnx_ci("check", "--staged", cwd=root)
    assert done.code == 1, done.out
    assert "OCI003 model.onnx" in done.out
    assert "onnx-ci fix model.onnx" in done.out
    assert onnx_ci("check", "model.onnx", cwd=root).code == 0


def test_a_good_model_is_staged_and_a_bad_one_is_in_the_work_tree(repository: Repository) -> None:
    root = repository.root
    onnx.save(lean(seed=1), root / "model.onnx")
    repository.git("add", "model.onnx")
    onnx.save(bloated(), root / "model.onnx")
    assert onnx_ci("check", "--staged", cwd=root).code == 0
    (root / "model.onnx").unlink()
    assert onnx_ci("check", "--staged", cwd=root).code == 0
    assert onnx_ci("check", "--staged", "model.onnx", cwd=root).code == 0


def test_fix_never_mixes_staged_and_unstaged_content(repository: Repository) -> None:
    root = repository.root
    onnx.save(bloated(), root / "model.onnx")
    onnx.save(bloated(seed=3), root / "other.onnx")
    repository.git("add", ".")
    onnx.save(bloated(seed=1), root / "model.onnx")
    unstaged = (root / "model.onnx").read_bytes()
    index = repository.git("ls-files", "--stage")
    done = onnx_ci("fix", "--staged", cwd=root)
    assert done.code == 1
    assert "OCI023 model.onnx" in done.out
    assert "git stash --keep-index" in done.out
    assert (root / "model.onnx").read_bytes() == unstaged
    assert repository.git("ls-files", "--stage") == index
    assert len(onnx.load(root / "other.onnx").graph.initializer) == 1, "the others are fixed"


def test_data_that_is_not_staged_is_missing(repository: Repository) -> None:
    """The commit would hold a model without its weights, though everything is in the work tree."""
    save_outside(lean(), repository.root / "outer.onnx")
    repository.git("add", "outer.onnx")
    done = onnx_ci("check", "--staged", cwd=repository.root)
    assert done.code == 1
    assert "OCI012" in done.out
    assert "outer.onnx.data" in done.out
    assert "onnx-ci-" not in done.out, "names are those of the repository"
    assert "git add outer.onnx.data" in done.out
    repository.git("add", "outer.onnx.data")
    assert onnx_ci("check", "--staged", cwd=repository.root).code == 0


def test_a_conflict_is_not_judged_as_if_it_were_settled(repository: Repository) -> None:
    root = repository.root
    for branch, seed in (("side", 1), ("main", 2)):
        repository.git("checkout", "--quiet", *(["-b"] if branch == "side" else []), branch)
        onnx.save(bloated(seed=seed), root / "model.onnx")
        repository.commit_all(branch)
    assert repository.attempt("merge", "side").returncode != 0
    before = (root / "model.onnx").read_bytes()
    for command in ("check", "fix"):
        done = onnx_ci(command, "--staged", cwd=root)
        assert done.code == 1, done.out
        assert "OCI023 model.onnx: a merge left it in conflict" in done.out
    assert (root / "model.onnx").read_bytes() == before
    repository.git("add", ".")
    assert "OCI023" not in onnx_ci("check", "--staged", cwd=root).out


def test_only_the_data_is_staged(repository: Repository) -> None:
    root = repository.root
    save_outside(lean(), root / "outer.onnx")
    repository.commit_all("data")
    good = (root / "outer.onnx.data").read_bytes()
    (root / "outer.onnx.data").write_bytes(good[: len(good) // 2])
    repository.git("add", ".")
    (root / "outer.onnx.data").write_bytes(good)
    done = onnx_ci("check", "--staged", cwd=root)
    assert done.code == 1
    assert "OCI012" in done.out
    assert onnx_ci("check", "--staged", "outer.onnx.data", cwd=root).code == 1


def test_models_that_share_data_are_seen_in_the_index_too(repository: Repository) -> None:
    root = repository.root
    save_outside(bloated(), root / "a.onnx")
    (root / "b.onnx").write_bytes((root / "a.onnx").read_bytes())
    repository.git("add", ".")
    for name in ("a.onnx", "b.onnx"):
        (root / name).unlink()
    done = onnx_ci("check", "--staged", cwd=root)
    assert done.code == 0, done.out
    assert "OCI021 a.onnx" in done.out


def test_a_link_is_followed_within_the_index(repository: Repository) -> None:
    root = repository.root
    (root / "link.onnx").symlink_to("model.onnx")
    repository.git("add", ".")
    (root / "link.onnx").unlink()
    done = onnx_ci("check", "--staged", "--format", "json", cwd=root)
    assert (done.code, [model["verdict"] for model in done.json["models"]]) == (0, ["ok"])


def test_what_is_pushed_is_judged_at_a_push(repository: Repository) -> None:
    """Another branch than the one that is checked out, with what pre-commit tells a pre-push hook."""
    root = repository.root
    base = repository.git("rev-parse", "HEAD").strip()
    repository.git("checkout", "--quiet", "-b", "feature")
    onnx.save(bloated(), root / "new.onnx")
    tip = repository.commit_all("bad")
    repository.git("checkout", "--quiet", "main")
    refs = {"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": tip}
    for paths in ([], ["new.onnx"]):
        done = onnx_ci("check", "--staged", *paths, cwd=root, env=refs)
        assert done.code == 1, done.out + done.err
        assert "OCI003 new.onnx" in done.out
    fixed = onnx_ci("fix", "--staged", cwd=root, env=refs)
    assert "OCI023" in fixed.out
    assert "check out the branch that is pushed" in fixed.out
    assert not (root / "new.onnx").exists()


def test_the_first_commit(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write_policy(tmp_path, "    budget: {growth: 5%}\n")
    onnx.save(bloated(), tmp_path / "model.onnx")
    assert onnx_ci("check", "--staged", cwd=tmp_path).code == 0, "nothing is staged yet"
    repository.git("add", ".")
    assert onnx_ci("check", "--staged", cwd=tmp_path).code == 1


def test_a_group_is_what_is_staged_too(repository: Repository) -> None:
    root = repository.root
    group = 'groups: [{name: all, paths: ["*.onnx"], budget: {size: 70 kB}}]\n'
    write_policy(root, "    methods: []\n", group)
    onnx.save(lean(layers=3, seed=1), root / "second.onnx")
    repository.git("add", ".")
    onnx.save(lean(layers=1), root / "second.onnx")
    done = onnx_ci("check", "--staged", cwd=root)
    assert done.code == 1
    assert "OCI008 group 'all': 2 models take 82.3 kB" in done.out, done.out
    assert onnx_ci("check", "--all", cwd=root).code == 0


def test_a_moved_model_keeps_its_receipt(repository: Repository) -> None:
    root = repository.root
    write_policy(root, "    methods: [fp16-weights]\n")
    assert onnx_ci("fix", "--all", cwd=root).code == 0
    repository.commit_all("shrunk")
    repository.git("mv", "model.onnx", "moved.onnx")
    before = (root / "moved.onnx").read_bytes()
    assert onnx_ci("fix", "--staged", cwd=root).code == 0
    assert (root / "moved.onnx").read_bytes() == before, "rounded once, not twice"
    repository.git("rm", "--quiet", "--force", "moved.onnx")
    gone = onnx_ci("check", "--staged", cwd=root)
    assert (gone.code, "0 models checked, 1 gone" in gone.out) == (0, True)
