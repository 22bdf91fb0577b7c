"""Finds a content again by its sha256: with Git LFS or DVC in this clone, or among what git has stored."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.hashing import file_sha256
from onnx_ci.shell import shell_word
from onnx_ci.targets.git import git_into, git_or_none, run_git
from onnx_ci.targets.keep import dvc_content
from onnx_ci.targets.lfs import object_path

MOST_BLOBS = 64  # that are read to see whether they are it
MOST_BYTES = 8 << 30  # of them together, the first excepted
_CHANGE = re.compile(r"(?:^|\0):\d{6} \d{6} ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ")


class Content:
    """Where a content was found, and the command that prints it."""

    def __init__(self, place: str, where: str, command: str) -> None:
        self.place = place  # "history" | "objects" | "lfs" | "dvc" | "folder"
        self.where = where
        self.command = command


def find_content(
    repository: Path, name: str, sha256: str, target: Path, *, size: int, exact: bool
) -> Content | None:
    """Write the content with that sha256 to `target`, and tell where it was, if it is anywhere.

    `name` is where it was, or is now, in the repository. `size` is its size if that is `exact`, or else
    what it can have at most. Nothing is downloaded, and nothing counts but the digest of what was written.
    """
    for place, file in _files(repository, name, sha256):
        if file.is_file() and file.stat().st_size <= size:
            shutil.copyfile(file, target)
            if file_sha256(target) == sha256:
                shown = os.path.relpath(file)
                return Content(place, shown, f"cat {shell_word(shown)}")
    versions = _versions(repository, name)
    blobs = _blobs(repository, versions, target, size, exact)
    for blob in islice(_within_reason(blobs), MOST_BLOBS):
        if git_into(target, repository, "cat-file", "blob", blob) and file_sha256(target) == sha256:
            place = "history" if blob in versions else "objects"
            return Content(place, f"blob {blob[:12]}", f"git cat-file blob {blob}")
    target.unlink(missing_ok=True)
    return None


def _files(repository: Path, name: str, sha256: str) -> Iterator[tuple[str, Path]]:
    """Where Git LFS has it, and what DVC has of every version that git knows of."""
    yield "lfs", object_path(repository, sha256)
    by_dvc = _versions(repository, f"{name}.dvc") if (repository / ".dvc").is_dir() else []
    for blob in by_dvc[:MOST_BLOBS]:
        text = git_or_none(repository, "cat-file", "blob", blob) or ""
        found = dvc_content(repository, text, PurePosixPath(name).name)
        if found is not None:
            yield "dvc", found


def _within_reason(blobs: Iterator[tuple[str, int]]) -> Iterator[str]:
    read = 0
    for blob, size in blobs:
        read += size
        if read == size or read <= MOST_BYTES:
            yield blob


def _blobs(
    repository: Path, versions: Sequence[str], scratch: Path, size: int, exact: bool
) -> Iterator[tuple[str, int]]:
    """Versions of the file first, the newest before older ones. Where the size is known, whatever else is
    as large: it may have had another name, or been staged and never committed."""
    ages = {blob: age for age, blob in enumerate(versions)}
    found = [
        (blob, length)
        for blob, length in _objects(repository, scratch)
        if (length == size if exact else length <= size and blob in ages)
    ]
    yield from sorted(found, key=lambda item: (ages.get(item[0], len(ages)), item[0]))


def _versions(repository: Path, name: str) -> list[str]:
    """Every content a file had in any branch, renames followed (those that changed nothing else)."""
    log = run_git(
        repository,
        "--literal-pathspecs",
        *("log", "--all", "--follow", "--find-renames=100%", "--raw", "--no-abbrev", "-z", "--format="),
        *("--", name),
    )
    pairs = _CHANGE.findall(log)
    return list(dict.fromkeys(blob for old, new in pairs for blob in (new, old)))


def _objects(repository: Path, scratch: Path) -> Iterator[tuple[str, int]]:
    """All blobs that are here, with their sizes: one call, whether they are many or few."""
    form = "--batch-check=%(objecttype) %(objectname) %(objectsize)"
    if not git_into(scratch, repository, "cat-file", "--batch-all-objects", "--unordered", form):
        raise EnvironmentFault("git can't list the contents that it has")
    with scratch.open(encoding="ascii") as lines:
        for line in lines:
            kind, blob, size = line.split()
            if kind == "blob":
                yield blob, int(size)
