"""Refuses to write a report or a dependency file over a model, its data, its policy or what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from onnx_ci.errors import ModelError, UsageError
from onnx_ci.model.external import own_data
from onnx_ci.model.ownership import data_of


def refuse_same(written: Mapping[str, Path], source: Path, target: Path, policy: Path | None) -> None:
    """`written` are the other files to write, by the option that names each."""
    needed = {"the model": source, **{f"data of {source}": file for file in _data(source)}}
    if policy is not None:
        needed["the policy"] = policy
        _refuse("OUT", target, {"the policy": policy})
    made = {"OUT": target, "the data of OUT": target.with_name(own_data(target))}
    earlier: dict[str, Path] = {}
    for option, path in written.items():
        _refuse(option, path, {**needed, **made, **earlier})
        earlier[f"the file of {option}"] = path


def _refuse(option: str, path: Path, others: Mapping[str, Path]) -> None:
    for what, other in others.items():
        linked = path.exists() and other.exists() and path.samefile(other)
        if linked or path.resolve() == other.resolve():
            raise UsageError(f"{option} {path} is {what}, which it would replace", hint="name another file")


def _data(source: Path) -> list[Path]:
    try:
        return [source.parent / name for name in data_of(source)]
    except ModelError:
        return []  # what is wrong with it is said later
