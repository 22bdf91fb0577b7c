"""Reads one sample file or folder, never pickle; whatever is wrong becomes one error that names it."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import OptionalProto, SequenceProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.sandbox.exchange import Array
from onnx_ci.sizes import format_size

_LARGEST = 2**31  # bytes of one file, unpacked
_BROKEN = (ValueError, TypeError, OSError, EOFError, MemoryError, KeyError, zipfile.BadZipFile, DecodeError)
_NUMBERED = re.compile(r"input_(\d{1,6})\.pb")


def read_npy(path: Path, where: str) -> Array:
    try:
        # Mapped, so that a header with an absurd shape is refused instead of allocated.
        return np.lib.format.open_memmap(path, mode="r").view(np.ndarray)
    except _BROKEN as error:
        raise _unreadable(where, error) from None


def read_npz(path: Path, where: str) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _LARGEST:
            raise ValueError(f"{format_size(size)} unpacked, at most {format_size(_LARGEST)} are read")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except _BROKEN as error:
        raise _unreadable(where, error) from None


def read_folder(path: Path, where: str, values: Sequence[ValueInfoProto]) -> list[Any]:
    """input_0.pb belongs to the model's first input, and so on."""
    found = {int(m[1]): file for file in path.iterdir() if (m := _NUMBERED.fullmatch(file.name))}
    if sorted(found) != list(range(len(values))):
        raise ModelError(
            f"{where}: has {len(found)} files input_N.pb, the model has {len(values)} inputs",
            hint="number them from 0, one for each input: " + ", ".join(value.name for value in values),
            code="OCI005",
        )
    return [_read_pb(found[index], where, value.type) for index, value in enumerate(values)]


def _read_pb(path: Path, where: str, kind: TypeProto) -> Any:
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {format_size(_LARGEST)}")
        return _parse(path.read_bytes(), kind)
    except _BROKEN as error:
        raise _unreadable(f"{where}/{path.name}", error) from None


def _parse(data: bytes, kind: TypeProto) -> Any:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return _sequence(SequenceProto.FromString(data))
    if which == "optional_type":
        optional = OptionalProto.FromString(data)
        if optional.elem_type == OptionalProto.UNDEFINED:
            return None
        if optional.elem_type == OptionalProto.SEQUENCE:
            return _sequence(optional.sequence_value)
        return _array(optional.tensor_value)
    return _array(TensorProto.FromString(data))


def _sequence(sequence: SequenceProto) -> list[Array]:
    return [_array(tensor) for tensor in sequence.tensor_values]


def _array(tensor: TensorProto) -> Array:
    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError("its data is in another file, which is not read")
    array: Array = np.asarray(numpy_helper.to_array(tensor))
    return array


def _unreadable(where: str, error: Exception) -> ModelError:
    what = str(error).split("\n")[0] or type(error).__name__
    return ModelError(
        f"{where}: can't be read as a sample: {what}",
        hint="save it with numpy.savez(file, NAME=array, …); arrays of Python objects are not read",
        code="OCI005",
    )
