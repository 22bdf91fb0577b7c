"""Element types of ONNX by their numbers in the standard: numpy's name, and the bits an element takes.

Apart from `proto`, since a worker with packages of its own may have no onnx.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

BITS = {
    **dict.fromkeys((2, 3, 9, 17, 18, 19, 20, 24), 8),  # uint8 int8 bool float8…
    **dict.fromkeys((4, 5, 10, 16), 16),  # uint16 int16 float16 bfloat16
    **dict.fromkeys((1, 6, 12), 32),  # float int32 uint32
    **dict.fromkeys((7, 11, 13, 14), 64),  # int64 double uint64 complex64
    15: 128,  # complex128
    **dict.fromkeys((21, 22, 23), 4),  # uint4 int4 float4e2m1
    **dict.fromkeys((25, 26), 2),  # uint2 int2
}
# Those whose elements are stored one by one, as numpy stores them.
NUMPY_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}


def stored_bytes(data_type: int, dims: Sequence[int]) -> int | None:
    """The length of `raw_data` for this type and shape; None for types without one (strings, newer types)."""
    bits = BITS.get(data_type)
    return None if bits is None else (math.prod(dims) * bits + 7) // 8
