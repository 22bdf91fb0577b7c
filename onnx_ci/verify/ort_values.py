"""Between onnxruntime's values and plain arrays, for the types that numpy lacks and for nested outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from onnx_ci.verify.dtypes import EXOTIC, Array
from onnx_ci.verify.exchange import Raw


def run(
    ort: Any, session: Any, feeds: Mapping[str, Any], spare: Collection[str] = ()
) -> dict[str, Array | Raw]:
    """One inference; `ort` is handed in because only the worker may import onnxruntime.

    Of two models that are fed alike, one may lack `spare` inputs: constants that were taken out of the other.
    """
    known = {value.name for value in session.get_inputs()}
    feeds = {name: value for name, value in feeds.items() if name in known or name not in spare}
    names = [output.name for output in session.get_outputs()]
    if _is_plain(session):
        values = session.run(None, feeds)
        return dict(item for name, value in zip(names, values, strict=True) for item in flat(name, value))
    fed = {name: _to_ort(ort, value) for name, value in feeds.items()}
    results = session.run_with_ort_values(None, fed)
    return {name: _from_ort(value) for name, value in zip(names, results, strict=True)}


def flat(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """A sequence becomes name[0], name[1]…, a map its keys and its values, nothing no entry at all."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, list):
        yield f"{name}.length", np.array(len(value))
        if value and all(isinstance(item, dict) for item in value):
            yield from _maps(name, value)
        else:
            for index, item in enumerate(value):
                yield from flat(f"{name}[{index}]", item)
    elif isinstance(value, dict):
        yield f"{name}.keys", np.array(list(value))
        yield f"{name}.values", np.array(list(value.values()))
    elif value is not None:
        yield name, np.asarray(value)


def _maps(name: str, rows: list[dict[Any, Any]]) -> Iterator[tuple[str, Array]]:
    """ZipMap gives one map a row, all with the same keys: one array of each is easier to compare."""
    if all(row.keys() == rows[0].keys() for row in rows):
        yield f"{name}.keys", np.array(list(rows[0]))
        yield f"{name}.values", np.array([list(row.values()) for row in rows])
        return
    for index, row in enumerate(rows):
        yield from flat(f"{name}[{index}]", row)


def _is_plain(session: Any) -> bool:
    types = [value.type for value in [*session.get_inputs(), *session.get_outputs()]]
    return not any(_exotic(kind) for kind in types)


def _exotic(kind: str) -> str | None:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return name if name in EXOTIC else None


def _to_ort(ort: Any, value: Array | Raw) -> Any:
    if not isinstance(value, Raw):
        return ort.OrtValue.ortvalue_from_numpy(np.array(value, order="C"))
    made = ort.OrtValue.ortvalue_from_shape_and_type(list(value.bits.shape), EXOTIC[value.name].code)
    packed = _pack(value.bits, EXOTIC[value.name].bits).tobytes()
    ctypes.memmove(made.data_ptr(), packed, len(packed))
    return made


def _from_ort(value: Any) -> Array | Raw:
    name = _exotic(value.data_type())
    if name is None:
        return np.asarray(value.numpy())
    shape, bits = tuple(value.shape()), EXOTIC[name].bits
    count = int(np.prod(shape, dtype=np.int64))
    data = np.frombuffer(ctypes.string_at(value.data_ptr(), (count * bits + 7) // 8), np.uint8)
    return Raw(_unpack(data, bits, count).reshape(shape), name)


def _pack(bits: Array, width: int) -> Array:
    """Elements of less than a byte share bytes, the first in the lowest bits."""
    if width >= 8:
        return bits
    per_byte = 8 // width
    padded = np.zeros((bits.size + per_byte - 1) // per_byte * per_byte, np.uint8)
    padded[: bits.size] = bits.reshape(-1) & (2**width - 1)
    columns = padded.reshape(-1, per_byte)
    packed: Array = np.bitwise_or.reduce([columns[:, i] << (width * i) for i in range(per_byte)])
    return packed


def _unpack(data: Array, width: int, count: int) -> Array:
    if width >= 8:
        return data.view(np.uint16 if width == 16 else np.uint8)
    per_byte = 8 // width
    columns = np.stack([(data >> (width * i)) & (2**width - 1) for i in range(per_byte)], axis=1)
    return columns.reshape(-1)[:count]
