"""Writes samples in the form in which they are read: one .npz file each, arrays by input name."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx_ci.sandbox.exchange import Array
from onnx_ci.whole import whole

KEYS, VALUES = "{keys}", "{values}"  # after the name of an input that is a map


def sample_paths_for(target: Path, count: int) -> list[Path]:
    """The file that was asked for, and for further samples NAME-1, NAME-2, … beside it."""
    return [target if i == 0 else target.with_name(f"{target.stem}-{i}{target.suffix}") for i in range(count)]


def write_npz(path: Path, sample: Mapping[str, Any]) -> None:
    """Whole or not at all, and the same bytes for the same sample."""
    with whole(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in entries(sample):
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def entries(sample: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """Tensors by name; the items of a sequence as NAME[0], NAME[1], …; what is absent is left out."""
    for name, value in sample.items():
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _mapping(name, value)
        elif isinstance(value, Sequence):
            for index, item in enumerate(value):
                yield from entries({f"{name}[{index}]": item})


def _mapping(name: str, value: Mapping[Any, Any]) -> Iterator[tuple[str, Array]]:
    yield f"{name}{KEYS}", np.array(list(value))
    yield f"{name}{VALUES}", np.array(list(value.values()))
