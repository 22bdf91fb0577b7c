"""Decides which models a run looks at: those named, those that changed, or all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.model.endings import DATA_ENDINGS
from onnx_ci.targets import git

SKIPPED_FOLDERS = {".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox"}
# Asks whether a model names a data file; given by the caller, since looking needs onnx.
Owns = Callable[[Path, Path], bool]


# The two classes below are plain ones: a run with nothing to do must not pay for dataclasses.
class Selection:
    """The models to look at, the commit to compare sizes with, and what to tell the user."""

    def __init__(self, *, models: Sequence[Path], base: str = "", note: str = "") -> None:
        self.models = tuple(models)
        self.base = base
        self.note = note


class Wanted:
    """What the user asked for on the command line."""

    def __init__(
        self, *, paths: Sequence[str] = (), since: str = "", staged: bool = False, everything: bool = False
    ) -> None:
        self.paths = tuple(paths)
        self.since = since
        self.staged = staged
        self.everything = everything


def select(wanted: Wanted, *, here: Path, root: Path, policy: Path | None, owns: Owns) -> Selection:
    """`root` is the top of the repository, or the policy's folder outside of git."""
    repository = git.find_root(here)
    if wanted.paths:
        return _named(wanted.paths, here, root, policy, owns)
    if repository is None or wanted.everything:
        if wanted.since or wanted.staged:
            raise UsageError("--since and --staged need a git repository", hint="name the models to check")
        return _whole(root, _last_commit(repository))
    return _changed(wanted, repository, root, policy, owns)


def _named(texts: Sequence[str], here: Path, root: Path, policy: Path | None, owns: Owns) -> Selection:
    repository = git.find_root(here)
    base = _last_commit(repository)
    named = {text: _expand(here / text, text, repository) for text in texts}
    if policy is not None and any(policy in paths for paths in named.values()):
        return _whole(root, base, note="the policy itself is named, so every model is checked")
    found = {text: _models(paths, root, owns) for text, paths in named.items()}
    empty = [text for text, models in found.items() if not models]
    note = f"no model, nor the data of one: {', '.join(empty)}" if empty else ""
    models = sorted({model for models in found.values() for model in models})
    return Selection(models=models, base=base, note=note)


def _whole(root: Path, base: str, note: str = "") -> Selection:
    models = all_models(root)
    return Selection(models=models, base=base, note=note or ("" if models else "there is no model here"))


def _last_commit(repository: Path | None) -> str:
    """What sizes are compared with; nothing where there is no commit, or no git to ask."""
    try:
        return "HEAD" if repository and git.has_commits(repository) else ""
    except EnvironmentFault:
        return ""


def _changed(wanted: Wanted, repository: Path, root: Path, policy: Path | None, owns: Owns) -> Selection:
    base, names, since = _changed_names(wanted, repository)
    if names is None:
        return _whole(root, "")
    changed = [repository / name for name in names]
    if policy is not None and policy in changed:
        # Other rules, other verdicts: every model has to be looked at again.
        return _whole(root, base, f"the policy itself changed since {since}, so every model is checked")
    inside = [path for path in changed if path.is_relative_to(root)]
    models = [path for path in _models(inside, root, owns) if path.exists() or path.is_symlink()]
    if wanted.staged:
        _refuse_unstaged(models, repository, root, owns)
    note = "" if models else f"no model changed since {since}; --all checks every model"
    return Selection(models=models, base=base, note=note)


def _refuse_unstaged(models: Sequence[Path], repository: Path, root: Path, owns: Owns) -> None:
    """What is staged is judged by the files in the work tree, so they must be the same."""
    other = _models([repository / name for name in git.unstaged(repository)], root, owns)
    clash = [path.relative_to(repository).as_posix() for path in other if path in models]
    if clash:
        raise UsageError(
            f"what is staged of {', '.join(clash)} is not what is in the work tree",
            hint="stage it (git add), or put the other changes away (git stash --keep-index)",
        )


def _changed_names(wanted: Wanted, repository: Path) -> tuple[str, list[str] | None, str]:
    """The commit compared with, the names that differ from it (None: there is no commit), and its name."""
    if wanted.staged:
        base = "HEAD" if git.has_commits(repository) else ""
        return base, git.staged(repository), "the last commit (staged files)"
    ref = wanted.since or git.pull_request_base()
    if ref:
        base = git.merge_base(repository, ref)
        return base, git.changed_since(repository, base), f"{ref} ({base[:10]})"
    names = git.changed_since_head(repository)
    return ("HEAD" if names is not None else ""), names, "the last commit"


def all_models(root: Path) -> list[Path]:
    """Every model below a folder: in git those it knows or would add, elsewhere all."""
    repository = git.find_root(root)
    if repository is None:
        return sorted(_walk(root))
    found = (repository / name for name in git.known_files(repository, [":(icase)*.onnx"]))
    return [path for path in found if path.is_relative_to(root) and path.exists()]


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        yield from (Path(folder) / name for name in files if name.lower().endswith(".onnx"))


def _expand(path: Path, text: str, repository: Path | None) -> Sequence[Path]:
    """A file as it is, a folder as the models in it."""
    path = Path(os.path.normpath(path))
    if path.is_dir():
        return all_models(path) if repository else sorted(_walk(path))
    if not path.exists() and not path.is_symlink():
        raise UsageError(
            f"there is no file or folder {text!r}", hint="check the path, or run: onnx-ci check --all"
        )
    return [path]


def _models(paths: Iterable[Path], root: Path, owns: Owns) -> tuple[Path, ...]:
    """Models as they are; for a data file, the models that name it."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.suffix.lower() == ".onnx":
            found[path] = None
        elif path.name.endswith((*DATA_ENDINGS, ".npy")):
            found.update(dict.fromkeys(_owners(path, root, owns)))
    return tuple(sorted(found))


def _owners(data: Path, root: Path, owns: Owns) -> Iterator[Path]:
    """Models that name a data file are in its folder or above it: a location never has `..`."""
    for folder in data.parents:
        if folder != root and not folder.is_relative_to(root):
            return
        if folder.is_dir():
            near = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".onnx")
            yield from (model for model in near if owns(model, data))
