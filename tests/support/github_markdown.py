"""Markdown through the parser that GitHub uses, and what GitHub looks for in the result."""

from __future__ import annotations

import re

import cmarkgfm
from cmarkgfm.cmark import Options

from tests.support.markup import Element, read

# What is looked for in finished text that is not code: people, issues, signs.
CALLS = re.compile(r"@[a-z0-9]|#[0-9]|\bGH-[0-9]|:\+1:", re.IGNORECASE)


def html(document: str) -> Element:
    """As strict as an HTML reader gets: raw tags are let through, so that one that breaks out is seen."""
    made = cmarkgfm.github_flavored_markdown_to_html(document, options=Options.CMARK_OPT_UNSAFE)
    return read(f"<html>{made.replace('<br />', '<br>')}</html>")


def shape(root: Element) -> list[tuple[str, tuple[str, ...]]]:
    return [(element.tag, tuple(sorted(element.attributes))) for element in root.all()]


def uncoded(element: Element) -> str:
    parts = (part if isinstance(part, str) else uncoded(part) for part in element.content)
    return "" if element.tag in ("code", "pre") else "".join(parts)
