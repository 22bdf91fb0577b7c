"""Models in Git LFS, with the real git-lfs and a file:// remote."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.hooks import Hooked
from tests.support.models import bloated, lean, save_outside

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed"),
]
SIZE_ONLY = "    budget: {size: %s}\n    methods: []\n"
FETCH = "lfs: {missing: fetch}\n"


@pytest.fixture
def clone(tmp_path: Path) -> Repository:
    """A clone that has pointers and no content: bloated `new.onnx` was added after `old.onnx`."""
    origin = Repository(tmp_path / "origin.git", bare=True)
    author = Repository(tmp_path / "author")
    author.git("lfs", "install", "--local")
    author.git("lfs", "track", "*.onnx", "*.data")
    author.git("remote", "add", "origin", f"file://{origin.root}")
    write_policy(author.root)
    (author.root / "sub").mkdir()
    onnx.save(lean(), author.root / "old.onnx")
    onnx.save(lean(seed=2), author.root / "sub" / "new.onnx")
    author.commit_all("old")
    onnx.save(bloated(), author.root / "new.onnx")
    save_outside(bloated(seed=1), author.root / "outer,[1].onnx")
    author.commit_all("new")
    author.git("push", "--quiet", "origin", "main")
    author.git("clone", "--quiet", f"file://{origin.root}", str(tmp_path / "clone"), GIT_LFS_SKIP_SMUDGE="1")
    made = Repository(tmp_path / "clone")
    made.git("lfs", "install", "--local", "--skip-smudge")
    assert is_pointer(made.root / "new.onnx")
    return made


def is_pointer(path: Path) -> bool:
    return path.read_bytes().startswith(b"version https://git-lfs")


def downloaded(repository: Repository) -> list[Path]:
    store = repository.root / ".git" / "lfs" / "objects"
    return [path for path in store.rglob("*") if path.is_file()]


def check(repository: Repository, rule: str = "", rest: str = "", *arguments: str) -> Done:
    """Commit the policy as the base has it, so that only models differ."""
    write_policy(repository.root, rule, rest)
    return onnx_ci("check", *(arguments or ("new.onnx",)), cwd=repository.root)


def test_sizes_are_judged_from_pointers_without_a_download(clone: Repository) -> None:
    assert check(clone, SIZE_ONLY % "70 kB").code == 0
    over = check(clone, SIZE_ONLY % "60 kB")
    assert over.code == 1
    assert "OCI001 new.onnx: 65.8 kB" in over.out
    grown = check(clone, "    budget: {growth: 5%}\n    methods: []\n", "", "--since", "HEAD~1")
    assert grown.code == 0, "new models did not grow"
    both = check(clone, SIZE_ONLY % "60 kB", "", "outer,[1].onnx")
    assert "66.1 kB" in both.out, "its data is counted, by its pointer too"
    assert not downloaded(clone)


def test_what_needs_the_content_says_so(clone: Repository) -> None:
    missing = check(clone, "    budget: {size: 70 kB}\n")
    assert missing.code == 1
    assert "error OCI007 new.onnx" in missing.out
    assert "git lfs pull --include new.onnx" in missing.out
    over = check(clone, "    budget: {size: 60 kB}\n")
    assert "OCI001" in over.out
    assert "OCI007" in over.out
    mild = check(clone, "    budget: {size: 70 kB}\n", "lfs: {missing: warning}\n")
    assert mild.code == 0
    assert "warning OCI007" in mild.out
    assert not downloaded(clone)


def test_only_what_changed_is_fetched_where_that_is_allowed(clone: Repository) -> None:
    before = (clone.root / "new.onnx").read_bytes()
    done = check(clone, "", FETCH, "new.onnx")
    assert done.code == 1, done.out
    assert "OCI003 new.onnx" in done.out
    assert len(downloaded(clone)) == 1, "sub/new.onnx is another file"
    assert (clone.root / "new.onnx").read_bytes() == before, "check changes nothing"
    outer = check(clone, "", FETCH, "outer,[1].onnx")
    assert "OCI003 outer,[1].onnx" in outer.out, outer.out
    assert len(downloaded(clone)) == 3, "the model, then the data it names"


def test_a_fetch_that_fails_says_why(clone: Repository, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "origin.git" / "lfs")
    done = check(clone, "", FETCH)
    assert done.code == 1
    assert "Git LFS could not fetch" in done.out
    assert "OCI007" in done.out
    assert "missing: fetch" not in done.out, "it is set already"


def test_a_fixed_model_stays_in_lfs(clone: Repository) -> None:
    write_policy(clone.root, rest=FETCH)
    done = onnx_ci("fix", "new.onnx", cwd=clone.root)
    assert done.code == 0, done.out + done.err
    size = (clone.root / "new.onnx").stat().st_size
    assert len(onnx.load(clone.root / "new.onnx").graph.initializer) == 1
    clone.git("add", "new.onnx")
    pointer = clone.git("cat-file", "blob", ":new.onnx")
    assert pointer.startswith("version https://git-lfs")
    assert f"size {size}\n" in pointer
    assert onnx_ci("check", "--staged", "new.onnx", cwd=clone.root).code == 0


@pytest.mark.parametrize("selection", [[], ["--staged"]])
def test_what_a_check_fetched_is_there_for_a_fix(clone: Repository, selection: list[str]) -> None:
    """The check leaves pointers in the work tree; the fix needs no network."""
    names = ["new.onnx", "outer,[1].onnx"]
    assert check(clone, "", FETCH, *names).out.count("OCI003") == len(names)
    clone.git("remote", "remove", "origin")
    done = onnx_ci("fix", *selection, *names, cwd=clone.root)
    assert "OCI023" not in done.out
    assert len(onnx.load(clone.root / "new.onnx").graph.initializer) == 1, "fixed"
    assert not is_pointer(clone.root / "outer,[1].onnx.data")
    assert is_pointer(clone.root / "old.onnx"), "no others"


@pytest.mark.parametrize("rule", [SIZE_ONLY % "1 MB", ""])
def test_data_of_a_model_that_is_not_here_is_missed(clone: Repository, rule: str) -> None:
    clone.git("rm", "--quiet", "--cached", "outer,[1].onnx.data")
    done = check(clone, rule, "", "--staged")
    assert done.code == 1, done.out
    assert "error OCI012 outer,[1].onnx: its data outer,[1].onnx.data" in done.out
    assert not downloaded(clone)
    (clone.root / "outer,[1].onnx.data").unlink()
    assert "error OCI012 outer,[1].onnx" in check(clone, rule, "", "--since", "HEAD").out


def test_growth_of_a_model_in_lfs(clone: Repository) -> None:
    rule = "    budget: {growth: 5%}\n    methods: []\n"
    onnx.save(lean(layers=3), clone.root / "old.onnx")
    clone.git("mv", "sub/new.onnx", "sub/moved.onnx")
    clone.git("add", ".")
    done = check(clone, rule, "", "--staged")
    assert "OCI002 old.onnx" in done.out
    assert "moved.onnx" not in done.out.split("OCI002")[1]


def test_staged_in_lfs_and_edited_since(clone: Repository) -> None:
    """The index holds a pointer, the content is in the store, something else is in the work tree."""
    write_policy(clone.root)
    onnx.save(bloated(seed=4), clone.root / "mine.onnx")
    clone.git("add", "mine.onnx")
    assert "OCI003 mine.onnx" in onnx_ci("check", "--staged", "mine.onnx", cwd=clone.root).out
    onnx.save(lean(), clone.root / "mine.onnx")
    done = onnx_ci("check", "--staged", "mine.onnx", cwd=clone.root)
    assert "OCI003 mine.onnx" in done.out


def test_our_push_hook_lives_beside_that_of_lfs(clone: Repository, tmp_path: Path) -> None:
    clone.git("lfs", "install", "--local", "--force")
    hooked = Hooked(clone.root, "pre-commit", "onnx-ci-check", "pre-push")
    write_policy(clone.root, SIZE_ONLY % "1 MB")
    onnx.save(lean(seed=9), clone.root / "mine.onnx")
    hooked.commit_all("mine")
    before = len(list((tmp_path / "origin.git" / "lfs" / "objects").rglob("*")))
    pushed = hooked.attempt("push", "origin", "main")
    assert pushed.returncode == 0, pushed.stdout + pushed.stderr
    assert len(list((tmp_path / "origin.git" / "lfs" / "objects").rglob("*"))) > before
