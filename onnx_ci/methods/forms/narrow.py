"""Values that a smaller type holds exactly: `Cast` gives them back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.slices import BLOCK, Array
from onnx_ci.model.proto import TensorProto

BFLOAT16_OPSET = 13  # the first in which Cast knows bfloat16
# What each type may shrink to, smallest first; among equals what is most common in models.
INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "uint32")
SMALLER = {
    "float32": ("uint8", "int8", "float16", "int16", "uint16"),
    "float64": ("uint8", "int8", "float16", "int16", "uint16", "float32", "int32"),
    "float16": ("uint8", "int8"),
    **dict.fromkeys(("int32", "uint32"), INTEGERS[:4]),
    **dict.fromkeys(("int64", "uint64"), INTEGERS),
    **dict.fromkeys(("int16", "uint16"), INTEGERS[:2]),
}


@dataclass(frozen=True)
class Narrow:
    """`values` as they are stored; bfloat16 is stored as its bits."""

    values: Array
    data_type: int = 0  # where numpy's type does not say it

    @property
    def nbytes(self) -> int:
        return self.values.nbytes


def narrow(values: Array, *, opset: int) -> Narrow | None:
    """The smallest type that holds every value: -0.0 only as a float, NaN not at all.

    What becomes of the bits of a NaN differs between processors.
    """
    if values.dtype.kind == "f" and np.isnan(values).any():
        return None
    for name in SMALLER.get(values.dtype.name, ()):
        stored = _converted(values, np.dtype(name))
        if stored is not None:
            return Narrow(stored)
    return _bfloat16(values) if opset >= BFLOAT16_OPSET else None


def _converted(values: Array, dtype: np.dtype[np.generic]) -> Array | None:
    """The values in another type, or None as soon as one of them is not the same there."""
    out = np.empty(values.size, dtype)
    flat = values.reshape(-1)
    bits = flat.view(f"u{flat.itemsize}")
    # What does not fit becomes something else, which the comparison sees.
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, BLOCK):
            part = slice(start, start + BLOCK)
            out[part] = flat[part].astype(dtype)
            if not np.array_equal(out[part].astype(flat.dtype).view(bits.dtype), bits[part]):
                return None
    stored: Array = out.reshape(values.shape)
    return stored


def _bfloat16(values: Array) -> Narrow | None:
    """bfloat16 is the upper half of a float32."""
    if values.dtype != np.float32:
        return None
    bits = values.reshape(-1).view("u4")
    for start in range(0, bits.size, BLOCK):
        if (bits[start : start + BLOCK] & 0xFFFF).any():
            return None
    return Narrow((bits >> 16).astype(np.uint16).reshape(values.shape), TensorProto.BFLOAT16)
