"""A model: its skeleton as a ModelProto, and its large tensors as references into a store."""

from __future__ import annotations

import math
import os
import sys
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.model.dtypes import BITS, NUMPY_TYPES, stored_bytes
from onnx_ci.model.proto import ModelProto, TensorProto, full_onnx
from onnx_ci.model.store import Store
from onnx_ci.model.wire import Span

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Self

EXTERNAL = TensorProto.EXTERNAL
LARGE = 1024  # bytes from which a tensor stays out of the skeleton
# What the values of a tensor that is stored number by number are called, and how Python packs them.
TYPED_FIELDS: dict[int, tuple[str, str]] = {
    TensorProto.FLOAT: ("float_data", "f"),
    TensorProto.INT32: ("int32_data", "i"),
    TensorProto.INT64: ("int64_data", "q"),
    TensorProto.DOUBLE: ("double_data", "d"),
}
NUMBER_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass
class Model:
    """`proto` may be edited freely; a tensor's values are read and written through the model.

    `beside` are tensors that are fed as inputs and kept in .npy files of their own.
    """

    path: Path
    proto: ModelProto
    store: Store
    seen: Mapping[Path, tuple[int, int, int]] = field(default_factory=dict)  # its files when it was opened
    beside: list[TensorProto] = field(default_factory=list)

    def copy(self) -> Model:
        """A second skeleton over the same bytes: editing one leaves the other as it is."""
        proto = ModelProto()
        proto.CopyFrom(self.proto)
        beside = [TensorProto() for _ in self.beside]
        for copy, tensor in zip(beside, self.beside, strict=True):
            copy.CopyFrom(tensor)
        return Model(self.path, proto, self.store, self.seen, beside)

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def span(self, tensor: TensorProto) -> Span | None:
        """Where the tensor's bytes are, or None if the skeleton itself holds them."""
        if tensor.data_location != EXTERNAL:
            return None
        for entry in tensor.external_data:
            if entry.key == self.store.key:
                return Span(*map(int, entry.value.split()))
        return None

    def set_span(self, tensor: TensorProto, span: Span) -> None:
        """Point a tensor at bytes of the store, keeping the external file it belongs to, if any."""
        home = location(tensor)
        place = {"location": home} if home else {}
        store_outside(tensor, {**place, self.store.key: " ".join(map(str, span))})

    def raw(self, tensor: TensorProto) -> bytes | bytearray:
        """The values as ONNX stores them in `raw_data`: little-endian, sub-byte types packed."""
        span = self.span(tensor)
        if span is not None:
            return self.store.read(span)
        if tensor.HasField("raw_data"):
            return tensor.raw_data
        field, code = TYPED_FIELDS.get(tensor.data_type, ("", ""))
        values = getattr(tensor, field) if field else ()
        if values and len(values) == element_count(tensor) and sys.byteorder == "little":
            return array(code, values[:]).tobytes()  # a slice is read at once, not one by one
        numpy_helper = full_onnx().numpy_helper
        return bytes(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)

    def array(self, tensor: TensorProto) -> np.ndarray[Any, np.dtype[Any]]:
        """The values as a numpy array that does not share memory with the model."""
        import numpy as np

        span = self.span(tensor)
        if span is None:
            return np.array(full_onnx().numpy_helper.to_array(tensor))
        if BITS.get(tensor.data_type, 0) >= 8:
            dtype = NUMPY_TYPES.get(tensor.data_type)
            dtype = dtype or full_onnx().helper.tensor_dtype_to_np_dtype(tensor.data_type)
            values: np.ndarray[Any, np.dtype[Any]] = np.frombuffer(self.store.read(span), dtype=dtype)
            return values.reshape(tuple(tensor.dims))
        plain = TensorProto(
            data_type=tensor.data_type, dims=tensor.dims, raw_data=bytes(self.store.read(span))
        )
        unpacked: np.ndarray[Any, np.dtype[Any]] = full_onnx().numpy_helper.to_array(plain)
        return unpacked

    def set_array(self, tensor: TensorProto, values: np.ndarray[Any, np.dtype[Any]]) -> None:
        """Give a tensor new values, type and shape; its name and external file stay."""
        known = {name: number for number, name in NUMPY_TYPES.items()}.get(values.dtype.name)
        tensor.data_type = known or full_onnx().helper.np_dtype_to_tensor_dtype(values.dtype)
        tensor.dims[:] = values.shape
        self.set_raw(tensor, values.tobytes())

    def set_raw(self, tensor: TensorProto, data: bytes) -> None:
        """Give a tensor values as `raw_data` would have them; its type and shape are what they are."""
        if len(data) >= LARGE:
            self.set_span(tensor, self.store.put(data))
        else:
            clear_values(tensor)
            tensor.raw_data = data


def values_beside(model: Model) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """The values of inputs that the model brings along, in files of their own."""
    return {tensor.name: model.array(tensor) for tensor in model.beside}


def location(tensor: TensorProto) -> str:
    """The external data file a tensor belongs to, as the model names it; empty when embedded."""
    for entry in tensor.external_data:  # most have none; a generator for each would take longer than this
        if entry.key == "location":
            return str(entry.value)
    return ""


def clear_values(tensor: TensorProto) -> None:
    for name in (*NUMBER_FIELDS, "raw_data", "string_data", "external_data", "data_location"):
        tensor.ClearField(name)


def store_outside(tensor: TensorProto, entries: Mapping[str, str]) -> None:
    """Let a tensor say where its values are, in place of having them."""
    clear_values(tensor)
    tensor.data_location = EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def element_count(tensor: TensorProto) -> int:
    return math.prod(tensor.dims[:])


def stored_size(tensor: TensorProto) -> int:
    """The bytes that the tensor's values take; 0 for strings and the like."""
    return stored_bytes(tensor.data_type, tensor.dims[:]) or 0


_USERS_NAMES: dict[Path, str] = {}


@contextmanager
def called(names: Mapping[Path, str]) -> Iterator[None]:
    """Let messages call these files and folders, and all that is in them, as the user does."""
    _USERS_NAMES.update(names)
    try:
        yield
    finally:
        for path in names:
            _USERS_NAMES.pop(path, None)


def users_name(path: Path) -> str:
    """What the user calls a file: its path, if nobody said otherwise."""
    for known in (path, *path.parents):
        name = _USERS_NAMES.get(known)
        if name is not None:
            return name if known == path else str(Path(name) / path.relative_to(known))
    return str(path)


def display_path(path: Path) -> str:
    """A path as messages show it: relative to here where that is shorter, on one line."""
    text = users_name(path)
    if text == str(path) and path.is_relative_to(Path.cwd()):
        text = os.path.relpath(path)
    return text.replace("\n", "\\n").replace("\r", "\\r")
