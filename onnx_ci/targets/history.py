"""What a branch adds to the repository for ever: every version of every model, not only the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from onnx_ci.model.endings import DATA_ENDINGS
from onnx_ci.model.pointers import LARGEST, Pointer, read_pointer
from onnx_ci.targets.git import empty_tree, file_names, run_git, split
from onnx_ci.targets.objects import Objects

_FILES = (":(icase)*.onnx", *(f"*{ending}" for ending in DATA_ENDINGS))
_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames")


class Version:
    """One content of one file: what it takes in git, or in Git LFS if it is a pointer to there."""

    def __init__(self, name: str, blob: str, size: int, pointer: Pointer | None) -> None:
        self.name = name
        self.blob = blob
        self.size = pointer.size if pointer else size
        self.in_lfs = pointer is not None


class Branch:
    """A range of commits, and what is staged on top of it where `staged` is asked for."""

    def __init__(self, repository: Path, base: str, head: str, *, staged: bool) -> None:
        self.repository = repository
        self.base = base
        self.head = head
        self.staged = staged

    def versions(self) -> list[Version]:
        """Each content once, under the first name it had, oldest first."""
        new = set(self._git("rev-list", "--objects", "--no-object-names", *self._range).split())
        names = {blob: name for name, blob in self._logged() if blob in new}
        names.update({blob: name for name, blob in self._staged() if blob not in names})
        old = self._at_base()
        names = {blob: name for blob, name in names.items() if blob not in old}
        objects = Objects(self.repository)
        try:
            return [_version(name, blob, objects) for blob, name in names.items()]
        finally:
            objects.close()

    def last(self) -> set[str]:
        """The contents that would be left if the branch were one commit."""
        sides = ["--cached", self.base] if self.staged else [self.base, self.head]
        return {blob for _, blob in _changes(self._git("diff", *_RAW, *sides, "--", *_FILES))}

    def models(self) -> list[str]:
        """The models there are at the end of the branch."""
        listing = ["ls-files", "-z"] if self.staged else ["ls-tree", "-r", "-z", "--name-only", self.head]
        return [name for name in file_names(self._git(*listing)) if name.lower().endswith(".onnx")]

    @property
    def _range(self) -> list[str]:
        return [f"{self.base}..{self.head}"]

    def _at_base(self) -> set[str]:
        """What the base has already: a branch that goes back to it adds nothing."""
        changes = self._git("diff", *_RAW, empty_tree(self.repository), self.base, "--", *_FILES)
        return {blob for _, blob in _changes(changes)}

    def _logged(self) -> Iterator[tuple[str, str]]:
        # Of a merge all sides are looked at: it may hold a content that no side has.
        log = self._git("log", "--format=", "-m", "--root", *_RAW, *self._range, "--", *_FILES)
        return _changes(log)

    def _staged(self) -> Iterator[tuple[str, str]]:
        if not self.staged:
            return iter(())
        return _changes(self._git("diff", "--cached", *_RAW, self.head, "--", *_FILES))

    def _git(self, *arguments: str) -> str:
        return run_git(self.repository, *arguments)


def _version(name: str, blob: str, objects: Objects) -> Version:
    size = objects.size(blob)
    return Version(name, blob, size, read_pointer(objects.text(blob)) if size <= LARGEST else None)


def _changes(output: str) -> Iterator[tuple[str, str]]:
    """Name and new content of each change in what git prints with --raw -z; deletions have none."""
    found = iter(split(output))
    for words in found:
        name = next(found)
        blob = words.split(" ")[3]
        if words[-1] != "D" and words.split(" ")[1].startswith("100"):
            yield name, blob


def called_after(data: str, models: Sequence[str]) -> bool:
    """Whether a data file is called after a model that is in its folder or above."""
    path = PurePosixPath(data)
    return any(
        path.name.startswith(PurePosixPath(model).stem) and PurePosixPath(model).parent in path.parents
        for model in models
    )
