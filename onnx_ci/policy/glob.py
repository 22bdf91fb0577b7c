"""Gitignore-style patterns as regular expressions that never backtrack far, whatever the pattern.

A `*` is followed by the first place where the next piece fits, and by no other: a later place can
never help, as the next `*` reaches it too. Python 3.10 has no atomic groups, so the choice is made
final by a lookahead that captures it, `(?=(?P<g>…))(?P=g)`; the same is done for `**` over folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import count

LONGEST = 4096
_SPECIAL = "\\*?["
_TOKEN = re.compile(r"\*+|\\.|\[[!^]?(?:\\.|[^\\])(?:\\.|[^\]\\])*\]|[^*\\\[]", re.DOTALL)
_MEMBER = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|(\\.|[^\\])", re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """Whether a path (relative, with `/`) or a folder above it is what the pattern names."""
    return _compiled(pattern).match(path) is not None


def check_pattern(pattern: str) -> None:
    """Raise ValueError, with the reason, for a pattern that could never match what was meant."""
    if len(pattern) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} characters")
    if pattern.startswith("!"):
        raise ValueError(
            "can't be negated: give a later rule `ignore: true`, or write `\\!` for the character"
        )
    body = _body(pattern)[0]
    for segment in body.split("/"):
        if segment == "..":
            raise ValueError("leaves its folder with `..`: patterns stay below the policy file")
        if segment in ("", "."):
            raise ValueError("has an empty or `.` part between two `/`, so no path can match it")
        _pieces(segment)


def escape(path: str) -> str:
    """The pattern that matches this path and no other."""
    # Without a slash it would match in every folder; `!`, `~/` and `C:/` would mean something else.
    bare = "/" in path and path[0].isalnum() and path[1] != ":"
    return ("" if bare else "/") + "".join(_escaped(letter) for letter in path)


def _escaped(letter: str) -> str:
    if "\ud800" <= letter <= "\udfff":  # a byte that is no UTF-8 can't be written in YAML
        return "?"
    return "\\\\" if letter == "\\" else f"[{letter}]" if letter in _SPECIAL else letter


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    body, anchored, folders_only = _body(pattern)
    names = (f"g{n}" for n in count())
    segments = body.split("/") if anchored else ["**", *body.split("/")]
    *heads, last = _chunks(segments)
    regex = ""
    for number, chunk in enumerate(heads):
        text = "".join(_segment(segment, names) + "/" for segment in chunk)
        regex += _first(f"(?:[^/]+/)*?{text}", names) if number else text
    end = "/.+" if folders_only else "(?:/.*)?"
    if last:
        skip = "(?:[^/]+/)*?" if heads else ""
        regex += skip + "/".join(_segment(segment, names) for segment in last) + end
    else:  # a final `**`: everything inside
        regex += f"[^/]+{end}"
    return re.compile(regex + r"\Z", re.DOTALL)


def _body(pattern: str) -> tuple[str, bool, bool]:
    """The pattern without its outer slashes, whether it starts at the top, whether it names folders only."""
    body = pattern[1:] if pattern.startswith("./") else pattern
    folders_only = body.endswith("/")
    body = body[:-1] if folders_only else body
    return body.removeprefix("/"), "/" in body, folders_only


def _chunks(segments: list[str]) -> list[list[str]]:
    """The segments before, between and behind the `**`."""
    chunks: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            chunks.append([])
        else:
            chunks[-1].append(segment)
    return chunks


def _segment(segment: str, names: Iterator[str]) -> str:
    first, *rest = _pieces(segment)
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(_first(f"[^/]*?{piece}", names) for piece in middle) + f"[^/]*{last}"


def _first(regex: str, names: Iterator[str]) -> str:
    name = next(names)
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _pieces(segment: str) -> list[str]:
    """What stands before, between and behind the `*` of one path segment, each as a regex."""
    pieces, position = [""], 0
    while position < len(segment):
        token = _TOKEN.match(segment, position)
        if not token:
            raise ValueError(_unfinished(segment[position]))
        position = token.end()
        if token[0][0] == "*":
            pieces.append("")
        else:
            pieces[-1] += _one_letter(token[0])
    return pieces


def _one_letter(written: str) -> str:
    if written == "?":
        return "[^/]"
    if written[0] == "[":
        return _letter_class(written[1:-1])
    if len(written) == 2 and written[1].isalnum():
        raise ValueError("has a `\\` before a letter: folders are separated by `/`")
    return re.escape(written[-1])


def _letter_class(inside: str) -> str:
    if "[:" in inside:
        raise ValueError("has a named class such as [:alpha:], which is not supported: write [a-zA-Z]")
    negated = inside[0] in "!^"
    if negated and len(inside) == 1:
        raise ValueError(_unfinished("["))
    members = ""
    for low, high, single in _MEMBER.findall(inside[negated:]):
        if single:
            members += re.escape(single[-1])
        elif low[-1] <= high[-1]:  # like git: a range that runs backwards holds nothing
            members += f"{re.escape(low[-1])}-{re.escape(high[-1])}"
    if not members:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{members}]"


def _unfinished(letter: str) -> str:
    if letter == "[":
        return "has a `[` that is never closed: write `[[]` for the character itself"
    return "ends in a lone `\\`: write `\\\\` for the character itself"
