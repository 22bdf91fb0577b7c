"""Git LFS: where content lies that was downloaded, and how what is missing is fetched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.model.pointers import Pointer
from onnx_ci.targets.git import ask_git, complaint_of, run_git, shared_folder, split


def stored(repository: Path, pointer: Pointer) -> Path | None:
    """The content in the store of this clone, or None where it was not downloaded."""
    path = object_path(repository, pointer.digest)
    return path if path.is_file() and path.stat().st_size == pointer.size else None


def object_path(repository: Path, sha256: str) -> Path:
    """Where Git LFS keeps a content once it was added or downloaded."""
    folder = shared_folder(repository)
    named = (ask_git(repository, "config", "lfs.storage") or "").rstrip("\n")
    return (folder / (named or "lfs")) / "objects" / sha256[:2] / sha256[2:4] / sha256


def tracks(repository: Path, name: str) -> bool:
    """Whether a file would become a pointer of Git LFS when it is added."""
    told = split(run_git(repository, "check-attr", "-z", "filter", "--", name))
    return told[2:] == ["lfs"]


def fetch(repository: Path, names: Sequence[str], *, commit: str) -> str | None:
    """Download the content of some files of a commit, and leave the work tree alone. What went wrong."""
    remote = run_git(repository, "remote").split("\n")
    chosen = "origin" if "origin" in remote else remote[0]
    if not chosen:
        return "there is no remote to fetch it from"
    return complaint_of(repository, "lfs", "fetch", chosen, commit, *_only(names))


def check_out(repository: Path, names: Sequence[str]) -> str | None:
    """What was downloaded, to where its pointers are in the work tree. What went wrong."""
    return complaint_of(repository, "lfs", "checkout", *map(_pattern, names))


def _only(names: Sequence[str]) -> list[str]:
    return ["--include", ",".join(map(_pattern, names)), "--exclude", ""]


def _pattern(name: str) -> str:
    """What could mean something else becomes `?`, any one character."""
    return "/" + re.sub(r"[^\w./ -]", "?", name)
