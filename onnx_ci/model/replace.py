"""Replaces a model in a repository: what may be written where, and which data files are whose."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.external import data_files
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.save import SUFFIX, publish, without_temporary

STALE_SECONDS = 3600


def replace_model(candidate: Model, original: Model, *, root: Path, digest: str) -> Path:
    """Put the candidate in the original's place. Data that another model uses too is left alone."""
    target = writable_target(original.path, root)
    before = data_files(original.proto)
    shared = {name for name in before if other_users(target.parent / name, target, root)}
    names = {
        name: _own_name(target, taken=set(before)) for name in data_files(candidate.proto) if name in shared
    }
    kept = {names.get(name, without_temporary(name)) for name in data_files(candidate.proto)}
    _sweep(target, keep=set(before))
    publish(candidate, target, digest=digest, names=names)
    for name in before:
        if name not in kept and name not in shared:
            (target.parent / name).unlink(missing_ok=True)
    return target


def is_unfinished(model: Model) -> bool:
    """Whether a run was killed between giving a model its new data and giving that its name."""
    return any(without_temporary(name) != name for name in data_files(model.proto))


def _sweep(target: Path, keep: set[str]) -> None:
    """Remove what killed runs left beside a model. Young files may belong to a run that is still going."""
    for file in target.parent.glob(f".{glob.escape(target.name)}.*{SUFFIX}"):
        if file.name not in keep and time.time() - file.stat().st_mtime > STALE_SECONDS:
            file.unlink(missing_ok=True)


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
    try:
        proto = read_skeleton(model)
    except ModelError:
        return False
    return any((model.parent / name).resolve() == data.resolve() for name in data_files(proto))


def _own_name(target: Path, *, taken: set[str]) -> str:
    name, number = f"{target.name}.data", 1
    while name in taken or (target.parent / name).exists():
        number += 1
        name = f"{target.name}-{number}.data"
    return name
