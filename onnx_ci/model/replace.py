"""Replaces a model in a repository: what may be written where, and which data files are whose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.external import data_files, opened_files, own_data
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.naming import names_for
from onnx_ci.model.save import publish


def replace_model(candidate: Model, original: Model, *, root: Path, digest: str) -> Path:
    """Put the candidate in the original's place. Data that another model uses too is left alone."""
    target = writable_target(original.path, root)
    ours = [name for name in opened_files(original) if not other_users(target.parent / name, target, root)]
    names = names_for(candidate, target, kept=ours)
    publish(candidate, target, digest=digest, names=names)
    for name in ours:
        if name not in names.values():
            (target.parent / name).unlink(missing_ok=True)
    return target


def write_new(candidate: Model, original: Model, target: Path, *, digest: str) -> Path:
    """Write the candidate under a name of its own, over what is there and its data, but no one else's."""
    there = [target.parent / name for name in (own_data(target), *_data_of(target))]
    ours = {file.name for file in there if file.exists() and not other_users(file, target, target.parent)}
    names = names_for(candidate, target, merged=opened_files(original), ours=ours)
    publish(candidate, target, digest=digest, names=names)
    return target


def writable_target(path: Path, root: Path) -> Path:
    """The file that a link leads to, if it is inside the repository and may be written."""
    target = path.resolve()
    name = display_path(path)
    if not target.is_relative_to(root.resolve()):
        raise ModelError(
            f"{name}: is a link to a file outside the repository, which is never written",
            hint="replace the link by the file itself",
            code="OCI017",
        )
    if target.exists() and not target.stat().st_mode & 0o222:
        raise ModelError(f"{name}: is read-only", hint=f"run: chmod u+w {name!r}", code="OCI017")
    return target


def other_users(data: Path, model: Path, root: Path) -> list[Path]:
    """Other models that name this data file. They can only be in its folder or above: `..` is refused."""
    return [other for other in _models_above(data, root) if other != model and _names(other, data)]


def _models_above(data: Path, root: Path) -> Iterator[Path]:
    top = root.resolve()
    for folder in data.resolve().parents:
        if not folder.is_relative_to(top):
            return
        yield from sorted(folder.glob("*.onnx"))


def _names(model: Path, data: Path) -> bool:
    return any((model.parent / name).resolve() == data.resolve() for name in _data_of(model))


def _data_of(model: Path) -> list[str]:
    """The data files of what is there, if it is a model."""
    try:
        return data_files(read_skeleton(model))
    except ModelError:
        return []
