"""Where a model's content is: in the work tree, staged, in a commit, kept by Git LFS or DVC, or not here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from onnx_ci.errors import ModelError, PolicyError
from onnx_ci.model.load import may_name_data
from onnx_ci.model.locations import DATA_ENDINGS, LARGEST, Pointer, read_pointer
from onnx_ci.model.model import called
from onnx_ci.model.replace import data_of
from onnx_ci.model.store import file_digest
from onnx_ci.policy.reader import compose
from onnx_ci.repo.git import ask_git, complaint_of, find_root, remotes, run_git, shared_folder, split
from onnx_ci.repo.tree import LINK, Entry, Tree
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.text import counted, relative_name


def downloaded(repository: Path | None, pointer: Pointer | None) -> Path | None:
    """The content in the store of Git LFS or in DVC's cache; None where it is not here, or was moved."""
    if repository is None or pointer is None:
        return None
    digest = pointer.digest
    if pointer.keeper == "Git LFS":
        path = object_path(repository, digest)
        return path if path.is_file() and path.stat().st_size == pointer.size else None
    if not re.fullmatch("[0-9a-f]{32}", digest):
        return None
    caches = (repository / ".dvc/cache/files/md5", repository / ".dvc/cache")
    files = (cache / digest[:2] / digest[2:] for cache in caches)
    return next((path for path in files if path.is_file()), None)


def object_path(repository: Path, sha256: str) -> Path:
    """Where Git LFS keeps a content once it was added or downloaded."""
    folder = shared_folder(repository)
    named = (ask_git(repository, "config", "lfs.storage") or "").rstrip("\n")
    return (folder / (named or "lfs")) / "objects" / sha256[:2] / sha256[2:4] / sha256


def tracks(repository: Path, name: str) -> bool:
    """Whether a file would become a pointer of Git LFS when it is added."""
    attribute = split(run_git(repository, "check-attr", "-z", "filter", "--", name))
    return attribute[2:] == ["lfs"]


def fetch(repository: Path, names: Sequence[str], *, commit: str) -> str | None:
    """Download the content of some files of a commit, and leave the work tree alone. What went wrong."""
    remote = next(iter(remotes(repository)), "")
    if not remote:
        return "there is no remote to fetch it from"
    include = ",".join(map(_pattern, names))
    return complaint_of(repository, "lfs", "fetch", remote, commit, "--include", include, "--exclude", "")


def _pattern(name: str) -> str:
    """What could mean something else becomes `?`, any one character."""
    return "/" + re.sub(r"[^\w./ -]", "?", name)


ENDING = ".dvc"


def read_dvc(text: str, name: str) -> Pointer | None:
    """What a `.dvc` file says of the file called `name`; None where it says nothing that can be used."""
    try:
        outputs = _child(compose(text, name), "outs")
    except PolicyError:
        return None
    for output in outputs.value if isinstance(outputs, yaml.SequenceNode) else []:
        size = _text(output, "size")
        if _text(output, "path") == name and size.isdecimal() and len(size) < 19:
            return Pointer("DVC", _text(output, "md5"), int(size))
    return None


def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _text(node: yaml.Node, key: str) -> str:
    child = _child(node, key)
    return str(child.value) if isinstance(child, yaml.ScalarNode) else ""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One file of a model. `content` is where its bytes are; None where only a pointer is here."""

    path: Path  # its place in the work tree
    size: int
    content: Path | None
    pointer: Pointer | None = None
    tracked: str = ""  # the name in git of what stands for it
    converted: bool = False  # git made something else of it when it was added
    unclear: bool = False  # a .dvc file is there and does not say what it stands for

    @property
    def waits(self) -> bool:
        """The content is in the store of this clone, and only a pointer, or for DVC nothing, in its place."""
        if self.pointer is None or self.content in (self.path, None):
            return False
        here = read_pointer(_small_text(self.path))
        is_same = here is not None and here.digest == self.pointer.digest
        return is_same if self.pointer.keeper == "Git LFS" else not self.path.exists()


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model with its data: `path` is where to read it. Only what is in place may be replaced."""

    path: Path
    root: Path
    parts: tuple[Part, ...]
    in_place: bool = True
    unmerged: bool = False  # a merge left several versions of it in the index

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def absent(self) -> list[Part]:
        return [part for part in self.parts if part.content is None]

    def owns(self, data: Path) -> bool:
        """Whether the model names a data file; one whose content is not here may name what is called after
        it, and that may be gone."""
        first = self.parts[0]
        may_name = first.content is None and data.parent == first.path.parent
        return data in [part.path for part in self.parts] or (
            may_name and data.name in _called_after(first.path)
        )


class Sources:
    """Finds the content of models in a tree of git, or in the work tree where there is none. What is not
    in the work tree as it is to be judged is laid out in a scratch folder, under the same names."""

    def __init__(
        self,
        root: Path,
        tree: Tree | None = None,
        everything: Callable[[], Sequence[Path]] = lambda: (),
        repository: Path | None = None,
    ) -> None:
        self.root = root
        self.tree = tree
        self.everything = everything
        self.repository = tree.repository if tree else repository or find_root(root)
        self._found: dict[Path, Source] = {}
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._scratch: Path | None = None

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()
        self.close_git()

    @property
    def home(self) -> Path:
        """What the names in git are relative to."""
        return self.repository or self.root

    @property
    def scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = self._stack.enter_context(scratch_folder())
            self._stack.enter_context(called({self._scratch: ""}))
        return self._scratch

    def of(self, model: Path) -> Source:
        """Where one model is. Threads ask too: each model is looked for once."""
        with self._lock:
            if model not in self._found:
                self._found[model] = self._find(model)
            return self._found[model]

    def forget(self) -> None:
        """Look again: something was fetched."""
        self._found.clear()

    def fork(self) -> None:
        """In a forked process: what is laid out from now on is this one's own."""
        self._found.clear()
        self._scratch = None

    def close_git(self) -> None:
        """Before a fork: two processes can't ask one git."""
        if self.tree is not None:
            self.tree.objects.close()

    def _find(self, model: Path) -> Source:
        if self.tree is not None and not self.tree.has(model):
            # What git does not have can be named all the same: then it is what the work tree holds.
            here = Sources(self.root)._find(model)
            unmerged = self._name(model) in self.tree.unmerged
            return replace(here, unmerged=unmerged, in_place=here.in_place and not unmerged)
        first = self._part(model)
        names = self._data_names(model, first)
        if self.tree is not None and self.repository is not None:
            self.tree.look_up(self._name(model.parent / name) for name in names)
        parts = (first, *(self._part(model.parent / name) for name in names))
        in_place = all(part.content in (part.path, None) for part in parts)
        if in_place or any(part.content is None for part in parts):
            return Source(path=model, root=self.root, parts=parts, in_place=in_place)
        for part in parts:
            _lay(part.content, self._aside(part.path))
        if len(parts) > 1:
            self._bring_neighbours(parts[1:])
        return Source(path=self._aside(model), root=self.scratch, parts=parts, in_place=False)

    def _data_names(self, model: Path, first: Part) -> list[str]:
        """The data a model names; where it can't be asked, what is called after it and is there."""
        if first.content is None:
            return [name for name in _called_after(model) if self._part(model.parent / name).size]
        try:
            return data_of(first.content) if may_name_data(first.content) else []
        except ModelError:  # said when it is judged
            return []

    def _bring_neighbours(self, data: Sequence[Part]) -> None:
        """Other models that may share the data: whether they do is seen by looking at them."""
        folders = {folder for part in data for folder in part.path.parents}
        for other in self.everything():
            if other.parent in folders and not self._aside(other).exists():
                _lay(self._part(other).content, self._aside(other))

    def _part(self, path: Path) -> Part:
        tree = self.tree
        if tree is None or not path.is_relative_to(tree.repository):
            return self._here(path)
        name = self._name(path)
        entry = tree.entry(name)
        if entry is None:  # DVC may have what git does not
            tracked = name + ENDING
            entry = tree.entry(tracked)
            return self._by_dvc(path, tree.read(entry) if entry else "", tracked if entry else "")
        if tree.is_as_stored(name):
            return self._here(path)
        return replace(self._exported(path, entry, tree), converted=tree.is_in_work_tree(name))

    def _name(self, path: Path) -> str:
        """A file's name in git."""
        return relative_name(path, self.repository) if self.repository else str(path)

    def _here(self, path: Path) -> Part:
        """A file of the work tree, the pointer in its place, or what DVC says of it."""
        kept = path.with_name(path.name + ENDING)
        tracked = self._name(kept) if kept.is_file() else ""
        if not path.is_file():
            return self._by_dvc(path, _small_text(kept), tracked)
        pointer = read_pointer(_small_text(path))
        if pointer is not None:
            return self._pointed(path, pointer, self._name(path))
        return Part(path=path, size=path.stat().st_size, content=path, tracked=tracked or self._name(path))

    def _pointed(self, path: Path, pointer: Pointer, tracked: str) -> Part:
        content = downloaded(self.repository, pointer)
        return Part(path=path, size=pointer.size, content=content, pointer=pointer, tracked=tracked)

    def _by_dvc(self, path: Path, text: str, tracked: str) -> Part:
        """A file by the text of its `.dvc` file; the work tree counts only if it holds what that says."""
        pointer = read_dvc(text, path.name)
        if pointer is None:
            return self._missing(path, tracked)
        if path.is_file() and path.stat().st_size == pointer.size and _md5(path) == pointer.digest:
            return Part(path=path, size=pointer.size, content=path, pointer=pointer, tracked=tracked)
        return self._pointed(path, pointer, tracked)

    def _exported(self, path: Path, entry: Entry, tree: Tree) -> Part:
        name = self._name(path)
        if entry.mode == LINK:
            return self._linked(path, entry, tree)
        pointer = tree.objects.pointer(entry.blob)
        if pointer is not None:
            return self._pointed(path, pointer, name)
        target = self._aside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            tree.objects.copy(entry.blob, file)
        return Part(path=path, size=target.stat().st_size, content=target, tracked=name)

    def _linked(self, path: Path, link: Entry, tree: Tree) -> Part:
        """A link is followed once, to a file of the same tree."""
        leads = Path(os.path.normpath(path.parent / tree.read(link)))
        inside = leads.is_relative_to(tree.repository)
        entry = tree.entry(self._name(leads)) if inside else None
        broken = entry is None or entry.mode == LINK
        return self._missing(path) if broken else replace(self._part(leads), path=path)

    def _missing(self, path: Path, unclear: str = "") -> Part:
        """Nothing is there: whoever opens it will say so."""
        content = self._aside(path) if self.tree else path
        return Part(path=path, size=0, content=content, tracked=unclear, unclear=bool(unclear))

    def _aside(self, path: Path) -> Path:
        """Where a file is laid out, under the name it has in the repository."""
        inside = path.is_relative_to(self.home)
        return self.scratch / (path.relative_to(self.home) if inside else path.name)


def _called_after(model: Path) -> list[str]:
    stems = (model.name, model.stem)
    return list(dict.fromkeys(stem + ending for stem in stems for ending in DATA_ENDINGS))


def data_names(model: Path) -> list[str]:
    """The data files a model may have had: those that it names now, and those that are called after it."""
    try:
        return [*_called_after(model), *data_of(model)]
    except ModelError:
        return _called_after(model)


def _small_text(path: Path) -> str:
    try:
        small = path.is_file() and path.stat().st_size <= 4 * LARGEST
        return path.read_bytes().decode(errors="replace") if small else ""
    except OSError:
        return ""


def _md5(path: Path) -> str:
    """DVC's name for a content; nothing is trusted because of it."""
    return file_digest(path, hashlib.md5(usedforsecurity=False))


def _lay(content: Path | None, target: Path) -> None:
    """A second name for a file where that is possible, or else a copy."""
    if content is None or content == target or not content.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(content, target)
    except OSError:
        shutil.copyfile(content, target)


ROUNDS = 2  # a model first, then the data that it turns out to name


def obtain(models: Iterable[Path], sources: Sources) -> str:
    """Download the content of these models; what went wrong, in words, or nothing."""
    wanted = list(models)
    for _ in range(ROUNDS):
        names = _names_in_lfs(part for model in wanted for part in sources.of(model).absent)
        if not names or sources.repository is None:
            return ""
        commit = (sources.tree.commit if sources.tree else "") or "HEAD"
        complaint = fetch(sources.repository, names, commit=commit)
        if complaint is not None:
            return f"Git LFS could not fetch {counted(len(names), 'file')}: {complaint}"
        sources.forget()
    return ""


def check_out(models: Iterable[Path], sources: Sources) -> str:
    """Content that is in the store of this clone, to where its pointers are: a fix works on files."""
    present = (source for source in map(sources.of, models) if not source.absent)
    names = _names_in_lfs(part for source in present for part in source.parts if part.waits)
    if not names or sources.repository is None:
        return ""
    complaint = complaint_of(sources.repository, "lfs", "checkout", *map(_pattern, names))
    sources.forget()
    return f"Git LFS could not check out {counted(len(names), 'file')}: {complaint}" if complaint else ""


def _names_in_lfs(parts: Iterable[Part]) -> list[str]:
    return [part.tracked for part in parts if part.pointer and part.pointer.keeper == "Git LFS"]
