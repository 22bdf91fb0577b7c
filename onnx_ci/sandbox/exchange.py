"""Arrays on their way to the worker and back: samples as one file in a folder, never pickle; and element
types, with raw views of those that numpy lacks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_ci.model.dtypes import NUMPY_TYPES

if TYPE_CHECKING:  # numpy is loaded late: a run that knows all outcomes needs no numbers
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

_MAP = 1 << 20  # from this many bytes on, a file is mapped rather than read
_MANIFEST, _VALUES = "manifest.json", "values"
_ALIGNED = 64  # bytes
ENOUGH = 1 << 19  # numbers of an output that tell how far it moved, where that is only to be estimated


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
_NUMPY_NAMES = {**NUMPY_TYPES, 8: "str", 14: "complex64", 15: "complex128"}


def numpy_dtype(code: int) -> np.dtype[Any] | None:
    """The numpy dtype for an ONNX element type, or None where there is none."""
    import numpy as np

    if code in _NUMPY_NAMES:
        return np.dtype(_NUMPY_NAMES[code])
    name = _NAME_OF_CODE.get(code)
    return None if name is None else _ml_dtype(name)


def exotic_name(dtype: np.dtype[Any]) -> str | None:
    """The ONNX name of a dtype that has to travel as raw bits."""
    return _NAME_OF_DTYPE.get(dtype.name)


def to_raw(array: Array) -> Array:
    """The bits of an exotic array, one unsigned integer an element."""
    import numpy as np

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
    import numpy as np

    try:
        import ml_dtypes  # late: only models with these types need it, and older onnx does not bring it
    except ImportError:
        return None
    known = getattr(ml_dtypes, EXOTIC[name].ml_name, None)
    return None if known is None else np.dtype(known)


def thinned(array: Array, whole_axes: Collection[int] = ()) -> Array:
    """Take every so-many-th part of a large array along its longest axes, but for those that stay whole."""
    kept = {axis % array.ndim for axis in whole_axes if -array.ndim <= axis < array.ndim}
    for axis in sorted(set(range(array.ndim)) - kept, key=lambda axis: -array.shape[axis]):
        if array.size <= ENOUGH:
            break
        step = min(array.shape[axis], -(-array.size // ENOUGH))
        array = array[(slice(None),) * axis + (slice(None, None, step),)]
    return array


class Raw(NamedTuple):
    """The bits of an array whose type numpy lacks: all that the worker needs to know of it."""

    bits: Array
    name: str


# A tensor, its bits, a sequence of tensors, a map from keys to numbers, or nothing.
Value = Array | Raw | Sequence[Any] | Mapping[Any, Any] | None


def write_samples(folder: Path, samples: Sequence[Mapping[str, Value]]) -> None:
    """Write all arrays one after the other into one file, and where each begins into another."""
    import numpy as np

    def describe(value: Value) -> Any:
        if value is None:
            return None
        if isinstance(value, np.ndarray | Raw):
            return save(value)
        if isinstance(value, Mapping):
            return {"keys": save(np.array(list(value))), "values": save(np.array([*value.values()]))}
        return {"items": [describe(item) for item in value]}

    def save(value: Array | Raw) -> dict[str, Any]:
        bits, name = value if isinstance(value, Raw) else _plain(value)
        file.write(bytes(-file.tell() % _ALIGNED))
        entry = {"at": file.tell(), "dtype": bits.dtype.str, "shape": bits.shape, "type": name}
        file.write(np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data)
        return entry

    folder.mkdir()
    with (folder / _VALUES).open("wb") as file:
        manifest = [[[name, describe(value)] for name, value in sample.items()] for sample in samples]
    (folder / _MANIFEST).write_text(json.dumps(manifest), encoding="ascii")


def read_samples(folder: Path, *, raw: bool = False) -> list[dict[str, Any]]:
    """The samples with arrays of any type; where they are large, the file is mapped, and on POSIX they
    outlive it.

    Where they are wanted `raw`, exotic types stay bits, so that ml_dtypes is not needed.
    """
    import numpy as np

    path = folder / _VALUES
    if path.stat().st_size >= _MAP:
        held: Any = np.memmap(path, mode="r").view(np.ndarray)
    else:
        held = bytearray(path.read_bytes())
    manifest = json.loads((folder / _MANIFEST).read_text(encoding="ascii"))
    return [{name: _load(held, entry, raw=raw) for name, entry in sample} for sample in manifest]


def _plain(array: Array) -> tuple[Array, str]:
    """What can be stored of an array, and the name of its type where numpy lacks that."""
    import numpy as np

    name = exotic_name(array.dtype)
    if name is not None:
        return to_raw(array), name
    return (array.astype(np.str_) if is_text(array.dtype) else array), ""


def _load(held: Any, entry: Any, *, raw: bool) -> Any:
    if entry is None:
        return None
    if "items" in entry:
        return [_load(held, item, raw=raw) for item in entry["items"]]
    if "keys" in entry:
        keys, values = (_load(held, entry[part], raw=raw) for part in ("keys", "values"))
        return dict(zip(keys.tolist(), values.tolist(), strict=True))
    import numpy as np

    dtype = np.dtype(entry["dtype"])
    if dtype.hasobject:  # whose bytes are addresses
        raise ValueError("an array of objects can't be exchanged")
    array: Array = np.ndarray(entry["shape"], dtype, held, entry["at"])
    if not entry["type"]:
        return array
    return Raw(array, entry["type"]) if raw else from_raw(array, entry["type"])
