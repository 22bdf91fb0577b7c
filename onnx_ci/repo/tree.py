"""Reads files out of the index or a commit: what is staged or pushed, whatever the work tree holds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from onnx_ci.repo.changes import MODELS
from onnx_ci.repo.git import Objects, ask_in_parts, file_names, git_or_none, run_git

LINK = "120000"
SMALL = 1 << 16
_CONVERTING = ("filter", "working-tree-encoding")  # attributes that may keep a size; others never do
_HARMLESS = ("unspecified", "unset", "set", "lfs")


class Entry:
    """One file of a tree: its kind, the name of its content, and what the work tree has in its place."""

    def __init__(self, mode: str, blob: str) -> None:
        self.mode = mode
        self.blob = blob
        self.in_work_tree = False  # the same content, as git sees it
        self.filtered = False  # by something that may keep its size


class Tree:
    """The files of a commit, or those of the index where no commit is named."""

    def __init__(self, repository: Path, commit: str = "") -> None:
        self.repository = repository
        self.commit = commit
        self.objects = Objects(repository)
        self._entries: dict[str, Entry | None] = {}
        self.unmerged: set[str] = set()  # of the names that were asked for
        self._raw: dict[str, bool] = {}

    def look_up(self, names: Iterable[str]) -> None:
        """Ask for many names at once: git is started once for all."""
        new = [name for name in dict.fromkeys(names) if name not in self._entries]
        if not new:
            return
        listing = ["ls-tree", "-z", self.commit] if self.commit else ["ls-files", "--stage", "-z"]
        found: dict[str, Entry] = {}
        for line in ask_in_parts(self.repository, *listing, names=new):
            # `mode type blob⇥name` of a commit, `mode blob stage⇥name` of the index
            words, _, name = line.partition("\t")
            mode, first, second = words.split(" ")
            if self.commit or second == "0":
                found[name] = Entry(mode, second if self.commit else first)
            else:  # one side of a merge that is not settled
                self.unmerged.add(name)
        self._entries.update({name: found.get(name) for name in new})
        self._compare({name: found[name] for name in new if name in found})

    def _compare(self, entries: dict[str, Entry]) -> None:
        """See what the work tree has in the place of each entry."""
        sides = [self.commit] if self.commit else []
        compare = ["diff", "--name-only", "-z", "--no-renames", *sides]
        other = set(ask_in_parts(self.repository, *compare, names=list(entries)))
        there = {name for name in entries if os.path.lexists(self.repository / name)}  # sparse checkouts
        clean = [name for name in entries if name in there and name not in other]
        # Files that git was told not to look at it calls clean, whatever is in them.
        flags = ask_in_parts(self.repository, "ls-files", "-v", "-z", names=clean)
        unseen = {line[2:] for line in flags if line[0] == "S" or line[0].islower()}
        for name in clean:
            entries[name].in_work_tree = name not in unseen or self.would_be(name) == entries[name].blob
        words = ask_in_parts(self.repository, "check-attr", "-z", *_CONVERTING, names=clean)
        for name, value in zip(words[::3], words[2::3], strict=True):
            entries[name].filtered |= value not in _HARMLESS

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
        entry = self.entry(name)
        return entry is not None and entry.in_work_tree

    def is_as_stored(self, name: str) -> bool:
        """The same, and byte for byte: git converts some files when they are added, and calls them clean."""
        if name not in self._raw:
            self._raw[name] = self.is_in_work_tree(name) and not self._is_converted(name)
        return self._raw[name]

    def _is_converted(self, name: str) -> bool:
        entry, path = self.entry(name), self.repository / name
        if entry is None or entry.mode == LINK or not path.is_file():
            return False
        if entry.filtered:
            return self.would_be(name, "--no-filters") != entry.blob
        size, pointer = path.stat().st_size, self.objects.pointer(entry.blob)
        return size != self.objects.size(entry.blob) and (pointer is None or size != pointer.size)

    @cached_property
    def models(self) -> list[str]:
        """Every model, and every file that stands for one in DVC."""
        if not self.commit:
            return file_names(run_git(self.repository, "ls-files", "-z", "--", *MODELS))
        names = file_names(run_git(self.repository, "ls-tree", "-r", "-z", "--name-only", self.commit))
        return [name for name in names if name.lower().endswith((".onnx", ".onnx.dvc"))]

    def read(self, entry: Entry) -> str:
        """The content of a small file; nothing of one that is not small."""
        return self.objects.text(entry.blob) if self.objects.size(entry.blob) <= SMALL else ""

    def would_be(self, name: str, *how: str) -> str:
        """The name that a file of the work tree would have as a content of git; none if it can't be read."""
        return (git_or_none(self.repository, "hash-object", *how, "--", name) or "").strip()
