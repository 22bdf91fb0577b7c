"""Keeps the files of an original before it is replaced: in git, in Git LFS, or in a folder of originals.

Each file goes by its sha256, all of them by that of the whole. In git a ref holds them, so that no
`git gc` takes them away; these refs are never removed by us.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.model.hashing import file_sha256
from onnx_ci.model.pointers import LARGEST, read_pointer
from onnx_ci.places import originals_home
from onnx_ci.scratch import scratch_folder
from onnx_ci.sizes import parse_size
from onnx_ci.targets import lfs
from onnx_ci.targets.git import git_into, git_or_none, run_git
from onnx_ci.whole import whole

REFS = "refs/onnx-ci/originals"
MOST = "10 GB"  # of the folder; what was kept last stays whatever its size

Place = tuple[str, str]  # what kind of place, and what a file is called there


def keep(repository: Path | None, files: Mapping[Path, str], sha256: str) -> Place:
    """See to it that the files, each with its sha256, can be had again. An OSError where they can't."""
    if repository is not None:
        try:
            return _in_git(repository, files, sha256)
        except (OSError, EnvironmentFault):  # no git, or one that can't be written
            pass
    return "folder", str(_in_folder(files, sha256))


def _in_git(repository: Path, files: Mapping[Path, str], sha256: str) -> Place:
    places = {file: _kept_already(repository, file, digest) for file, digest in files.items()}
    loose = {file: digest for file, digest in files.items() if places[file] is None}
    if loose:
        ref = f"{REFS}/{sha256}"
        _hold(repository, ref, {digest: _hashed(repository, file, "-w") for file, digest in loose.items()})
        return "objects", ref
    told = [place for place in places.values() if place is not None]
    return next((place for place in told if place[0] != "history"), told[0])


def _kept_already(repository: Path, file: Path, sha256: str) -> Place | None:
    """Where a file is without our doing: in the last commit, with Git LFS, or with DVC."""
    if not file.is_relative_to(repository):
        return None
    name = file.relative_to(repository).as_posix()
    blob = _blob(repository, f"HEAD:{name}")
    if blob and blob == _hashed(repository, file):
        return "history", f"HEAD:{name}"
    pointer = read_pointer(_small(repository, blob)) if blob else None
    if (pointer is not None and pointer.digest == sha256) or lfs.tracks(repository, name):
        return "lfs", _in_lfs(repository, file, sha256)
    cached = dvc_content(repository, _small(repository, _blob(repository, f"HEAD:{name}.dvc")), file.name)
    if cached is not None and file_sha256(cached) == sha256:
        return "dvc", cached.relative_to(repository).as_posix()
    return None


def dvc_content(repository: Path, text: str, name: str) -> Path | None:
    """What DVC has in its cache for a file, by the text of a `.dvc` file."""
    if not text:
        return None
    from onnx_ci.targets import dvc

    pointer = dvc.read_dvc(text, name)
    return dvc.cached(repository, pointer) if pointer else None


def _blob(repository: Path, revision: str) -> str:
    return (git_or_none(repository, "rev-parse", "--verify", "--quiet", revision) or "").strip()


def _small(repository: Path, blob: str) -> str:
    """The text of a small content of git; nothing of one that is not small, or not there."""
    size = (git_or_none(repository, "cat-file", "-s", blob) or "").strip() if blob else ""
    small = size.isdigit() and int(size) <= 4 * LARGEST
    return (git_or_none(repository, "cat-file", "blob", blob) or "") if small else ""


def _hashed(repository: Path, file: Path, *how: str) -> str:
    return run_git(repository, "hash-object", *how, "--no-filters", "--", str(file)).strip()


def _hold(repository: Path, ref: str, blobs: Mapping[str, str]) -> None:
    """A ref to a tree of the contents, each called by its sha256: `git log --all` shows no tree."""
    entries = [word for digest, blob in blobs.items() for word in ("--cacheinfo", f"100644,{blob},{digest}")]
    with scratch_folder() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        run_git(repository, "update-index", "--add", *entries, also=index)
        tree = run_git(repository, "write-tree", also=index).strip()
    run_git(repository, "update-ref", ref, tree)


def _in_lfs(repository: Path, file: Path, sha256: str) -> str:
    """Into the store of Git LFS, where `git lfs` itself would put it."""
    path = lfs.object_path(repository, sha256)
    if not path.is_file() or file_sha256(path) != sha256:
        path.parent.mkdir(parents=True, exist_ok=True)
        _copy(file, path)
    return os.path.relpath(path, repository)


def _copy(file: Path, path: Path) -> None:
    with whole(path) as temporary:
        shutil.copyfile(file, temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())


def _in_folder(files: Mapping[Path, str], sha256: str) -> Path:
    """Into the folder of originals. What was kept for longest goes when that is full."""
    place = originals_home() / sha256
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for file, digest in files.items():
        _copy(file, place / digest)
    os.utime(place)
    _trim(place)
    return place


def _trim(newest: Path) -> None:
    total = 0
    others = [path for path in newest.parent.iterdir() if path.is_dir() and path != newest]
    for path in [newest, *sorted(others, key=lambda path: -path.stat().st_mtime)]:
        total += sum(file.stat().st_size for file in path.iterdir())
        if total > _limit() and path != newest:
            shutil.rmtree(path, ignore_errors=True)


def _limit() -> int:
    text = os.environ.get("ONNX_CI_ORIGINALS_SIZE") or MOST
    try:
        return parse_size(text)
    except ValueError as error:
        hint = "for example: ONNX_CI_ORIGINALS_SIZE='20 GB'"
        raise UsageError(f"ONNX_CI_ORIGINALS_SIZE: {error}", hint=hint) from None


def kept_content(repository: Path | None, whole_sha256: str, sha256: str, target: Path) -> Place | None:
    """Write one file of an original that was kept to `target`, if it is there as it was."""
    if repository is not None:
        blob = _blob(repository, f"{REFS}/{whole_sha256}:{sha256}")
        if blob and git_into(target, repository, "cat-file", "blob", blob) and file_sha256(target) == sha256:
            return "objects", f"{REFS}/{whole_sha256}"
    try:
        file = originals_home() / whole_sha256 / sha256
        if file.is_file():
            shutil.copyfile(file, target)
            if file_sha256(target) == sha256:
                return "folder", str(file.parent)
    except (OSError, RuntimeError):  # no home folder, or it can't be read
        pass
    return None
