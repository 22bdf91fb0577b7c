"""Element types: ONNX codes and names, numpy dtypes, and raw views of the types that numpy lacks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnx_ci.model.dtypes import NUMPY_TYPES

Array = np.ndarray[Any, np.dtype[Any]]


class Exotic(NamedTuple):
    """An element type that only ml_dtypes knows: its ONNX code, its name there, its bits."""

    code: int
    ml_name: str
    bits: int


EXOTIC = {
    "bfloat16": Exotic(16, "bfloat16", 16),
    "float8e4m3fn": Exotic(17, "float8_e4m3fn", 8),
    "float8e4m3fnuz": Exotic(18, "float8_e4m3fnuz", 8),
    "float8e5m2": Exotic(19, "float8_e5m2", 8),
    "float8e5m2fnuz": Exotic(20, "float8_e5m2fnuz", 8),
    "uint4": Exotic(21, "uint4", 4),
    "int4": Exotic(22, "int4", 4),
    "float4e2m1": Exotic(23, "float4_e2m1fn", 4),
    "float8e8m0": Exotic(24, "float8_e8m0fnu", 8),
    "uint2": Exotic(25, "uint2", 2),
    "int2": Exotic(26, "int2", 2),
}
_NAME_OF_CODE = {exotic.code: name for name, exotic in EXOTIC.items()}
_NAME_OF_DTYPE = {exotic.ml_name: name for name, exotic in EXOTIC.items()}
_PLAIN = {**NUMPY_TYPES, 8: "str", 14: "complex64", 15: "complex128"}


def numpy_dtype(code: int) -> np.dtype[Any] | None:
    """The numpy dtype for an ONNX element type, or None where there is none."""
    if code in _PLAIN:
        return np.dtype(_PLAIN[code])
    name = _NAME_OF_CODE.get(code)
    return None if name is None else _ml_dtype(name)


def exotic_name(dtype: np.dtype[Any]) -> str | None:
    """The ONNX name of a dtype that has to travel as raw bits."""
    return _NAME_OF_DTYPE.get(dtype.name)


def to_raw(array: Array) -> Array:
    """The bits of an exotic array, one unsigned integer an element."""
    return np.array(array, order="C").view(np.uint16 if array.itemsize == 2 else np.uint8)


def from_raw(raw: Array, name: str) -> Array:
    dtype = _ml_dtype(name)
    return raw if dtype is None else raw.view(dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    return str(dtype.name).startswith(("int", "uint"))


def is_float(dtype: np.dtype[Any]) -> bool:
    return str(dtype.name).startswith(("float", "bfloat"))


def is_complex(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "c"


def is_text(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "UO"


def type_name(dtype: np.dtype[Any]) -> str:
    return "string" if is_text(dtype) else dtype.name


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and largest value of an integer dtype, ml_dtypes' narrow ones included."""
    name = dtype.name
    bits = int(name.lstrip("uint"))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _ml_dtype(name: str) -> np.dtype[Any] | None:
    try:
        import ml_dtypes  # late: only models with these types need it, and older onnx does not bring it
    except ImportError:
        return None
    known = getattr(ml_dtypes, EXOTIC[name].ml_name, None)
    return None if known is None else np.dtype(known)
