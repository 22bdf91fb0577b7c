"""What the files beside a model are called: after the model, and never like a file that is another's."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from onnx_ci.model.external import data_files, own_data
from onnx_ci.model.proto import ModelProto
from onnx_ci.model.save import without_temporary


def names_in_place(
    after: ModelProto, before: Collection[str], *, source: Path, target: Path
) -> dict[str, str]:
    """The names of a model's data files when it replaces the one that had those named in `before`."""
    return {
        name: without_temporary(name) if name in before else _new_name(name, source, target, set(before))
        for name in data_files(after)
    }


def names_elsewhere(
    after: ModelProto, before: Collection[str], ours: Collection[str], *, source: Path, target: Path
) -> dict[str, str]:
    """The names under a new model, which may write over `ours`. What the source had goes to one file."""
    return {
        name: _free_name(target, own_data(target), ours)
        if name in before
        else _new_name(name, source, target, ours)
        for name in data_files(after)
    }


def _new_name(name: str, source: Path, target: Path, ours: Collection[str]) -> str:
    """A method names data after the model it was given, or as it was told to."""
    return _free_name(target, own_data(target) if name == own_data(source) else name, ours)


def _free_name(target: Path, wanted: str, ours: Collection[str]) -> str:
    """`wanted` if it may be written, or else the first name after the model's own that may."""
    name, number = wanted, 1
    while name == target.name or (name not in ours and (target.parent / name).exists()):
        name = own_data(target.with_name(f"{target.name}-{number}") if number > 1 else target)
        number += 1
    return name
