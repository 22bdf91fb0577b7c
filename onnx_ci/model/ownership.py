"""Which files beside a model are its own: only those may be replaced or removed.

A model can name any file in or below its folder as external data, and a model is not trusted. So a file
counts as its own only if it is called after the model, like `encoder.onnx.data`, `encoder_data` or
`encoder.weight.npy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, display_path
from onnx_ci.model.endings import DATA_ENDINGS
from onnx_ci.model.external import data_files
from onnx_ci.model.hashing import file_state
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.locations import is_inside
from onnx_ci.model.npy import own_start
from onnx_ci.model.save import without_temporary


def is_own(name: str, target: Path) -> bool:
    """Whether a data file is called after the model, and is a file rather than a link to one."""
    base = without_temporary(PurePosixPath(name).name)
    data = base.startswith(target.stem) and base.endswith(DATA_ENDINGS)
    array = base.startswith(own_start(target)) and base.endswith(".npy")
    return (data or array) and not (target.parent / name).is_symlink()


def other_users(data: Path, model: Path, root: Path) -> list[Path]:
    """Other models that name this data file, or may: one that can't be read is not to be robbed either.

    They can only be in its folder or above: `..` is refused.
    """
    return [
        other for other in _models_above(data, root) if other != model and _names(other, data) is not False
    ]


def is_needed(file: Path) -> bool:
    """Whether any model names a file, or may: where a replacement was cut short, one needs temporary data."""
    return bool(other_users(file, Path(), Path(file.resolve().anchor)))


def sharers(model: Model, root: Path) -> list[Path]:
    """Models that name any of this one's data files as well; of one that can't be read nobody knows it."""
    target = model.path.resolve()
    found = (_sure_users(target.parent / name, target, root) for name in data_files(model.proto))
    return sorted({other for others in found for other in others})


def shared_data(model: Path, root: Path) -> list[str]:
    """The data files of a model that others name too."""
    return [name for name in data_of(model) if any(_sure_users(model.parent / name, model, root))]


def _sure_users(data: Path, model: Path, root: Path) -> Iterator[Path]:
    return (other for other in _models_above(data, root) if other != model and _names(other, data))


def data_of(model: Path) -> list[str]:
    """The data files that a model names and may name; an error where it can't be read."""
    return [name for name in data_files(read_skeleton(model)) if is_inside(name)]


def _models_above(data: Path, root: Path) -> Iterator[Path]:
    top = root.resolve()
    for folder in data.resolve().parents:
        if not folder.is_relative_to(top):
            return
        yield from sorted(path for path in folder.iterdir() if path.suffix.lower() == ".onnx")


def _names(model: Path, data: Path) -> bool | None:
    """Whether a model names a file; None where it can't be read."""
    try:
        names = data_of(model)
    except ModelError:
        return None
    return any((model.parent / name).resolve() == data.resolve() for name in names)


def refuse_changed(model: Model) -> None:
    """Whoever wrote to a model's files while it was worked on has the last word."""
    for path, seen in model.seen.items():
        if file_state(path) != seen:
            raise ModelError(
                f"{display_path(path)}: changed while it was being worked on, so it was not replaced",
                hint="run it again",
                code="OCI017",
            )
