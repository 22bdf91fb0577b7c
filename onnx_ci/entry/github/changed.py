"""What a fix changed in the work tree: only that is ours to commit, and only of models that git has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.model.ownership import data_of
from onnx_ci.targets.changes import changed_since_head
from onnx_ci.targets.git import ask_in_parts

State = dict[str, tuple[int, int, int] | None]


def work_tree(root: Path) -> State:
    """The files that differ from the last commit, and what they are at this moment."""
    return {name: _state(root / name) for name in changed_since_head(root) or ()}


def changed_files(before: State, after: State) -> list[str]:
    """What became different in between; what an earlier step left in the work tree stays there."""
    return sorted(name for name, state in after.items() if name not in before or before[name] != state)


def of_models_in_git(root: Path, names: Sequence[str], models: Sequence[str]) -> tuple[list[str], list[str]]:
    """The changed files that may be committed, and the models that stay out since the last commit does not
    have them: what an earlier step downloaded or built is nobody's commit, nor is its data."""
    there = set(ask_in_parts(root, "ls-tree", "-z", "--name-only", "--full-tree", "HEAD", names=models))
    outside = [model for model in models if model not in there]
    kept = _data(root, there)
    theirs = {*outside, *_data(root, outside)} - kept
    known = set(ask_in_parts(root, "ls-tree", "-z", "--name-only", "--full-tree", "HEAD", names=names))
    return [name for name in names if name in known | kept and name not in theirs], outside


def _data(root: Path, models: Iterable[str]) -> set[str]:
    found = set()
    for model in models:
        try:
            found |= {(root / model).parent.joinpath(name) for name in data_of(root / model)}
        except ModelError:  # changed by somebody else meanwhile: said when what is staged is looked at
            continue
    return {path.relative_to(root).as_posix() for path in found}


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino
