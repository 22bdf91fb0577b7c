"""Codes of 2 to 7 bits, stored without a bit wasted: in planes of 4, 2 and 1 bits that tables put together.

A byte holds bits of two codes in the plane of 4 bits, of four in that of 2, of eight in that of 1. A table
with 256 rows gives for each byte what its bits are worth; the planes' values add up to the codes.
"""

from __future__ import annotations

import numpy as np

from onnx_ci.methods.decoder import Decoder
from onnx_ci.methods.slices import Array
from onnx_ci.methods.table_levels import levels_of
from onnx_ci.model.proto import TensorProto


def planes(bits: int) -> list[tuple[int, int]]:
    """The planes of a code as (bits, shift), the lowest first."""
    found, shift = [], 0
    for width in (4, 2, 1):
        if bits & width:
            found.append((width, shift))
            shift += width
    return found


def split(codes: Array, bits: int) -> list[Array]:
    """One array of bytes a plane; the length of codes is a multiple of eight."""
    flat = codes.reshape(-1)
    return [
        _plane((flat >> np.uint8(shift)) & np.uint8((1 << width) - 1), width) for width, shift in planes(bits)
    ]


def _plane(values: Array, width: int) -> Array:
    rows = values.reshape(-1, 8 // width)
    out = np.zeros(len(rows), np.uint8)
    for position in range(8 // width):
        out |= rows[:, position] << np.uint8(width * position)
    return out


def plane_table(width: int, shift: int) -> Array:
    """What a byte of a plane adds to each of its codes."""
    byte = np.arange(256, dtype=np.int32)
    columns = [((byte >> (width * at)) & ((1 << width) - 1)) << shift for at in range(8 // width)]
    return np.stack(columns, axis=1)


def rebuilt(decoder: Decoder, codes: Array, bits: int, block: int) -> str:
    """The nodes that put planes together to codes, and look these up: blocks of levels."""
    store, table = decoder.encoder.store, decoder.encoder.table
    shape = store("blocks", np.array([-1, block], np.int64))
    total = ""
    for (width, shift), stored in zip(planes(bits), split(codes, bits), strict=True):
        index = decoder.cast(store(f"q{width}", stored), f"index{width}", TensorProto.INT32)
        part = decoder.node("Gather", [table(f"bits{width}_{shift}", plane_table(width, shift)), index])
        part = decoder.node("Reshape", [part, shape])
        total = decoder.node("Add", [total, part]) if total else part
    return decoder.node("Gather", [table(f"int{bits}_levels", levels_of(bits)), total])
