"""Reads and rewrites protobuf bytes without parsing them: finds tensors, swaps their payloads.

Only the messages on the way to a tensor are entered, and only where `wanted` says so; everything
else is passed through as it is, unknown fields included.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = 0, 1, 2, 3, 4, 5
MAX_DEPTH = 100  # protobuf's own limit; deeper is an attack or a bug


class WireError(ValueError):
    """The bytes are not well-formed protobuf."""


class Span(NamedTuple):
    """Bytes that stay on disk: where they are, not what they are."""

    source: int
    offset: int
    length: int


Piece = bytes | memoryview | Span
Buffer = bytes | memoryview


class Field(NamedTuple):
    """One field of a message: its number and wire type, where its tag starts, where its value is."""

    number: int
    kind: int
    tag: int
    start: int
    end: int


# Which fields of a message lead to tensors. A message without such fields is the tensor itself.
Message = dict[int, "Message"]

TENSOR: Message = {}
SPARSE: Message = {1: TENSOR, 2: TENSOR}
ATTRIBUTE: Message = {5: TENSOR, 10: TENSOR, 22: SPARSE, 23: SPARSE}
NODE: Message = {5: ATTRIBUTE}
GRAPH: Message = {1: NODE, 5: TENSOR, 15: SPARSE}
ATTRIBUTE.update({6: GRAPH, 11: GRAPH})
TRAINING: Message = {1: GRAPH, 2: GRAPH}
FUNCTION: Message = {7: NODE, 11: ATTRIBUTE}
MODEL: Message = {7: GRAPH, 20: TRAINING, 25: FUNCTION}


def read_varint(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    if at < end and buffer[at] < 0x80:
        return buffer[at], at + 1
    value = shift = 0
    while at < end:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise WireError(f"a number at byte {at} is longer than 64 bits")
    raise WireError(f"the data ends in the middle of a number at byte {at}")


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, kind: int = BYTES) -> bytes:
    return varint(number << 3 | kind)


def fields(buffer: Buffer, start: int, end: int, *, least: int = 0) -> Iterator[Field]:
    """The fields of the message between two offsets, in order; texts and messages shorter than `least` may
    be left out."""
    at = start
    while at < end:
        began = at
        key = buffer[at]
        if key < 0x80:  # as nearly all are: no call for each
            at += 1
        else:
            key, at = read_varint(buffer, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError(f"field number 0 at byte {began}")
        if kind == BYTES and at < end and buffer[at] <= end - at - 1 and buffer[at] < 0x80:
            value = at + 1  # short, as nearly all fields are
            at = value + buffer[at]
            if at - value >= least:
                yield Field(number, kind, began, value, at)
            continue
        value, at = _value_end(buffer, at, end, kind) if kind != GROUP else (at, _group_end(buffer, at, end))
        yield Field(number, kind, began, value, at)


def _value_end(buffer: Buffer, at: int, end: int, kind: int) -> tuple[int, int]:
    """Where a value starts and ends, past its length prefix if it has one."""
    start = at
    if kind == VARINT:
        _, stop = read_varint(buffer, at, end)
    elif kind == BYTES:
        length, start = read_varint(buffer, at, end)
        stop = start + length
    elif kind in (FIXED64, FIXED32):
        stop = at + (8 if kind == FIXED64 else 4)
    else:
        raise WireError(f"unknown wire type {kind} at byte {at}")
    if stop > end:
        raise WireError(
            f"a field at byte {at} claims {stop - start:,} bytes where {max(end - start, 0):,} are left"
        )
    return start, stop


def _group_end(buffer: Buffer, at: int, end: int) -> int:
    """Where a group ends. ONNX has none, but a field that is not ours to know may be one."""
    depth = 1
    while depth:
        key, at = read_varint(buffer, at, end)
        kind = key & 7
        if kind in (GROUP, GROUP_END):
            depth += 1 if kind == GROUP else -1
        else:
            _, at = _value_end(buffer, at, end, kind)
    return at


def length_of(pieces: list[Piece]) -> int:
    return sum(piece.length if isinstance(piece, Span) else len(piece) for piece in pieces)


Visit = Callable[[int, int], "list[Piece] | None"]
Wanted = Callable[[int, int], bool]


def rewrite(buffer: Buffer, *, wanted: Wanted, visit: Visit, least: int = 0) -> list[Piece]:
    """The model with each wanted tensor replaced by what `visit` makes of it (None: leave it). Nothing that
    is shorter than `least` is wanted."""

    def rewritten(start: int, end: int, message: Message, depth: int) -> list[Piece]:
        if depth > MAX_DEPTH:
            raise WireError(f"graphs are nested deeper than {MAX_DEPTH} levels")
        pieces: list[Piece] = []
        done = start
        for field in fields(buffer, start, end, least=least):
            child = message.get(field.number) if field.kind == BYTES else None
            if child is None or not wanted(field.start, field.end):
                continue
            if child is TENSOR:
                inner = visit(field.start, field.end)
            else:
                inner = rewritten(field.start, field.end, child, depth + 1)
            if inner is not None:
                pieces += [buffer[done : field.tag], tag(field.number) + varint(length_of(inner)), *inner]
                done = field.end
        pieces.append(buffer[done:end])
        return pieces

    return rewritten(0, len(buffer), MODEL, 0)


# Field numbers of TensorProto.
DATA_TYPE, FLOAT_DATA, RAW_DATA, DOUBLE_DATA, EXTERNAL_DATA, DATA_LOCATION = 2, 4, 9, 10, 13, 14
# A packed float_data or double_data field holds the very bytes that raw_data would.
SAME_AS_RAW = {FLOAT_DATA: 1, DOUBLE_DATA: 11}
EXTERNAL = 1


def strip(buffer: Buffer, *, key: str, source: int, large: int) -> bytes:
    """The skeleton: values of `large` bytes or more become marks that point into the file itself."""

    def visit(start: int, end: int) -> list[Piece] | None:
        parts = list(fields(buffer, start, end))
        values = _values_field(buffer, parts)
        if values is None or values.end - values.start < large:
            return None
        kept: list[Piece] = [buffer[part.tag : part.end] for part in parts if part.number != values.number]
        return [*kept, _mark(key, Span(source, values.start, values.end - values.start))]

    pieces = rewrite(buffer, wanted=lambda start, end: end - start >= large, visit=visit, least=large)
    return b"".join(piece for piece in pieces if not isinstance(piece, Span))


def _values_field(buffer: Buffer, parts: list[Field]) -> Field | None:
    """The one field that holds all values as plain bytes; None where it is not as simple as that."""
    numbers = {part.number for part in parts}
    if EXTERNAL_DATA in numbers:
        return None
    raw = [part for part in parts if part.number == RAW_DATA and part.kind == BYTES]
    if raw:
        return raw[-1]  # of a field that is given twice protobuf takes the last
    typed = [part for part in parts if part.number in SAME_AS_RAW]
    kinds = [read_varint(buffer, part.start, part.end)[0] for part in parts if part.number == DATA_TYPE]
    if len(typed) == 1 and typed[0].kind == BYTES and kinds[-1:] == [SAME_AS_RAW[typed[0].number]]:
        return typed[0]
    return None


def _text_field(number: int, value: bytes) -> bytes:
    return tag(number) + varint(len(value)) + value


def _mark(key: str, span: Span) -> bytes:
    entry = _text_field(1, key.encode()) + _text_field(2, " ".join(map(str, span)).encode())
    return _text_field(EXTERNAL_DATA, entry) + tag(DATA_LOCATION, 0) + varint(EXTERNAL)


def splice(skeleton: bytes, *, key: str) -> list[Piece]:
    """The whole model as pieces: bytes of the skeleton, and spans where values go back in."""
    marks = [match.start() for match in re.finditer(re.escape(key.encode()), skeleton)]

    def marked(start: int, end: int) -> bool:
        at = bisect_left(marks, start)
        return at < len(marks) and marks[at] < end

    def visit(start: int, end: int) -> list[Piece] | None:
        parts = list(fields(skeleton, start, end))
        span = next(filter(None, (_marked_span(skeleton, part, key.encode()) for part in parts)), None)
        if span is None:
            return None
        kept = [
            skeleton[part.tag : part.end]
            for part in parts
            if part.number not in (EXTERNAL_DATA, DATA_LOCATION)
        ]
        return [*kept, tag(RAW_DATA) + varint(span.length), span]

    return rewrite(skeleton, wanted=marked, visit=visit)


def _marked_span(buffer: bytes, part: Field, key: bytes) -> Span | None:
    if part.number != EXTERNAL_DATA:
        return None
    entry = {item.number: buffer[item.start : item.end] for item in fields(buffer, part.start, part.end)}
    return Span(*map(int, entry[2].split())) if entry.get(1) == key else None
