"""How text looks on a terminal: colour only where a person sees it, one line for whatever a model says."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import IO

CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}

# GitHub reads `::error::` where a line begins and `##[error]` anywhere; Azure has `##vso[]`, and so on.
COMMANDS = re.compile(r"^\s*:(?=:)|##(?=\w*\[)")


@dataclass(frozen=True)
class Style:
    """Paints words, or leaves them as they are."""

    colour: bool = False

    @classmethod
    def of(cls, stream: IO[str]) -> Style:
        return cls(stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb")

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if self.colour and colour else text


def complaint(message: str, hint: str = "") -> str:
    """An error and the way out, line by line."""
    lines = [*message.rstrip("\n").split("\n"), *(f"  {line}" for line in hint.split("\n") if line)]
    return "\n".join(map(one_line, lines))


def one_line(text: str) -> str:
    """Names come from untrusted models: control characters would let them draw on the terminal, and what
    a CI service looks for in its logs would let them give it commands."""
    printable = "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)
    return COMMANDS.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):02x}", printable)


def _escaped(letter: str) -> str:
    """A byte of a name that is no text, which Python keeps as U+DC80 to U+DCFF, is shown as that byte."""
    byte = "\udc80" <= letter <= "\udcff"
    return f"\\x{ord(letter) - 0xDC00:02x}" if byte else ascii(letter)[1:-1]
