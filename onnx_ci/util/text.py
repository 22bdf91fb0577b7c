"""Text for people: messages of others made fit for a report, shell quoting, did-you-mean, colours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import IO

TEMPORARY_SUFFIX = ".onnx-ci-tmp"  # of files on their way to their name
_LONGEST = 300
_READ = 2000  # patterns are not let loose on a hostile model's longest names
# Compiled when there is something to clean: seldom.
_PREFIX = r"^\[ONNXRuntimeError\] : \d+ : \w+ : "
_FOLDER = r"(?<![\w./])/(?:[^\s/:'\"]+/)+"
_SIGNATURE = r"[\w.]+\.(?:h|cc|cpp|hpp):\d+ [^\n]*?\)(?: const)? (?:\[[^\]]*\] )?"


def clean(message: str) -> str:
    """The first line without codes, folders and C++ signatures. Names in it come from a stranger's model:
    nothing that a terminal or a CI log would act on stays."""
    line = next((line for line in message.splitlines() if line.strip()), "")
    line = "".join(c if c.isprintable() else "?" for c in line[:_READ].replace("\t", " "))
    line = re.sub(_SIGNATURE, "", re.sub(_FOLDER, "", re.sub(_PREFIX, "", line))).strip()
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
    """Paints words, or leaves them as they are; `width` is what a line may take, 0 where nobody minds."""

    def __init__(self, colour: bool = False, width: int = 0) -> None:
        self.colour = colour
        self.width = width

    @classmethod
    def of(cls, stream: IO[str]) -> Style:
        """As the stream bears it. `NO_COLOR` is stronger than `FORCE_COLOR`, as in Python itself."""
        there = stream.isatty()
        forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
        colour = forced or (there and os.environ.get("TERM") != "dumb")
        if os.environ.get("NO_COLOR"):
            colour = False
        if not there:
            return cls(colour)
        import shutil

        return cls(colour, shutil.get_terminal_size().columns)

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if self.colour and colour else text


def complaint(message: str, hint: str = "") -> str:
    """An error and the way out, line by line."""
    lines = [*message.rstrip("\n").split("\n"), *(f"  {line}" for line in hint.split("\n") if line)]
    return "\n".join(map(one_line, lines))


def one_line(text: str) -> str:
    """Names come from untrusted models: control characters would let them draw on the terminal, and what
    a CI service looks for in its logs would let them give it commands."""
    printable = text
    if not text.isprintable():
        printable = "".join(letter if letter.isprintable() else _escaped_letter(letter) for letter in text)
    return COMMANDS.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):02x}", printable)


def _escaped_letter(letter: str) -> str:
    """A byte of a name that is no text, which Python keeps as U+DC80 to U+DCFF, is shown as that byte."""
    byte = "\udc80" <= letter <= "\udcff"
    return f"\\x{ord(letter) - 0xDC00:02x}" if byte else ascii(letter)[1:-1]


def relative_name(path: Path, folder: Path) -> str:
    """A path below a folder as it is named from there, with `/`; any other as it is."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


_LEVELS, _LONGEST_PREFIX = 12, 200
_LEVEL = re.compile(r"[./]*[^./]+")
_NUMBER = re.compile(r"[_:.-]*[0-9]*$")
OTHERS = "(others)"


def layers_of(sizes: Mapping[str, int], most: int = 12) -> dict[str, str]:
    """The layer of each name: what names that belong together begin with. A group that has more than a
    quarter of all bytes is split while there are at most so many, which suits deep models and flat ones."""
    levels = {name: _levels(name) for name in sizes}
    groups: dict[str, tuple[int, list[str]]] = {"": (0, list(sizes))}  # with how deep each is
    total = sum(sizes.values())
    settled: set[str] = set()
    while waiting := [group for group in groups if group not in settled]:
        weights = {group: sum(sizes[name] for name in groups[group][1]) for group in waiting}
        group = max(waiting, key=lambda group: weights[group])
        depth, names = groups[group]
        parts: dict[str, list[str]] = {}
        for name in names:
            parts.setdefault("".join(levels[name][: depth + 1]), []).append(name)
        settled.add(group)
        room = most + 1 - len(groups)
        if len(parts) > room and weights[group] * 2 > total:  # the largest parts; the rest stays together
            rest = parts.pop(group, [])
            by_size = sorted(parts, key=lambda part: -sum(sizes[name] for name in parts[part]))
            rest += [name for part in by_size[max(room, 1) - 1 :] for name in parts.pop(part)]
            parts[group] = rest
        if len(parts) == 1 or (len(parts) <= room and weights[group] * 4 > total) or not depth:
            del groups[group]
            groups.update({part: (depth + 1, members) for part, members in parts.items()})
            if group not in parts:
                settled.discard(group)
    return {name: group or OTHERS for group, (_, names) in groups.items() for name in names}


def _levels(name: str) -> list[str]:
    """The parts of a name but the last, which is a tensor of a layer; of a plain name all but its number."""
    parts: list[str] = _LEVEL.findall(name[:_LONGEST_PREFIX])[:_LEVELS]
    return parts[:-1] if len(parts) > 1 else [_NUMBER.sub("", "".join(parts))]


def bar(share: float, width: int = 12) -> str:
    """A bar of plain characters: every log and terminal shows them."""
    return "#" * round(width * min(max(share, 0.0), 1.0))


def clipped_start(text: str, most: int) -> str:
    """The end of a text that is too long: that is where names differ."""
    return text if len(text) <= most else f"..{text[2 - most :]}"
