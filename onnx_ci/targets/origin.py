"""Finds a content again by its sha256: in the local store of Git LFS, or among what git has stored."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.hashing import file_sha256
from onnx_ci.shell import shell_word
from onnx_ci.targets.git import ask_git, git_into, run_git, shared_folder

MOST_BLOBS = 64  # that are read to see whether they are it
MOST_BYTES = 8 << 30  # of them together, the first excepted
_CHANGE = re.compile(r"(?:^|\0):\d{6} \d{6} ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ")


def find_content(
    repository: Path, name: str, sha256: str, target: Path, *, size: int, exact: bool
) -> str | None:
    """Write the content with that sha256 to `target`, and tell which command prints it, if any does.

    `name` is where it was, or is now, in the repository. `size` is its size if that is `exact`, or else
    what it can have at most. Nothing is downloaded, and nothing counts but the digest of what was written.
    """
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    stored = _lfs_object(repository, sha256)
    if stored.is_file() and stored.stat().st_size <= size:
        shutil.copyfile(stored, target)
        if file_sha256(target) == sha256:
            return f"cat {shell_word(os.path.relpath(stored))}"
    for blob in islice(_within_reason(_blobs(repository, name, target, size, exact)), MOST_BLOBS):
        if git_into(target, repository, "cat-file", "blob", blob) and file_sha256(target) == sha256:
            return f"git cat-file blob {blob}"
    target.unlink(missing_ok=True)
    return None


def _lfs_object(repository: Path, sha256: str) -> Path:
    """Where Git LFS keeps a content once it was added or downloaded."""
    folder = shared_folder(repository)
    named = (ask_git(repository, "config", "lfs.storage") or "").rstrip("\n")
    return (folder / (named or "lfs")) / "objects" / sha256[:2] / sha256[2:4] / sha256


def _within_reason(blobs: Iterator[tuple[str, int]]) -> Iterator[str]:
    read = 0
    for blob, size in blobs:
        read += size
        if read == size or read <= MOST_BYTES:
            yield blob


def _blobs(repository: Path, name: str, scratch: Path, size: int, exact: bool) -> Iterator[tuple[str, int]]:
    """Versions of the file first, the newest before older ones. Where the size is known, whatever else is
    as large: it may have had another name, or been staged and never committed."""
    versions = _versions(repository, name)
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
