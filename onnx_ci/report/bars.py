"""Bars: how much of a whole something is, with the number in words beside it for those who can't see it."""

from __future__ import annotations

from onnx_ci.report.markup import Markup, element
from onnx_ci.sizes import format_percent


def share_bar(share: float, words: str) -> Markup:
    """Widths are percentages, so that the bar is as wide as there is room."""
    return element(
        "svg",
        element("title", words),
        element("rect", class_="whole", width="100%", height="100%", rx=4),
        element("rect", class_="part", width=f"{100 * min(max(share, 0), 1):.2f}%", height="100%", rx=4),
        class_="bar",
        role="img",
        aria_label=words,
    )


def size_bar(before: int, after: int) -> Markup:
    """What is left of a size; where it grew, the bar is full."""
    share = after / before if before else 1.0
    return share_bar(share, f"{format_percent(share)} of the size before")
