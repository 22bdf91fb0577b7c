"""Takes large tensor values out of a model's bytes, and puts them back in.

`strip` leaves a mark (an external-data entry under the store's random key) where values were;
`splice` turns each mark back into `raw_data`. Neither looks at anything but the tensors it changes.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from onnx_ci.model.wire import (
    BYTES,
    Buffer,
    Field,
    Piece,
    Span,
    WireError,
    fields,
    length_of,
    read_varint,
    rewrite,
    tag,
    varint,
)

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

    pieces = rewrite(buffer, wanted=lambda start, end: end - start >= large, visit=visit)
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


__all__ = ["WireError", "length_of", "splice", "strip"]
