"""Text for Markdown: what comes from a model or a file name is shown as it is and does nothing."""

from __future__ import annotations

import re

from onnx_ci.report.style import one_line
from onnx_ci.report.words import clipped

# What can begin markup, a table cell, an autolink or a formula. It becomes a character reference, which means
# the same in Markdown and in the HTML within it.
_MARKUP = r"[&<>`*_~|\\\[\]$]|:(?=//)|(?<=www)\."
# People, issues, addresses and signs like :+1: are looked for in the finished text: only another character
# keeps them apart.
_CALLS = r"[@#]|(?<![a-z0-9])gh-|:(?=[a-z0-9_+-]+:)"
_SPECIAL = re.compile(f"(?P<markup>{_MARKUP})|{_CALLS}", re.IGNORECASE)
_APART = "&#8203;"  # a space of no width


def prose(text: str) -> str:
    """One line of running text, to stand after something else: never at the beginning of a line."""
    return _SPECIAL.sub(_harmless, clipped(one_line(text)))


def name(text: str) -> str:
    """A name within running text or a table."""
    return f"<code>{prose(text)}</code>"


def code(text: str) -> str:
    """To be copied as it is: a code span, which holds no markup. Not for tables: a bar ends their cells."""
    shown = clipped(one_line(text))
    fence = "`" * (_longest_run(shown) + 1)
    return f"{fence} {shown} {fence}" if "`" in shown else f"`{shown}`"


def block(text: str) -> str:
    """Lines to be shown as they are, one below the other."""
    lines = "\n".join(map(one_line, text.rstrip("\n").split("\n")))
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}text\n{lines}\n{fence}\n"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _harmless(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};" if found["markup"] else f"{found[0]}{_APART}"
