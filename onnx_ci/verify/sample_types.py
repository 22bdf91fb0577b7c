"""Does an array fit the input it is meant for? What it is given, in the words of a message."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TypeProto, ValueInfoProto

from onnx_ci.errors import ModelError
from onnx_ci.inputs.generate import dims_of
from onnx_ci.verify.contract import show_type
from onnx_ci.verify.dtypes import Array, exotic_name, is_text, numpy_dtype, type_name


def fitted(value: ValueInfoProto, found: Any, where: str) -> Any:
    """`found` as it can be fed, or an error that names the file, the input, what it has and what it needs."""
    return _fit(value.type, found, f"{where}: input {value.name!r}")


def is_optional(value: ValueInfoProto) -> bool:
    return bool(value.type.WhichOneof("value") == "optional_type")


def _fit(kind: TypeProto, found: Any, where: str) -> Any:
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return None if found is None else _fit(kind.optional_type.elem_type, found, where)
    if which == "sequence_type" and isinstance(found, list):
        return [_fit(kind.sequence_type.elem_type, item, where) for item in found]
    if which == "tensor_type" and isinstance(found, np.ndarray):
        return _fit_tensor(kind, found, where)
    if which == "map_type" and isinstance(found, dict):
        return found
    if which == "sparse_tensor_type":
        raise _misfit(where, f"is {show_type(kind)}, which can't be fed", "such a model can't be verified")
    how = "a sequence is stored as NAME[0], NAME[1], … in an .npz, a map as NAME{keys} and NAME{values}"
    raise _misfit(where, f"needs {show_type(kind)}", how)


def _fit_tensor(kind: TypeProto, found: Array, where: str) -> Array:
    tensor = kind.tensor_type
    dtype = numpy_dtype(tensor.elem_type)
    dims = dims_of(tensor)
    array = _as_stored(found, dtype)
    if dtype is None or type_name(array.dtype) != type_name(dtype):
        raise _unlike(where, found, kind, "save it with that type: array.astype(...)")
    if dims is not None and len(dims) != array.ndim:
        raise _unlike(where, found, kind, "save it with that many axes, the batch included")
    fixed = [(dim, size) for dim, size in zip(dims or (), array.shape, strict=False) if isinstance(dim, int)]
    if any(dim != size for dim, size in fixed):
        raise _unlike(where, found, kind, "save it with that shape")
    return array.astype(np.str_) if is_text(array.dtype) else array


def _as_stored(found: Array, dtype: np.dtype[Any] | None) -> Array:
    """numpy saves bfloat16 and its like as nameless bytes of that width."""
    nameless = found.dtype.kind == "V" and exotic_name(found.dtype) is None
    if dtype is not None and nameless and exotic_name(dtype) and found.itemsize == dtype.itemsize:
        return found.view(dtype)
    return found


def _unlike(where: str, found: Array, kind: TypeProto, hint: str) -> ModelError:
    has = f"{type_name(found.dtype)}{list(found.shape)}"
    return _misfit(where, f"needs {show_type(kind)}, the sample has {has}", hint)


def _misfit(where: str, what: str, hint: str) -> ModelError:
    return ModelError(f"{where} {what}", hint=hint, code="OCI005")
