"""Samples as files in a folder: how arrays travel to the worker and back. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnx_ci.verify.dtypes import Array, exotic_name, from_raw, is_text, to_raw

_MAP = 1 << 20  # from this many bytes on, a file is mapped rather than read
_MANIFEST = "manifest.json"


class Raw(NamedTuple):
    """The bits of an array whose type numpy lacks: all that the worker needs to know of it."""

    bits: Array
    name: str


# A tensor, its bits, a sequence of tensors, a map from keys to numbers, or nothing.
Value = Array | Raw | Sequence[Any] | Mapping[Any, Any] | None


def write_samples(folder: Path, samples: Sequence[Mapping[str, Value]]) -> None:
    folder.mkdir()
    writer = _Writer(folder)
    manifest = [[[name, writer.describe(value)] for name, value in sample.items()] for sample in samples]
    (folder / _MANIFEST).write_text(json.dumps(manifest), encoding="ascii")


def read_samples(folder: Path) -> list[dict[str, Any]]:
    """The samples with arrays of any type; large ones are mapped, and on POSIX outlive their files."""
    return [{name: _load(folder, entry, raw=False) for name, entry in sample} for sample in _manifest(folder)]


def read_raw_samples(folder: Path) -> list[dict[str, Any]]:
    """The same, but exotic types stay bits, so that ml_dtypes is not needed."""
    return [{name: _load(folder, entry, raw=True) for name, entry in sample} for sample in _manifest(folder)]


class _Writer:
    """Numbers the files: names of values may hold anything, a path separator included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def describe(self, value: Value) -> Any:
        if value is None:
            return None
        if isinstance(value, np.ndarray | Raw):
            return self._save(value)
        if isinstance(value, Mapping):
            return {
                "keys": self._save(np.array(list(value))),
                "values": self._save(np.array([*value.values()])),
            }
        return {"items": [self.describe(item) for item in value]}

    def _save(self, value: Array | Raw) -> dict[str, str]:
        array, name = _plain(value)
        file = f"{self.count}.npy"
        self.count += 1
        np.save(self.folder / file, array, allow_pickle=False)
        return {"file": file, "type": name}


def _plain(value: Array | Raw) -> tuple[Array, str]:
    if isinstance(value, Raw):
        return value.bits, value.name
    name = exotic_name(value.dtype)
    if name is not None:
        return to_raw(value), name
    return (value.astype(np.str_) if is_text(value.dtype) else value), ""


def _load(folder: Path, entry: Any, *, raw: bool) -> Any:
    if entry is None:
        return None
    if "items" in entry:
        return [_load(folder, item, raw=raw) for item in entry["items"]]
    if "keys" in entry:
        keys, values = (_load(folder, entry[part], raw=raw) for part in ("keys", "values"))
        return dict(zip(keys.tolist(), values.tolist(), strict=True))
    path = folder / entry["file"]
    mapped = path.stat().st_size >= _MAP
    array: Array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False).view(np.ndarray)
    if not entry["type"]:
        return array
    return Raw(array, entry["type"]) if raw else from_raw(array, entry["type"])


def _manifest(folder: Path) -> Any:
    return json.loads((folder / _MANIFEST).read_text(encoding="ascii"))
