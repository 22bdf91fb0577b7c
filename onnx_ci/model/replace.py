"""Replaces a model in a repository: what may be written where, and which data files go with it."""

from __future__ import annotations

import glob
import shlex
import time
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.external import SUFFIX, data_files
from onnx_ci.model.naming import names_elsewhere, names_in_place
from onnx_ci.model.ownership import data_of, is_own, other_users, refuse_changed
from onnx_ci.model.save import publish, without_temporary

STALE_SECONDS = 3600


def replace_model(candidate: Model, original: Model, *, root: Path, digest: str) -> Path:
    """Put the candidate in the original's place. Only data files that are its own are replaced."""
    target = writable_target(original.path, root)
    before = data_files(original.proto)
    ours = [n for n in before if is_own(n, target) and not other_users(target.parent / n, target, root)]
    names = names_in_place(candidate.proto, ours, source=original.path, target=target)
    _sweep(target, keep=set(before))
    publish(candidate, target, digest=digest, names=names, ready=lambda: refuse_changed(original))
    for name in ours:
        if name not in names.values():
            (target.parent / name).unlink(missing_ok=True)
    return target


def left_behind(original: Model, after: Path) -> list[str]:
    """Data files the model had before it was replaced, that are still there and that it no longer names."""
    now = set(data_of(after))
    gone = (name for name in data_files(original.proto) if name not in now)
    return [name for name in gone if (after.parent / name).exists()]


def is_unfinished(model: Model) -> bool:
    """Whether a run was killed between giving a model its new data and giving that its name."""
    return any(without_temporary(name) != name for name in data_files(model.proto))


def _sweep(target: Path, keep: set[str]) -> None:
    """Remove what killed runs left beside a model. Young files may belong to a run that is still going."""
    for file in target.parent.glob(f".{glob.escape(target.name)}.*{SUFFIX}"):
        if file.name not in keep and time.time() - file.stat().st_mtime > STALE_SECONDS:
            file.unlink(missing_ok=True)


def write_new(candidate: Model, original: Model, target: Path, *, digest: str) -> Path:
    """Write the candidate under a name of its own, over what is there and its data, but no one else's."""
    ours = {n for n in _names_of(target) if not other_users(target.parent / n, target, target.parent)}
    before = data_files(original.proto)
    names = names_elsewhere(candidate.proto, before, ours, source=original.path, target=target)
    publish(candidate, target, digest=digest, names=names, ready=lambda: refuse_changed(original))
    return target


def _names_of(target: Path) -> list[str]:
    try:
        return [name for name in data_of(target) if is_own(name, target)]
    except ModelError:
        return []


def _hidden(path: Path) -> set[str]:
    return {part for part in path.parts if part.startswith(".")}


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
    if _hidden(target) - _hidden(path):
        raise ModelError(
            f"{name}: is a link into a hidden folder, such as the cache of DVC, which is never written",
            hint=f"replace the link by the file itself (DVC: dvc unprotect {shlex.quote(name)})",
            code="OCI017",
        )
    if target.exists() and not target.stat().st_mode & 0o222:
        raise ModelError(f"{name}: is read-only", hint=f"run: chmod u+w {name!r}", code="OCI017")
    return target
