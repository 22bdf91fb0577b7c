"""Gitignore-style patterns, matched folder by folder, in time that no pattern can make long.

Within one name, a `*` is followed by the first place where the next piece fits, and by no other: a later
place can never help, as the next `*` reaches it too. Python 3.10 has no atomic groups, so the choice is made
final by a lookahead that captures it, `(?=(?P<g>…))(?P=g)`.
"""

from __future__ import annotations

import re
from functools import cache

LONGEST = 4096
_SPECIAL = "\\*?["
_TOKEN = re.compile(r"\*+|\\.|\[[!^]?(?:\\.|[^\\])(?:\\.|[^\]\\])*\]|[^*\\\[]", re.DOTALL)
_MEMBER = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|(\\.|[^\\])", re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """Whether a path (relative, with `/`) or a folder above it is what the pattern names."""
    segments, folders_only = _compiled(pattern)
    names = path.split("/")
    depths = {0}  # how many names the segments so far may stand for
    for number, segment in enumerate(segments, 1):
        if segment is None:  # `**`: any folders; at the end everything inside
            least = min(depths) + (number == len(segments))
            depths = set(range(least, len(names) + 1))
        else:
            depths = {depth + 1 for depth in depths if depth < len(names) and segment.match(names[depth])}
        if not depths:
            return False
    return min(depths) < len(names) or not folders_only


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
def _compiled(pattern: str) -> tuple[list[re.Pattern[str] | None], bool]:
    """Each segment as a regex, None for `**`, and whether the pattern names folders only."""
    body, anchored, folders_only = _body(pattern)
    parts = body.split("/") if anchored else ["**", *body.split("/")]
    return [None if part == "**" else _segment(part) for part in parts], folders_only


def _body(pattern: str) -> tuple[str, bool, bool]:
    """The pattern without its outer slashes, whether it starts at the top, whether it names folders only."""
    body = pattern[1:] if pattern.startswith("./") else pattern
    folders_only = body.endswith("/")
    body = body[:-1] if folders_only else body
    return body.removeprefix("/"), "/" in body, folders_only


def _segment(segment: str) -> re.Pattern[str]:
    first, *middle = _pieces(segment)
    regex = first
    if middle:
        last = middle.pop()
        for number, piece in enumerate(middle):
            regex += f"(?=(?P<g{number}>.*?{piece}))(?P=g{number})"
        regex += f".*{last}"
    return re.compile(regex + r"\Z", re.DOTALL)


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
