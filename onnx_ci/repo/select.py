"""Decides which models a run looks at: those named, those that changed, or all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.model.locations import DATA_ENDINGS
from onnx_ci.policy.load import FILE_NAMES
from onnx_ci.repo import changes
from onnx_ci.repo.git import find_root, has_commits, repository_of
from onnx_ci.repo.tree import Tree

SKIPPED_FOLDERS = {"node_modules", "venv", "__pycache__"}  # and hidden ones
# Asks whether a model names a data file; given by the caller, since looking needs onnx.
Owns = Callable[[Path, Path], bool]


# The classes below are plain ones: a run with nothing to do must not pay for dataclasses.
class Selection:
    """The models to look at, the commit to compare sizes with, and what to tell the user."""

    def __init__(
        self,
        *,
        models: Sequence[Path],
        base: str = "",
        note: str = "",
        named: bool = False,
        gone: Sequence[Path] = (),
    ) -> None:
        self.models = tuple(models)
        self.gone = tuple(gone)  # models that are no longer there, or have another name
        self.base = base
        self.note = note
        self.named = named  # by the user, each of them or a folder of theirs: all are to be checked


class Wanted:
    """What the user asked for on the command line."""

    def __init__(
        self,
        *,
        paths: Sequence[str] = (),
        since: str = "",
        staged: bool = False,
        everything: bool = False,
        hook: bool = False,
    ) -> None:
        self.paths = tuple(paths)
        self.since = since
        self.staged = staged
        self.everything = everything
        self.hook = hook  # paths come on top of what is staged or pushed


class Scene:
    """Where models are looked for: the folder we are in, the top of what may be touched, and whether
    files are those of the work tree or of a tree in git."""

    def __init__(self, *, here: Path, root: Path, policy: Path | None, owns: Owns, tree: Tree | None) -> None:
        self.here = here
        self.root = root
        self.policy = policy
        self.owns = owns
        self.tree = tree
        self.repository = find_root(here)

    def look_up(self, paths: Iterable[Path]) -> None:
        """Ask git for many files at once."""
        if self.tree is not None:
            self.tree.look_up_files(paths)

    def exists(self, path: Path) -> bool:
        if self.tree is not None and self.tree.has(path):
            return True
        return path.exists() or path.is_symlink() or path.with_name(f"{path.name}.dvc").exists()

    def models(self, folder: Path) -> list[Path]:
        """Every model below a folder."""
        return models_below(folder, self.tree, self.repository)

    def rules(self, path: Path) -> bool:
        """Whether a file is a policy: other rules, other verdicts."""
        return path == self.policy or path.name in FILE_NAMES


def tree_of(wanted: Wanted, repository: Path | None) -> Tree | None:
    """The tree in git that is to be judged: the index, or at a push what is pushed. None: the work tree."""
    if not wanted.staged or repository is None:
        return None
    return Tree(repository, changes.pushed_commit(repository))


def select(wanted: Wanted, scene: Scene) -> Selection:
    if scene.repository is None and (wanted.since or wanted.staged):
        raise UsageError("--since and --staged need a git repository", hint="name the models to check")
    if wanted.hook and scene.repository is not None:
        return _hooked(wanted, scene, scene.repository)
    if wanted.paths:
        return _named(wanted, scene)
    if scene.repository is None or wanted.everything:
        return _everything(scene)
    return _changed(wanted, scene, scene.repository)


def _named(wanted: Wanted, scene: Scene) -> Selection:
    """What is named is checked, or the call does not make sense. A hook names whatever is staged."""
    base = _base(scene)
    scene.look_up(_absolute(text, scene) for text in wanted.paths)
    note = ""
    models: set[Path] = set()
    empty = []
    for text in dict.fromkeys(wanted.paths):
        paths = _expand(_absolute(text, scene), text, scene)
        named, ruled = _models(paths, scene), _ruled(paths, scene)
        models.update(named, ruled or ())
        if ruled is not None:
            note = "the policy itself is named, so every model below it is checked"
        elif not named:
            empty.append(text)
    if empty and not wanted.hook:
        raise UsageError(
            f"no model, nor the data of one: {', '.join(empty)}",
            hint="name models, their data or folders that have models; or run: onnx-ci check --all",
        )
    return Selection(models=sorted(models), base=base, note=note, named=not wanted.hook)


def _hooked(wanted: Wanted, scene: Scene, repository: Path) -> Selection:
    """A hook is told of files that are there: what was deleted, linked or is on another branch, git knows."""
    changed = _changed(wanted, scene, repository)
    scene.look_up(_absolute(text, scene) for text in wanted.paths)
    paths = [text for text in wanted.paths if not _is_passed_over(_absolute(text, scene), text, scene)]
    named = _named(Wanted(paths=paths, hook=True), scene).models if paths else ()
    note = changed.note if changed.models or not named else ""
    return Selection(models=sorted({*changed.models, *named}), base=changed.base, note=note)


def _is_passed_over(path: Path, text: str, scene: Scene) -> bool:
    """A file that is deleted or outside; at a push, where the work tree is another matter, one that is here
    but not in the pushed commit."""
    if not path.is_relative_to(scene.root) or not (text.startswith("-") or scene.exists(path)):
        return True
    pushed = scene.tree if scene.tree and scene.tree.commit else None
    return pushed is not None and path.is_file() and not pushed.has(path)


def _ruled(paths: Iterable[Path], scene: Scene) -> list[Path] | None:
    """All models below the policies among these files; None where there is no policy among them."""
    policies = [path for path in paths if scene.rules(path)]
    if not policies:
        return None
    return sorted({model for path in policies for model in scene.models(path.parent)})


def _select_all(scene: Scene, base: str, note: str = "") -> Selection:
    models = scene.models(scene.root)
    return Selection(models=models, base=base, note=note or ("" if models else "there is no model here"))


def _base(scene: Scene) -> str:
    """What is pushed is compared with where it left the remote, all else with the last commit, if any."""
    if scene.repository is None:
        return ""
    if scene.tree is not None and scene.tree.commit:
        ref = changes.pull_request_base()
        return changes.merge_base(scene.repository, ref, scene.tree.commit) if ref else ""
    return "HEAD" if has_commits(scene.repository) else ""


def _everything(scene: Scene) -> Selection:
    """All models; in a pull request they are compared with its base, if that can be found."""
    ref = changes.pull_request_base() if scene.repository else None
    if not ref or scene.repository is None:
        return _select_all(scene, _base(scene))
    try:
        base = changes.merge_base(scene.repository, ref)
    except UsageError as error:
        return _select_all(scene, "", f"growth was not judged: {error.message}; {error.hint}")
    found = _select_all(scene, base)
    then = models_below(scene.root, Tree(scene.repository, base), scene.repository)
    found.gone = tuple(sorted({*then} - {*found.models}))
    return found


def _changed(wanted: Wanted, scene: Scene, repository: Path) -> Selection:
    base, names, since = _changed_names(wanted, scene, repository)
    if names is None:
        return _select_all(scene, "")
    changed = [repository / name for name in names]
    inside = [path for path in changed if path.is_relative_to(scene.root)]
    ruled = _ruled(inside, scene)
    affected = _models(inside, scene)
    scene.look_up(affected)
    if scene.tree is None:
        changes.refuse_left_out(repository, [path for path in affected if not scene.exists(path)])
    models = {path for path in affected if scene.exists(path)}.union(ruled or ())
    # A hook that only removes models has nothing to do.
    gone = [] if wanted.hook else sorted({*affected} - models)
    note = "" if models or gone else f"no model changed since {since}; --all checks every model"
    if ruled is not None:
        note = f"the policy itself changed since {since}, so every model below it is checked"
    return Selection(models=sorted(models), base=base, note=note, gone=gone)


def _changed_names(wanted: Wanted, scene: Scene, repository: Path) -> tuple[str, list[str] | None, str]:
    """The commit compared with, the names that differ from it (None: there is no commit), and its name."""
    if scene.tree is not None:
        base = _base(scene)
        if not scene.tree.commit:
            return base, changes.staged(repository), "the last commit (staged files)"
        names = changes.changed_between(repository, base, scene.tree.commit) if base else None
        return base, names, f"{base[:10]} (pushed files)"
    ref = wanted.since or changes.pull_request_base()
    if ref:
        base = changes.merge_base(repository, ref)
        return base, changes.changed_since(repository, base), f"{ref} ({base[:10]})"
    names = changes.changed_since_head(repository)
    return ("HEAD" if names is not None else ""), names, "the last commit"


def models_below(folder: Path, tree: Tree | None, repository: Path | None) -> list[Path]:
    """Every model of a tree in git below a folder; of the work tree where there is none."""
    if tree is None or repository_of(folder, repository) != tree.repository:
        return all_models(folder, repository)
    models = (model_named(tree.repository / name) for name in tree.models)
    return sorted({path for path in models if path.is_relative_to(folder)})


def all_models(folder: Path, repository: Path | None) -> list[Path]:
    """Every model below a folder: in the repository we are in, and in its submodules, those git knows or
    would add; elsewhere all there are."""
    inner = repository_of(folder, repository)
    if inner is None or inner != find_root(folder):
        return sorted({model_named(path) for path in _walk(folder)})
    names = changes.known_files(inner, changes.MODELS)
    files = [inner / name for name in names if (inner / name).is_relative_to(folder)]
    there = [file for file in files if os.path.lexists(file)]  # a link to nowhere is a model that is missing
    if len(there) < len(files):
        changes.refuse_left_out(inner, sorted(set(files) - set(there)))
    return sorted({model_named(file) for file in there})


def model_named(path: Path) -> Path:
    """The model itself: DVC keeps `encoder.onnx` out of git, with `encoder.onnx.dvc` in its place."""
    return path.with_suffix("") if path.suffix == ".dvc" else path


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and name[0] != "."]
        names = (name for name in files if name.lower().endswith((".onnx", ".onnx.dvc")))
        yield from (Path(folder) / name for name in names)


def _absolute(text: str, scene: Scene) -> Path:
    """A file as it is called from the top; links that lead there are followed, a link itself is not."""
    path = Path(os.path.normpath(scene.here / text))
    if path.is_relative_to(scene.root):
        return path
    resolved = Path(os.path.realpath(path.parent)) / path.name
    return resolved if resolved.is_relative_to(scene.root) else path


def _expand(path: Path, text: str, scene: Scene) -> Sequence[Path]:
    """A file as it is, a folder as the models in it."""
    if not path.is_relative_to(scene.root) and (path.exists() or path.is_symlink()):
        raise UsageError(
            f"{text!r} is outside of {str(scene.root)!r}, and nothing there is checked from here",
            hint="run onnx-ci there",
        )
    if path.is_dir():
        return scene.models(path)
    if not scene.exists(path):
        hint = "check the path, or run: onnx-ci check --all"
        if text.startswith("-"):
            hint = "what follows `--` is a name: options go before it, those of a hook into `args`"
        raise UsageError(f"there is no file or folder {text!r}", hint=hint)
    return [path]


def _models(paths: Iterable[Path], scene: Scene) -> tuple[Path, ...]:
    """Models as they are; for a data file, the models that name it."""
    found: dict[Path, None] = {}
    for path in map(model_named, paths):
        if path.suffix.lower() == ".onnx":
            found[path] = None
        elif path.name.endswith((*DATA_ENDINGS, ".npy")):
            found.update(dict.fromkeys(_owners(path, scene)))
    return tuple(sorted(found))


def _owners(data: Path, scene: Scene) -> Iterator[Path]:
    """Models that name a data file are in its folder or above it: a location never has `..`."""
    above = [folder for folder in data.parents if folder.is_relative_to(scene.root)]
    if scene.tree is not None:
        near = [model for model in scene.models(scene.root) if model.parent in above]
    else:
        near = [path for folder in above if folder.is_dir() for path in sorted(folder.iterdir())]
    yield from (model for model in near if model.suffix.lower() == ".onnx" and scene.owns(model, data))
