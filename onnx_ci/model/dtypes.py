"""How many bits an element of each ONNX tensor type takes, by its number in the standard."""

from __future__ import annotations

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


def stored_bytes(data_type: int, dims: Sequence[int]) -> int | None:
    """The length of `raw_data` for this type and shape; None for types without one (strings, newer types)."""
    bits = BITS.get(data_type)
    if bits is None:
        return None
    count = 1
    for dim in dims:
        count *= dim
    return (count * bits + 7) // 8
