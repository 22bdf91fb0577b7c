"""Replaces a model in a repository: what may be written where, and which data files go with it."""

from __future__ import annotations

import filecmp
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, count
from pathlib import Path, PurePosixPath

from onnx_ci.errors import ModelError
from onnx_ci.model.load import data_files, may_name_data, opened_files, own_data, read_skeleton
from onnx_ci.model.locations import DATA_ENDINGS, is_inside
from onnx_ci.model.model import Model, display_path, location
from onnx_ci.model.npy import npy_names, own_start
from onnx_ci.model.save import publish, put_in_place, refusal, without_temporary
from onnx_ci.model.store import file_state
from onnx_ci.util.advice import to_run
from onnx_ci.util.files import sweep_files


def is_own(name: str, target: Path) -> bool:
    """Whether a data file is called after the model, and is a file rather than a link to one."""
    base = without_temporary(PurePosixPath(name).name)
    data = base.startswith(target.stem) and base.endswith(DATA_ENDINGS)
    array = base.startswith(own_start(target)) and base.endswith(".npy")
    return (data or array) and not (target.parent / name).is_symlink()


def other_users(data: Path, model: Path, root: Path, *, unreadable: bool = True) -> list[Path]:
    """Other models that name this data file, or may: one that is `unreadable` is not to be robbed either.

    They can only be in its folder or above: `..` is refused.
    """
    users: list[Path] = []
    for folder in data.resolve().parents:
        if not folder.is_relative_to(root.resolve()):
            break
        models = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".onnx")
        users += [other for other in models if other != model and _names(other, data, unreadable)]
    return users


def _names(model: Path, data: Path, unreadable: bool) -> bool:
    """Whether a model names a file; `unreadable` where it can't be read."""
    try:
        return any((model.parent / name).resolve() == data.resolve() for name in data_of(model))
    except ModelError:
        return unreadable


def is_needed(file: Path) -> bool:
    """Whether any model names a file, or may: where a replacement was cut short, one needs temporary data."""
    return bool(other_users(file, Path(), Path(file.resolve().anchor)))


def sharers(model: Model, root: Path) -> list[Path]:
    """Models that name any of this one's data files as well; of one that can't be read nobody knows it."""
    target = model.path.resolve()
    files = [target.parent / name for name in data_files(model.proto)]
    return sorted({other for file in files for other in other_users(file, target, root, unreadable=False)})


def shared_data(model: Path, root: Path) -> list[str]:
    """The data files of a model that others name too."""
    return [
        name for name in data_of(model) if other_users(model.parent / name, model, root, unreadable=False)
    ]


def data_of(model: Path) -> list[str]:
    """The data files that a model names and may name; an error where it can't be read."""
    return [name for name in data_files(read_skeleton(model)) if is_inside(name)]


def refuse_changed(model: Model) -> None:
    """Whoever wrote to a model's files while it was worked on has the last word."""
    for path, seen in model.seen.items():
        if file_state(path) != seen:
            raise refusal(
                path, "changed while it was being worked on, so it was not replaced", "run it again"
            )


def names_for(
    after: Model,
    target: Path,
    *,
    kept: Collection[str] = (),
    merged: Collection[str] = (),
    ours: Collection[str] = (),
    reserved: Collection[str] = (),
) -> dict[str, str]:
    """New names of a model's files by their present ones.

    Those `kept` stay as they are; those `merged` go to the one data file that is named after the model.
    A file that exists is written over only if it is in `ours`. Names that are `reserved` are another's.
    """
    tensors = {location(tensor): tensor.name for tensor in after.beside}
    names: dict[str, str] = {}
    for name in opened_files(after):
        if name in kept:
            names[name] = without_temporary(name)
            continue
        wanted = _own_names(target)
        if name in tensors:
            # Each has a file of its own, also where upper and lower case are the same.
            taken = {used.lower() for used in names.values()}
            wanted = (new for new in npy_names(target, tensors[name]) if new.lower() not in taken)
        elif name not in merged and name != own_data(after.path):  # what a method was told to call it
            wanted = chain([name], wanted)
        allowed = (new for new in wanted if new not in (target.name, *reserved))
        names[name] = next(new for new in allowed if new in ours or not (target.parent / new).exists())
    return names


def _own_names(target: Path) -> Iterator[str]:
    yield own_data(target)
    yield from (own_data(target.with_name(f"{target.name}-{number}")) for number in count(2))


def replace_model(candidate: Model, original: Model, *, root: Path, digest: str) -> Path:
    """Put the candidate in the original's place. Only data files that are its own are replaced."""
    target = writable_target(original.path, root)
    ours = [name for name in opened_files(original) if _is_ours(name, target, root)]
    names = names_for(candidate, target, kept=ours)
    for folder in {(target.parent / name).parent for name in (target.name, *data_files(original.proto))}:
        sweep_files(folder, is_needed)
    publish(candidate, target, digest=digest, names=names, ready=lambda: refuse_changed(original))
    for name in ours:
        if name not in names.values():
            (target.parent / name).unlink(missing_ok=True)
    return target


def _is_ours(name: str, target: Path, root: Path) -> bool:
    """Whether a file, and what stands under the name it was about to get, belongs to this model alone."""
    files = (target.parent / name, target.parent / without_temporary(name))
    return is_own(name, target) and not any(other_users(file, target, root) for file in files)


def left_behind(original: Model, after: Path) -> list[str]:
    """Data files the model had before it was replaced, that are still there and that it no longer names."""
    now = set(data_of(after))
    gone = (name for name in data_files(original.proto) if name not in now)
    return [name for name in gone if (after.parent / name).exists()]


def is_unfinished(model: Model) -> bool:
    """Whether a run was killed between giving a model its new data and giving that its name."""
    return any(without_temporary(name) != name for name in data_files(model.proto))


def write_new(
    candidate: Model, original: Model, target: Path, *, digest: str, reserved: Collection[str] = ()
) -> Path:
    """Write the candidate under a name of its own, over what is there and its data, but no one else's."""
    ours = {name for name in replaceable_data(target) if _is_ours(name, target, target.parent)}
    names = names_for(candidate, target, merged=opened_files(original), ours=ours, reserved=reserved)
    sweep_files(target.parent, is_needed)
    publish(candidate, target, digest=digest, names=names, ready=lambda: refuse_changed(original))
    return target


def put_files(files: Mapping[str, Path], target: Path, *, also_ours: Collection[str] = ()) -> None:
    """Put files that make a model, the model itself first among them, at the target, byte for byte, over
    what is there and its data, but no one else's. `also_ours` is data that the model there has now."""
    first, *data = files
    ours = replaceable_data(target)
    for name in data:
        other = target.parent / name
        if other.exists() and name not in ours and not filecmp.cmp(files[name], other, shallow=False):
            raise refusal(
                other,
                "is there already with other content, and is not the model's own",
                "write to another folder, or remove it first",
            )
    finals = {target.parent / name: files[name] for name in data} | {target: files[first]}
    put_in_place(finals)
    for name in also_ours:
        file = target.parent / name
        if file not in finals and _is_ours(name, target, target.parent):
            file.unlink(missing_ok=True)


def replaceable_data(target: Path) -> set[str]:
    """The data of the model that is at the target now, if it looks like data and no other model names it."""
    target = target.resolve()
    return {
        PurePosixPath(name).as_posix()
        for name in readable_data(target)
        if _is_likely(name, target) and not other_users(target.parent / name, target, target.parent)
    }


def _is_likely(name: str, target: Path) -> bool:
    """Whether a file looks like data of a model, and is no link."""
    return is_own(name, target) or (name.endswith(DATA_ENDINGS) and not (target.parent / name).is_symlink())


def readable_data(model: Path) -> list[str]:
    """The data files that a model names; none where there is no model that can be read."""
    try:
        return data_of(model) if may_name_data(model) else []
    except ModelError:
        return []


def orphaned_data(target: Path) -> list[Path]:
    """Data that was written for a model at the target which is gone: called as we call it, and no model's."""
    target = target.resolve()
    start, end = own_data(target).removesuffix(".data"), r"(-\d+)?\.data"
    called = [file for file in target.parent.iterdir() if re.fullmatch(re.escape(start) + end, file.name)]
    return [file for file in called if is_orphan(file, target)]


def is_orphan(file: Path, target: Path) -> bool:
    """Whether a file looks like a model's data, and no model there names it, that at the target included."""
    if not _is_likely(file.name, target) or file.is_symlink() or not file.is_file():
        return False
    current = {(target.parent / name).resolve() for name in readable_data(target)}
    return file.resolve() not in current and not other_users(file, target, target.parent)


def writable_target(path: Path, root: Path) -> Path:
    """The file that a link leads to, if it is inside the repository and may be written."""
    target = path.resolve()
    name = display_path(path)
    if not target.is_relative_to(root.resolve()):
        raise refusal(
            path,
            "is a link to a file outside the repository, which is never written",
            "replace the link by the file itself",
        )
    if any(part.startswith(".") and part not in path.parts for part in target.parts):
        raise refusal(
            path,
            "is a link into a hidden folder, such as the cache of DVC, which is never written",
            f"replace the link by the file itself (DVC: dvc unprotect {shlex.quote(name)})",
        )
    if target.exists() and not target.stat().st_mode & 0o222:
        raise refusal(path, "is read-only", to_run(f"chmod u+w {name!r}"))
    return target
