"""A text made of pieces, of which the least important are left out until it is short enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from onnx_ci.report.words import counted

RESERVE = 300  # bytes for the line that says what is missing


class Piece(str):
    """Some text with its rank; 0 is never left out."""

    rank: int

    def __new__(cls, text: str, rank: int = 0) -> Piece:
        piece = super().__new__(cls, text)
        piece.rank = rank
        return piece

    @property
    def length(self) -> int:
        """In bytes: some services count these, and no text has more characters than bytes."""
        return len(self.encode(errors="backslashreplace"))


def fitted(pieces: Sequence[Piece], limit: int, things: Mapping[int, str]) -> str:
    """In their order, as many as fit. The first that does not fit takes all that matter less with it;
    `things` is what pieces of each rank are called."""
    if sum(piece.length for piece in pieces) <= limit:
        return "".join(pieces)
    room = limit - RESERVE - sum(piece.length for piece in pieces if not piece.rank)
    kept: set[int] = set()
    for number in sorted(range(len(pieces)), key=lambda number: pieces[number].rank):
        if not pieces[number].rank:
            continue
        room -= pieces[number].length
        if room < 0:
            break
        kept.add(number)
    shown = [piece for number, piece in enumerate(pieces) if not piece.rank or number in kept]
    missing = Counter(p.rank for number, p in enumerate(pieces) if p.rank and number not in kept)
    told = ", ".join(counted(missing[rank], thing) for rank, thing in things.items() if missing[rank])
    return "".join([*shown, f"*Shortened: {told} left out; the JSON or HTML report has all.*\n"])
