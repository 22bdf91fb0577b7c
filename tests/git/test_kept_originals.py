"""Before `fix` rounds a model, what it was is kept; `restore --original` brings it back, byte for byte."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support.cli import Done, onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean, save_outside

pytestmark = pytest.mark.sampled(14)

INT8 = "    methods: [int8-weights]\n"
REFS = "refs/onnx-ci/originals"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "here")
    write_policy(made.root, INT8)
    made.commit_all("policy")
    return made


def contents(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def original_of(done: Done) -> dict[str, Any]:
    (model,) = done.json["models"]
    assert model["verdict"] == "shrunk", done.out
    original: dict[str, Any] = model["original"]
    return original


def fix(folder: Path, *arguments: str, code: int = 0, **env: str) -> dict[str, Any]:
    done = onnx_ci("fix", *(arguments or ("m.onnx",)), "--format", "json", cwd=folder, env=env)
    assert done.code == code, done.out + done.err
    return original_of(done)


def refs(repository: Repository) -> list[str]:
    return repository.git("for-each-ref", "--format=%(refname)", "refs/onnx-ci").split()


def clean_up(repository: Repository) -> None:
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")


def untracked(repository: Repository) -> None:
    del repository


def modified(repository: Repository) -> None:
    """Another version is in git; what is fixed was never added."""
    now = (repository.root / "m.onnx").read_bytes()
    onnx.save(lean(seed=5), repository.root / "m.onnx")
    repository.commit_all("another version")
    (repository.root / "m.onnx").write_bytes(now)


def staged(repository: Repository) -> None:
    repository.git("add", "m.onnx")


def ignored(repository: Repository) -> None:
    (repository.root / ".gitignore").write_text("*.onnx\n")


def without_commits(repository: Repository) -> None:
    shutil.rmtree(repository.root / ".git")
    Repository(repository.root)


@pytest.mark.parametrize("state", [untracked, modified, staged, ignored, without_commits])
def test_what_git_does_not_have_is_kept_in_its_object_store(repository: Repository, state: Any) -> None:
    here = repository.root
    onnx.save(lean(), here / "m.onnx")
    state(repository)
    before = contents(here)
    found = fix(here)
    digest = hashlib.sha256(before["m.onnx"]).hexdigest()
    expected = {"sha256": digest, "place": "objects", "where": f"{REFS}/{digest}", "verified": False}
    assert found == expected
    assert contents(here) != before
    repository.git("add", "--all")
    clean_up(repository)
    done = onnx_ci("restore", "--original", "m.onnx", cwd=here)
    assert done.code == 0, done.err
    assert "as it was before it was shrunk, from git's object store" in done.out
    assert contents(here) == before
    assert REFS not in repository.git("log", "--all", "--format=%D") if state is not without_commits else True


def test_fix_of_what_is_staged(repository: Repository) -> None:
    here = repository.root
    onnx.save(lean(), here / "m.onnx")
    repository.git("add", "m.onnx")
    before = contents(here)
    assert fix(here, "--staged", code=1)["place"] == "objects"
    repository.git("add", "m.onnx")
    clean_up(repository)
    assert onnx_ci("restore", "--original", "m.onnx", cwd=here).code == 0
    assert contents(here) == before


def test_what_is_committed_is_in_history_and_nothing_more_is_stored(repository: Repository) -> None:
    here = repository.root
    (here / "models").mkdir()
    onnx.save(lean(), here / "models" / "m.onnx")
    repository.commit_all("model")
    before, objects = contents(here), repository.git("count-objects", "-v")
    text = onnx_ci("fix", "--all", cwd=here)
    assert "models/m.onnx: its original is in git history (HEAD:models/m.onnx)" in text.out
    assert refs(repository) == []
    assert repository.git("count-objects", "-v") == objects
    done = onnx_ci("restore", "--original", "models/m.onnx", cwd=here)
    assert done.code == 0
    assert "from git history" in done.out
    assert contents(here) == before


def test_external_data_is_kept_and_comes_back(repository: Repository) -> None:
    here = repository.root
    save_outside(lean(), here / "m.onnx")
    before = contents(here)
    assert fix(here)["place"] == "objects"
    shrunk = contents(here)
    assert shrunk["m.onnx.data"] != before["m.onnx.data"]
    clean_up(repository)
    (here / "out").mkdir()
    elsewhere = onnx_ci("restore", "--original", "m.onnx", "out/m.onnx", cwd=here)
    assert elsewhere.code == 0, elsewhere.err
    assert contents(here / "out") == {name: before[name] for name in ("m.onnx", "m.onnx.data")}
    shutil.rmtree(here / "out")
    assert contents(here) == shrunk
    assert onnx_ci("restore", "--original", "m.onnx", cwd=here).code == 0
    assert contents(here) == before


def test_data_in_a_folder_of_its_own_comes_back_there(repository: Repository) -> None:
    here = repository.root
    (here / "w").mkdir()
    save_outside(lean(), here / "m.onnx")
    model = onnx.load(here / "m.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = "w/m.onnx.data"
    onnx.save(model, here / "m.onnx")
    (here / "m.onnx.data").rename(here / "w" / "m.onnx.data")
    before = contents(here)
    fix(here)
    assert onnx_ci("restore", "--original", "m.onnx", cwd=here).code == 0
    assert contents(here) == before


def test_data_of_others_is_not_written_over(repository: Repository) -> None:
    here = repository.root
    save_outside(lean(), here / "m.onnx")
    fix(here)
    (here / "out").mkdir()
    (here / "out" / "m.onnx.data").write_bytes(b"somebody's")
    done = onnx_ci("restore", "--original", "m.onnx", "out/m.onnx", cwd=here)
    assert done.code == 1
    assert "is there already with other content" in done.err
    assert contents(here / "out") == {"m.onnx.data": b"somebody's"}


def test_what_an_exact_method_drops_comes_back_too(repository: Repository) -> None:
    write_policy(repository.root, "    methods: [dedupe]\n")
    onnx.save(bloated(), repository.root / "m.onnx")
    done = onnx_ci("fix", "m.onnx", "--format", "json", cwd=repository.root)
    assert done.json["models"][0]["original"]["place"] == "objects"
    assert onnx_ci("restore", "--original", "m.onnx", cwd=repository.root).code == 0
    assert onnx.load(repository.root / "m.onnx") == bloated()


def test_an_exact_fix_and_then_one_that_rounds(repository: Repository) -> None:
    """What is kept is what was there when something was lost, and that is what comes back."""
    here = repository.root
    write_policy(here, "    methods: [dedupe]\n")
    onnx.save(bloated(), here / "m.onnx")
    onnx_ci("fix", "m.onnx", cwd=here)
    write_policy(here, INT8)
    before = contents(here)
    fix(here)
    assert onnx_ci("restore", "--original", "m.onnx", cwd=here).code == 0
    assert contents(here) == before


def test_outside_of_git_there_is_a_folder(tmp_path: Path) -> None:
    here, kept = tmp_path / "here", tmp_path / "originals"
    write_policy(here, INT8)
    save_outside(lean(), here / "m.onnx")
    before = contents(here)
    found = fix(here, ONNX_CI_ORIGINALS=str(kept))
    assert found["place"] == "folder"
    assert found["where"] == str(kept / found["sha256"])
    env = {"ONNX_CI_ORIGINALS": str(kept)}
    lost = onnx_ci("restore", "--original", "m.onnx", cwd=here)
    assert lost.code == 1
    assert "was not found in the folder of originals" in lost.err
    done = onnx_ci("restore", "--original", "m.onnx", cwd=here, env=env)
    assert done.code == 0, done.err
    assert contents(here) == before


def test_the_folder_is_bounded_and_the_last_one_stays(tmp_path: Path) -> None:
    here, kept = tmp_path / "here", tmp_path / "originals"
    write_policy(here, INT8)
    env: dict[str, Any] = {"ONNX_CI_ORIGINALS": str(kept), "ONNX_CI_ORIGINALS_SIZE": "40 kB"}
    for seed in (0, 1, 2):
        onnx.save(lean(seed=seed), here / "m.onnx")
        last = fix(here, **env)
        os.utime(kept / last["sha256"], (seed, seed))
    assert [path.name for path in kept.iterdir()] == [last["sha256"]]
    onnx.save(lean(width=128), here / "m.onnx")
    large = fix(here, **env)
    assert [path.name for path in kept.iterdir()] == [large["sha256"]], "larger than all that may be there"


def test_what_can_not_be_kept_is_not_replaced(tmp_path: Path) -> None:
    here = tmp_path / "here"
    write_policy(here, INT8)
    onnx.save(lean(), here / "m.onnx")
    (tmp_path / "file").write_text("no folder")
    before = contents(here)
    done = onnx_ci("fix", "m.onnx", cwd=here, env={"ONNX_CI_ORIGINALS": str(tmp_path / "file" / "x")})
    assert done.code == 1
    assert "error OCI051" in done.out
    assert contents(here) == before


@pytest.mark.real
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
@pytest.mark.parametrize("committed", [True, False])
def test_what_git_lfs_tracks_is_in_its_store(repository: Repository, committed: bool) -> None:
    here = repository.root
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.onnx")
    onnx.save(lean(), here / "m.onnx")
    if committed:
        repository.commit_all("model")
    before = contents(here)
    found = fix(here)
    assert found["place"] == "lfs"
    assert (here / found["where"]).read_bytes() == before["m.onnx"]
    assert refs(repository) == []
    assert onnx_ci("restore", "--original", "m.onnx", cwd=here).code == 0
    assert contents(here) == before


def test_what_dvc_has_is_in_its_cache(repository: Repository) -> None:
    here = repository.root
    onnx.save(lean(), here / "m.onnx")
    content = (here / "m.onnx").read_bytes()
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    cached = here / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]
    cached.parent.mkdir(parents=True)
    cached.write_bytes(content)
    (here / "m.onnx.dvc").write_text(f"outs:\n- md5: {md5}\n  size: {len(content)}\n  path: m.onnx\n")
    (here / ".gitignore").write_text("/m.onnx\n.dvc/cache\n")
    repository.commit_all("model")
    assert fix(here)["place"] == "dvc"
    assert refs(repository) == []
    done = onnx_ci("restore", "--original", "m.onnx", cwd=here)
    assert done.code == 0, done.err
    assert (here / "m.onnx").read_bytes() == content


def test_an_original_that_is_nowhere(repository: Repository, tmp_path: Path) -> None:
    here = repository.root
    onnx.save(lean(), here / "m.onnx")
    found = fix(here)
    repository.forget_originals()
    before = contents(here)
    done = onnx_ci("restore", "--original", "m.onnx", cwd=here)
    assert done.code == 1
    for place in ("git history", "Git LFS", "DVC", "folder of originals", found["sha256"]):
        assert place in done.err
    assert contents(here) == before


def test_what_restore_refuses(repository: Repository) -> None:
    here = repository.root
    onnx.save(lean(), here / "m.onnx")
    plain = onnx_ci("restore", "--original", "m.onnx", cwd=here)
    assert (plain.code, "has no receipt" in plain.err) == (1, True)
    assert onnx_ci("restore", "m.onnx", cwd=here).code == 2
    assert onnx_ci("restore", "--original", "n.onnx", cwd=here).code == 2
    fix(here)
    model = onnx.load(here / "m.onnx")
    model.graph.node[0].name = "edited"
    onnx.save(model, here / "m.onnx")
    edited = onnx_ci("restore", "--original", "m.onnx", cwd=here)
    assert (edited.code, "was changed after" in edited.err) == (1, True)
    assert onnx_ci("restore", "--original", "m.onnx", "o.onnx", cwd=here).code == 0
    assert (here / "o.onnx").read_bytes() == lean().SerializeToString()


def test_a_rule_that_changes_finds_what_was_kept(repository: Repository) -> None:
    """External data too, which was in no commit."""
    here = repository.root
    save_outside(lean(), here / "m.onnx")
    before = contents(here)
    fix(here)
    repository.commit_all("shrunk")
    clean_up(repository)
    write_policy(here, "    methods: [fp16-weights]\n")
    done = onnx_ci("fix", "m.onnx", "--format", "json", cwd=here)
    assert original_of(done)["place"] == "objects"
    assert onnx_ci("restore", "--original", "m.onnx", cwd=here).code == 0
    assert {**contents(here), ".onnx-ci.yaml": b""} == {**before, ".onnx-ci.yaml": b""}
