"""Decides which models a run looks at: those named, those that changed, or all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.targets import git

# Endings of files that may be a model's external data; others are never looked into.
DATA_ENDINGS = (".data", "_data", ".bin", ".weights", ".weight", ".dat", ".raw", ".pb")
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
        named = [path for text in wanted.paths for path in _expand(here / text, text, repository)]
        base = "HEAD" if repository and git.has_commits(repository) else ""
        return Selection(models=_models(named, root, owns), base=base)
    if repository is None or wanted.everything:
        if wanted.since or wanted.staged:
            raise UsageError("--since and --staged need a git repository", hint="name the models to check")
        base = "HEAD" if repository and git.has_commits(repository) else ""
        return Selection(models=all_models(root), base=base)
    return _changed(wanted, repository, root, policy, owns)


def _changed(wanted: Wanted, repository: Path, root: Path, policy: Path | None, owns: Owns) -> Selection:
    base, names, since = _changed_names(wanted, repository)
    if names is None:
        return Selection(models=all_models(root))
    changed = [repository / name for name in names]
    if policy is not None and policy in changed and not wanted.staged:
        # Other rules, other verdicts: every model has to be looked at again.
        note = f"the policy itself changed since {since}, so every model is checked"
        return Selection(models=all_models(root), base=base, note=note)
    models = _models([path for path in changed if path.is_relative_to(root)], root, owns)
    note = "" if models else f"no model changed since {since}; --all checks every model"
    return Selection(models=models, base=base, note=note)


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
        elif path.name.endswith(DATA_ENDINGS):
            found.update(dict.fromkeys(_owners(path, root, owns)))
    return tuple(sorted(found))


def _owners(data: Path, root: Path, owns: Owns) -> Iterator[Path]:
    """Models that name a data file are in its folder or above it: a location never has `..`."""
    for folder in data.parents:
        if folder != root and not folder.is_relative_to(root):
            return
        yield from (model for model in sorted(folder.glob("*.onnx")) if owns(model, data))
