"""What the files beside a model are called: after the model, and never like a file that is another's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain, count
from pathlib import Path

from onnx_ci.model.container import Model, location
from onnx_ci.model.external import opened_files, own_data
from onnx_ci.model.npy import npy_names
from onnx_ci.model.save import without_temporary


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
        elif name in tensors:
            # Each has a file of its own, also where upper and lower case are the same.
            taken = {used.lower() for used in names.values()}
            wanted = (new for new in npy_names(target, tensors[name]) if new.lower() not in taken)
            names[name] = _free(wanted, target, ours, reserved)
        elif name in merged or name == own_data(after.path):
            names[name] = _free(_own_names(target), target, ours, reserved)
        else:  # what a method was told to call it
            names[name] = _free(chain([name], _own_names(target)), target, ours, reserved)
    return names


def _own_names(target: Path) -> Iterator[str]:
    yield own_data(target)
    yield from (own_data(target.with_name(f"{target.name}-{number}")) for number in count(2))


def _free(wanted: Iterator[str], target: Path, ours: Collection[str], reserved: Collection[str]) -> str:
    return next(
        name
        for name in wanted
        if name not in (target.name, *reserved) and (name in ours or not (target.parent / name).exists())
    )
