"""Protobuf's wire format by hand, for files that no protobuf library would write."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, GROUP_START, GROUP_END, FIXED32 = range(6)

# Field numbers of onnx.proto
MODEL_IR, MODEL_GRAPH, MODEL_OPSET = 1, 7, 8
GRAPH_NODE, GRAPH_NAME, GRAPH_INITIALIZER, GRAPH_INPUT, GRAPH_OUTPUT = 1, 2, 5, 11, 12
NODE_INPUT, NODE_OUTPUT, NODE_OP, NODE_ATTRIBUTE = 1, 2, 4, 5
ATTRIBUTE_NAME, ATTRIBUTE_GRAPH, ATTRIBUTE_TYPE = 1, 6, 20
TENSOR_DIMS, TENSOR_TYPE, TENSOR_FLOATS, TENSOR_NAME, TENSOR_RAW = 1, 2, 4, 8, 9


def varint(value: int, *, width: int = 1) -> bytes:
    """At least `width` bytes: a longer form of the same number is legal."""
    out = bytearray()
    value &= 2**64 - 1
    while value > 0x7F or len(out) < width - 1:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value)


def block(field: int, content: bytes | str, *, width: int = 1) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return tag(field, LENGTH) + varint(len(data), width=width) + data


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each field of a message that holds only varints and blocks: its number and its bytes, tag included."""
    at = 0
    while at < len(data):
        start = at
        key, at = _read_varint(data, at)
        size, at = _read_varint(data, at)
        if key & 7 == LENGTH:
            at += size
        yield key >> 3, data[start:at]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
