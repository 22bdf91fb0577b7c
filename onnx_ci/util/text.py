"""Text for people: messages of others made fit for a report, shell quoting, did-you-mean, colours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import IO

TEMPORARY_SUFFIX = ".onnx-ci-tmp"  # of files on their way to their name
_LONGEST = 300
_READ = 2000  # patterns are not let loose on a hostile model's longest names
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FOLDER = re.compile(r"(?<![\w./])/(?:[^\s/:'\"]+/)+")
_SIGNATURE = re.compile(r"[\w.]+\.(?:h|cc|cpp|hpp):\d+ [^\n]*?\)(?: const)? (?:\[[^\]]*\] )?")


def clean(message: str) -> str:
    """The first line without codes, folders and C++ signatures. Names in it come from a stranger's model:
    nothing that a terminal or a CI log would act on stays."""
    line = next((line for line in message.splitlines() if line.strip()), "")
    line = "".join(c if c.isprintable() else "?" for c in line[:_READ].replace("\t", " "))
    line = _SIGNATURE.sub("", _FOLDER.sub("", _PREFIX.sub("", line))).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def shell_path(path: Path) -> str:
    """A file as a command would name it from here."""
    text = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return shell_word(option_free(text))


def option_free(text: str) -> str:
    return f"./{text}" if text.startswith("-") else text


def shell_word(text: str) -> str:
    """Quoted where a shell needs it. What can't be shown is written in bash's own way: $'a\\nb'; so is `##`,
    which a log would not show as it is, since CI services look for commands there."""
    if text.isprintable() and "##" not in text:
        import shlex

        return shlex.quote(text)
    return "$'" + "".join(map(_shell_escape, text)).replace("##", "#\\x23") + "'"


def _shell_escape(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def first_of(items: Sequence[str], most: int, *, separator: str = ", ", last: str = " and ") -> str:
    """The first few of many, and how many more there are."""
    text = separator.join(items[:most])
    more = len(items) - most
    return f"{text}{last}{more} more" if more > 0 else text


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like this one, or nothing when none is."""
    from difflib import get_close_matches

    close = get_close_matches(word[:60].lower(), list(known), n=1, cutoff=0.5)
    return close[0] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause to end a message with: the nearest word, or all of them."""
    words = list(known)
    close = nearest(word, words)
    return f"did you mean {close!r}?" if close else f"expected one of: {', '.join(words)}"


CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}

# GitHub reads `::error::` where a line begins and `##[error]` anywhere; Azure has `##vso[]`, and so on.
COMMANDS = re.compile(r"^\s*:(?=:)|##(?=\w*\[)")


class Style:
    """Paints words, or leaves them as they are."""

    def __init__(self, colour: bool = False) -> None:
        self.colour = colour

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
    printable = "".join(letter if letter.isprintable() else _escaped_letter(letter) for letter in text)
    return COMMANDS.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):02x}", printable)


def _escaped_letter(letter: str) -> str:
    """A byte of a name that is no text, which Python keeps as U+DC80 to U+DCFF, is shown as that byte."""
    byte = "\udc80" <= letter <= "\udcff"
    return f"\\x{ord(letter) - 0xDC00:02x}" if byte else ascii(letter)[1:-1]


def relative_name(path: Path, folder: Path) -> str:
    """A path below a folder as it is named from there, with `/`; any other as it is."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
