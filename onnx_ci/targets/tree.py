"""Reads files out of the index or a commit: what is staged or pushed, whatever the work tree holds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from onnx_ci.targets.changes import MODELS
from onnx_ci.targets.git import ask_in_parts, file_names, run_git
from onnx_ci.targets.objects import Objects

LINK = "120000"
_SMALL = 1 << 16


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
        self._same: dict[str, bool] = {}
        self._models: list[str] | None = None

    def look_up(self, names: Iterable[str]) -> None:
        """Ask for many names at once: git is started once for all."""
        new = [name for name in dict.fromkeys(names) if name not in self._entries]
        if not new:
            return
        listing = ["ls-tree", "-z", self.commit] if self.commit else ["ls-files", "--stage", "-z"]
        lines = ask_in_parts(self.repository, *listing, names=new)
        found = dict(_entry(line) for line in lines if not _is_conflict(line))
        self._entries.update({name: found.get(name) for name in new})
        sides = [self.commit] if self.commit else []
        compare = ["diff", "--name-only", "-z", "--no-renames", *sides]
        other = set(ask_in_parts(self.repository, *compare, names=new))
        there = {name for name in found if os.path.lexists(self.repository / name)}  # sparse checkouts
        self._same.update({name: name in there and name not in other for name in new})

    def entry(self, name: str) -> Entry | None:
        self.look_up([name])
        return self._entries[name]

    def is_in_work_tree(self, name: str) -> bool:
        """Whether the work tree holds what this tree has under a name."""
        self.look_up([name])
        return self._same[name]

    def models(self) -> list[str]:
        """Every model, and every file that stands for one in DVC."""
        if self._models is None:
            self._models = self._listed()
        return self._models

    def _listed(self) -> list[str]:
        if not self.commit:
            return file_names(run_git(self.repository, "ls-files", "-z", "--", *MODELS))
        names = file_names(run_git(self.repository, "ls-tree", "-r", "-z", "--name-only", self.commit))
        return [name for name in names if name.lower().endswith((".onnx", ".onnx.dvc"))]

    def read(self, entry: Entry) -> str:
        """The content of a small file; nothing of one that is not small."""
        return self.objects.text(entry.blob) if self.size(entry) <= _SMALL else ""

    def would_be(self, name: str) -> str:
        """The name that a file of the work tree would have as a content of git."""
        return (run_git(self.repository, "hash-object", "--", name) or "").strip()

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
