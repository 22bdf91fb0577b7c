"""Reads files out of the index or a commit: what is staged or pushed, whatever the work tree holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from onnx_ci.model.locations import LARGEST, read_pointer
from onnx_ci.repo.changes import MODELS
from onnx_ci.repo.git import Objects, ask_in_parts, file_names, git_or_none, run_git

LINK = "120000"
_SMALL = 1 << 16
_CONVERTING = ("filter", "working-tree-encoding")  # attributes that may keep a size; others never do
_HARMLESS = ("unspecified", "unset", "set", "lfs")


class Entry:
    """One file of a tree: its kind and the name of its content."""

    def __init__(self, mode: str, blob: str) -> None:
        self.mode = mode
        self.blob = blob


class Tree:
    """The files of a commit, or those of the index where no commit is named."""

    def __init__(self, repository: Path, commit: str = "") -> None:
        self.repository = repository
        self.commit = commit
        self.objects = Objects(repository)
        self._entries: dict[str, Entry | None] = {}
        self.unmerged: set[str] = set()  # of the names that were asked for
        self._same: dict[str, bool] = {}
        self._converting: set[str] = set()
        self._raw: dict[str, bool] = {}

    def look_up(self, names: Iterable[str]) -> None:
        """Ask for many names at once: git is started once for all."""
        new = [name for name in dict.fromkeys(names) if name not in self._entries]
        if not new:
            return
        listing = ["ls-tree", "-z", self.commit] if self.commit else ["ls-files", "--stage", "-z"]
        lines = ask_in_parts(self.repository, *listing, names=new)
        entries = dict(_entry(line) for line in lines if not _is_conflict(line))
        self._entries.update({name: entries.get(name) for name in new})
        self.unmerged.update(_entry(line)[0] for line in lines if _is_conflict(line))
        sides = [self.commit] if self.commit else []
        compare = ["diff", "--name-only", "-z", "--no-renames", *sides]
        other = set(ask_in_parts(self.repository, *compare, names=new))
        there = {name for name in entries if os.path.lexists(self.repository / name)}  # sparse checkouts
        clean = [name for name in new if name in there and name not in other]
        unseen = self._unseen(clean)
        self._same.update(dict.fromkeys(new, False))
        self._same.update(
            {name: name not in unseen or self.would_be(name) == entries[name].blob for name in clean}
        )
        self._converting |= self._with_a_filter(clean)

    def _unseen(self, names: Sequence[str]) -> set[str]:
        """Files that git was told not to look at, so that it calls them clean whatever is in them."""
        lines = ask_in_parts(self.repository, "ls-files", "-v", "-z", names=names)
        return {line[2:] for line in lines if line[0] == "S" or line[0].islower()}

    def _with_a_filter(self, names: Sequence[str]) -> set[str]:
        words = ask_in_parts(self.repository, "check-attr", "-z", *_CONVERTING, names=names)
        filters = zip(words[::3], words[2::3], strict=True)
        return {name for name, value in filters if value not in _HARMLESS}

    def names_of(self, path: Path) -> list[str]:
        """What git may call a file: its own name, or that of what stands for it in DVC; none from outside."""
        if not path.is_relative_to(self.repository):
            return []
        name = path.relative_to(self.repository).as_posix()
        return [name, f"{name}.dvc"]

    def look_up_files(self, paths: Iterable[Path]) -> None:
        self.look_up(name for path in paths for name in self.names_of(path))

    def has(self, path: Path) -> bool:
        """Whether a file, or what stands for it, is in this tree."""
        self.look_up_files([path])
        return any(map(self.entry, self.names_of(path)))

    def entry(self, name: str) -> Entry | None:
        """What the tree has under a name; nothing where git has no name for a file."""
        if not name:
            return None
        self.look_up([name])
        return self._entries[name]

    def is_in_work_tree(self, name: str) -> bool:
        """Whether the work tree holds what this tree has under a name."""
        self.look_up([name])
        return self._same[name]

    def is_as_stored(self, name: str) -> bool:
        """The same, and byte for byte: git converts some files when they are added, and calls them clean."""
        if name not in self._raw:
            self._raw[name] = self.is_in_work_tree(name) and not self._is_converted(name)
        return self._raw[name]

    def _is_converted(self, name: str) -> bool:
        entry, path = self.entry(name), self.repository / name
        if entry is None or entry.mode == LINK or not path.is_file():
            return False
        if name in self._converting:
            return self._hashed("--no-filters", "--", name) != entry.blob
        sizes = [self.size(entry)]
        pointer = read_pointer(self.read(entry)) if sizes[0] <= LARGEST else None
        return path.stat().st_size not in (*sizes, *([pointer.size] if pointer else []))

    def models(self) -> list[str]:
        """Every model, and every file that stands for one in DVC."""
        return self._models

    @cached_property
    def _models(self) -> list[str]:
        if not self.commit:
            return file_names(run_git(self.repository, "ls-files", "-z", "--", *MODELS))
        names = file_names(run_git(self.repository, "ls-tree", "-r", "-z", "--name-only", self.commit))
        return [name for name in names if name.lower().endswith((".onnx", ".onnx.dvc"))]

    def read(self, entry: Entry) -> str:
        """The content of a small file; nothing of one that is not small."""
        return self.objects.text(entry.blob) if self.size(entry) <= _SMALL else ""

    def would_be(self, name: str) -> str:
        """The name that a file of the work tree would have as a content of git."""
        return self._hashed("--", name)

    def _hashed(self, *arguments: str) -> str:
        """Nothing for what can't be read: then it is no content that git has."""
        return (git_or_none(self.repository, "hash-object", *arguments) or "").strip()

    def size(self, entry: Entry) -> int:
        return self.objects.size(entry.blob)

    def export(self, entry: Entry, target: Path) -> None:
        with target.open("wb") as file:
            self.objects.copy(entry.blob, file)

    def close(self) -> None:
        """Nothing is asked for a while; the next question starts git again."""
        self.objects.close()


def _is_conflict(line: str) -> bool:
    """One side of a merge that is not settled: stages 1 to 3 of the index."""
    return line.partition("\t")[0][-2:] in (" 1", " 2", " 3")


def _entry(line: str) -> tuple[str, Entry]:
    """`mode blob stage⇥name` of the index, `mode type blob⇥name` of a commit."""
    words, _, name = line.partition("\t")
    mode, first, second = words.split(" ")
    return name, Entry(mode, second if first in ("blob", "commit", "tree") else first)
