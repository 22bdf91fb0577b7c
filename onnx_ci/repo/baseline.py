"""What models were before: in the commit that a run is compared with, and in every commit of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.locations import DATA_ENDINGS
from onnx_ci.repo.changes import called_after, is_shallow, renamed_since
from onnx_ci.repo.content import ENDING, Part, Sources, data_names, read_dvc
from onnx_ci.repo.git import Objects, has_commits, run_git, split
from onnx_ci.repo.tree import SMALL, Tree
from onnx_ci.results import HistoryEntry, KeptBy, SizeHistory
from onnx_ci.util.text import relative_name


class Baseline:
    """The models of one commit; `judged` is where the models of this run are."""

    def __init__(self, judged: Sources, base: str) -> None:
        self.judged = judged
        self.base = base
        self.repository = judged.repository
        self.tree = Tree(self.repository or judged.root, base)
        self.sources = Sources(self.tree.repository, self.tree)

    @property
    def name(self) -> str:
        """The commit, as messages call it."""
        return "the last commit" if self.base == "HEAD" else self.base[:10]

    def __reduce__(self) -> tuple[object, ...]:
        return Baseline, (self.judged, self.base)

    def __enter__(self) -> Baseline:
        return self

    def __exit__(self, *_: object) -> None:
        self.sources.close()

    def all_sources(self) -> list[Sources]:
        """Where the models of this run are, and those of the commit."""
        return [self.judged, self.sources]

    @cached_property
    def renames(self) -> dict[str, str]:
        if self.repository is None:
            return {}
        tree = self.judged.tree
        return renamed_since(self.repository, self.base, tree.commit if tree else None)

    def look_up(self, models: Sequence[Path]) -> None:
        """Ask git for all models at once."""
        if self.repository is not None and self.base:
            self.tree.look_up_files(models)

    def former_name(self, model: Path) -> Path | None:
        """Where a model was then: under its own name, under another, or nowhere."""
        if self.repository is None or not self.base or not model.is_relative_to(self.repository):
            return None
        if self.tree.has(model):
            return model
        name = model.relative_to(self.repository).as_posix()
        former = self.renames.get(name) or self.renames.get(f"{name}.dvc", "").removesuffix(".dvc")
        return self._same_model(model, self.repository / former) if former else None

    def _same_model(self, model: Path, former: Path) -> Path | None:
        """Pointers all look alike to git: for two of them only the same content or file name counts."""
        now, then = self.judged.of(model).parts[0].pointer, self.sources.of(former).parts[0].pointer
        if now is None or then is None or now.digest == then.digest or model.name == former.name:
            return former
        return None

    def size(self, model: Path) -> int | None:
        former = self.former_name(model)
        return self.sources.of(former).size if former else None

    def unchanged(self, model: Path) -> bool:
        """Whether the model and all its data are what they were, if under other names."""
        former = self.former_name(model)
        if former is None:
            return False
        now, then = self.judged.of(model).parts, self.sources.of(former).parts
        return len(now) == len(then) and all(map(self._is_same, now, then))

    def _is_same(self, now: Part, then: Part) -> bool:
        entry = self.tree.entry(then.tracked)
        if entry is None:
            return False
        if self.judged.tree is not None:
            judged = self.judged.tree.entry(now.tracked)
            return judged is not None and judged.blob == entry.blob
        comparable = then.pointer is None or then.pointer.keeper != "DVC" or then.content == then.path
        if now.tracked == then.tracked:
            return comparable and self.tree.is_in_work_tree(then.tracked)
        return comparable and self.tree.would_be(now.tracked) == entry.blob


class _Stored(NamedTuple):
    """One file as a commit has it; `size` is None where git does not have the content."""

    size: int | None
    keeper: KeptBy
    blob: str = ""


class _Commit(NamedTuple):
    commit: str
    parents: list[str]
    date: str
    subject: str
    changes: list[tuple[str, str, str]]  # the name before, the name after, and the content; "": there is none


_FILES = (":(icase)*.onnx", *(f"*{ending}" for ending in DATA_ENDINGS))
_PATHS = (*_FILES, *(f"{pattern}{ENDING}" for pattern in _FILES))
_LOG = ("--topo-order", "--reverse", "--parents", "--raw", "-z", "--no-abbrev", "--find-renames=100%")
_FORMAT = "--format=%H%x1f%P%x1f%cI%x1f%s"


def model_history(repository: Path, model: Path) -> SizeHistory:
    """Every version of one model that led to HEAD, under all names it had; those of its data count too."""
    name = model.relative_to(repository).as_posix()
    names = {name, *(relative_name(model.parent / data, repository) for data in data_names(model))}
    names |= {each + ENDING for each in names}
    commits = list(_commits(repository))
    for commit in reversed(commits):
        for old, new, _ in commit.changes:
            if new in names and old and old != new:
                names.update([old, *(old + ending for ending in (ENDING, *DATA_ENDINGS))])
    return _history(name, repository, commits, names, names.__contains__)


def total_history(repository: Path) -> SizeHistory:
    """All models together, after every commit on the way of the branch itself."""
    commits = list(_commits(repository, "--first-parent"))
    every = {name for commit in commits for change in commit.changes for name in change[:2] if name}
    named = {name for name in every if name.lower().endswith((".onnx", f".onnx{ENDING}"))}
    stems = sorted({name.removesuffix(ENDING) for name in named})
    ours = named | {name for name in every - named if called_after(name, stems)}

    def is_ours(name: str) -> bool:
        return name in ours or name.lower().endswith((".onnx", f".onnx{ENDING}"))

    return _history("all models", repository, commits, ours, is_ours)


def _history(
    title: str, repository: Path, commits: Sequence[_Commit], ours: set[str], is_ours: Callable[[str], bool]
) -> SizeHistory:
    """What the files of these names took after each commit that changed one, and those that are `is_ours`
    take now."""
    entries = []
    states: dict[str, dict[str, _Stored]] = {}
    after: dict[str, _Stored] = {}
    with closing(Objects(repository)) as objects:
        for commit in commits:
            before = states.get(commit.parents[0], {}) if commit.parents else {}
            changes = [change for change in commit.changes if ours.intersection(change[:2])]
            states[commit.commit] = after = _applied(objects, before, changes)
            merged = len(commit.parents) > 1 and any(states.get(p) == after for p in commit.parents)
            if changes and not merged:  # what a merge only takes over was told before
                entries.append(_entry(commit, before, after, [c[1] or c[0] for c in changes]))
    entries += _uncommitted(repository, after, is_ours)
    notes = []
    if is_shallow(repository):
        notes.append("this clone is shallow, so older versions are missing: git fetch --unshallow")
    if any(entry.size is None and entry is not entries[-1] for entry in entries):
        notes.append("a size that is not shown: the model was removed, or this clone lacks the content")
    return SizeHistory(title=title, entries=tuple(entries), notes=tuple(notes))


def _commits(repository: Path, *how: str) -> Iterator[_Commit]:
    """Oldest first. A merge counts by what it changes on the side that it was made on."""
    if not has_commits(repository):
        return
    arguments = ("log", *_LOG, "--diff-merges=first-parent", *how, _FORMAT, "HEAD", "--", *_PATHS)
    fields = iter(split(run_git(repository, *arguments)))
    commit: _Commit | None = None
    for text in fields:
        words = text.lstrip("\n")
        if not words.startswith(":"):
            if commit is not None:
                yield commit
            name, parents, date, subject = words.split("\x1f", 3)
            commit = _Commit(name, parents.split(), date, subject, [])
            continue
        _, mode, _, blob, status = words.split(" ")
        before = after = next(fields)
        if status[0] == "R":
            after = next(fields)
        is_file = mode.startswith("100")
        if commit is not None and ".." not in after.split("/"):
            commit.changes.append((before if status[0] != "A" else "", after if is_file else "", blob))
    if commit is not None:
        yield commit


def _applied(
    objects: Objects, before: dict[str, _Stored], changes: Sequence[tuple[str, str, str]]
) -> dict[str, _Stored]:
    gone = {old.removesuffix(ENDING) for old, _, _ in changes}
    state = {name: stored for name, stored in before.items() if name not in gone}
    for _, new, blob in changes:
        if new:
            state[new.removesuffix(ENDING)] = _stored(objects, new, blob)
    return state


def _stored(objects: Objects, name: str, blob: str) -> _Stored:
    try:
        if name.endswith(ENDING):
            text = objects.text(blob) if objects.size(blob) <= SMALL else ""
            kept = read_dvc(text, Path(name).name.removesuffix(ENDING))
            return _Stored(kept.size if kept else None, "DVC", blob)
        pointer = objects.pointer(blob)
        if pointer is not None:
            return _Stored(pointer.size, "Git LFS", blob)
        return _Stored(objects.size(blob), "git", blob)
    except EnvironmentFault:  # a partial clone
        return _Stored(None, "git", blob)


def _total(state: dict[str, _Stored]) -> int | None:
    sizes = [stored.size for stored in state.values()]
    known = [size for size in sizes if size is not None]
    return sum(known) if sizes and len(known) == len(sizes) else None


def _entry(
    commit: _Commit, before: dict[str, _Stored], after: dict[str, _Stored], changed: Iterable[str]
) -> HistoryEntry:
    size, was = _total(after), _total(before)
    delta = (size or 0) - was if was is not None and (size is not None or not after) else None
    keepers = {stored.keeper for stored in after.values()} - {"git"}
    return HistoryEntry(
        commit=commit.commit,
        date=commit.date,
        subject=commit.subject,
        size=size,
        delta=delta,
        names=tuple(sorted({name.removesuffix(ENDING) for name in changed})),
        keeper=min(keepers) if keepers else "git",
    )


def _uncommitted(
    repository: Path, before: dict[str, _Stored], is_ours: Callable[[str], bool]
) -> Iterator[HistoryEntry]:
    """What the work tree has and no commit."""
    status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *_PATHS)
    changed = [line[3:] for line in split(run_git(repository, *status)) if is_ours(line[3:])]
    if not changed:
        return
    names = [name.removesuffix(ENDING) for name in changed]
    after = {name: stored for name, stored in before.items() if name not in names}
    with Sources(repository) as sources:
        for name in names:
            part = sources.of(repository / name).parts[0]
            if part.size:
                after[name] = _Stored(part.size, part.pointer.keeper if part.pointer else "git")
    yield _entry(_Commit("", [], "", "not committed", []), before, after, changed)
