"""Size against error, as SVG: every mix of forms that was tried, and which one was taken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from onnx_ci.report.markup import Markup, element, table
from onnx_ci.report.scale import Scale
from onnx_ci.results import Point
from onnx_ci.sizes import SIZE_UNITS, format_size

HEIGHT = 240  # pixels of the plot; its width is what there is, so that text is never scaled
QUIET, LOUD = -120.0, 20.0  # dB of noise: beyond these a point stands at the edge
SHAPES = {
    "holds": Markup('<circle r="4"></circle>'),
    "fails": Markup('<path d="M-4-4L4 4M-4 4L4-4"></path>'),
    "chosen": Markup('<path d="M0-8L8 0L0 8L-8 0Z"></path><circle r="2"></circle>'),
}
CAPTION = (
    "Lower is closer to the original, further left is smaller."
    " The dotted line joins the points that no other beats in both."
)
MEANINGS = {"holds": "within tolerance", "fails": "outside tolerance", "chosen": "taken"}


def curve(points: Sequence[Point]) -> Markup:
    """The figure with its legend and, folded away, its numbers. Nothing where there is nothing to compare."""
    points = [point for point in points if math.isfinite(point.sqnr)]
    if len({(point.size, point.sqnr) for point in points}) < 2:
        return Markup()
    kinds = [kind for kind in SHAPES if any(_kind(point) == kind for point in points)]
    return element(
        "figure",
        element("figcaption", CAPTION),
        element("div", _plot(points), class_="chart"),
        element("div", *map(_legend, kinds), class_="legend"),
        element("details", element("summary", f"the {len(points)} points in numbers"), _numbers(points)),
    )


def _kind(point: Point) -> str:
    return "chosen" if point.chosen else "holds" if point.holds else "fails"


def _noise(point: Point) -> float:
    return min(max(-point.sqnr, QUIET), LOUD)


def _plot(points: Sequence[Point]) -> Markup:
    across = Scale.over([point.size for point in points], steps=4, unit=_unit(points))
    upward = Scale.over([_noise(point) for point in points], steps=4, unit=1)
    # The chosen point is drawn last, so that no other hides it.
    drawn = sorted(points, key=lambda point: point.chosen)
    return element(
        "svg",
        *_horizontal(upward),
        *_vertical(across),
        *_best(points, across, upward),
        *(_mark(point, across, upward) for point in drawn),
        class_="curve",
        role="img",
        aria_label=_summary(points),
    )


def _unit(points: Sequence[Point]) -> int:
    largest = max(point.size for point in points)
    return max(factor for factor in (1, 10**3, 10**6, 10**9, 10**12) if factor <= max(largest, 1))


def _x(scale: Scale, value: float) -> str:
    return f"{100 * scale.place(value):.2f}%"


def _y(scale: Scale, value: float) -> str:
    return f"{HEIGHT * (1 - scale.place(value)):.1f}"


def _horizontal(scale: Scale) -> Iterator[Markup]:
    yield element("text", "noise, dB relative to the signal", x=-44, y=-14)
    for value in scale.ticks:
        height = _y(scale, value)
        yield element("line", class_="grid", x1=0, x2="100%", y1=height, y2=height)
        yield element("text", f"{value:g}", x=-8, y=height, dy=".32em", text_anchor="end")


def _vertical(scale: Scale) -> Iterator[Markup]:
    unit = next(name for name, factor in SIZE_UNITS.items() if factor == scale.unit)
    for value in scale.ticks:
        place = _x(scale, value)
        yield element("line", class_="grid", x1=place, x2=place, y1=HEIGHT, y2=HEIGHT + 4)
        yield element("text", f"{value / scale.unit:g}", x=place, y=HEIGHT + 18, text_anchor="middle")
    yield element("text", f"size, {unit}", x="100%", y=HEIGHT + 36, text_anchor="end")


def _best(points: Sequence[Point], across: Scale, upward: Scale) -> Iterator[Markup]:
    """A line along the points that no other beats in both size and error."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.size, _noise(point))):
        if not front or _noise(point) < _noise(front[-1]):
            front.append(point)
    for one, next_one in pairwise(front):
        yield element(
            "line",
            class_="best",
            x1=_x(across, one.size),
            y1=_y(upward, _noise(one)),
            x2=_x(across, next_one.size),
            y2=_y(upward, _noise(next_one)),
        )


def _mark(point: Point, across: Scale, upward: Scale) -> Markup:
    kind = _kind(point)
    numbers = f"{format_size(point.size)}, {point.sqnr:.1f} dB, cosine {point.cosine:.6f}: {MEANINGS[kind]}"
    return element(
        "svg",
        element("title", numbers),
        SHAPES[kind],
        element("circle", class_="hit", r=9),
        class_=f"point {kind}",
        x=_x(across, point.size),
        y=_y(upward, _noise(point)),
    )


def _legend(kind: str) -> Markup:
    shape = element("svg", SHAPES[kind], viewBox="-9 -9 18 18", class_=f"point {kind}", aria_hidden="true")
    return element("span", shape, MEANINGS[kind])


def _summary(points: Sequence[Point]) -> str:
    held = sum(point.holds for point in points)
    sizes = [point.size for point in points]
    taken = [f"; taken: {format_size(p.size)} at {p.sqnr:.1f} dB" for p in points if p.chosen]
    ends = f"from {format_size(min(sizes))} to {format_size(max(sizes))}"
    return f"{len(points)} points {ends}, {held} within tolerance{''.join(taken[:1])}"


def _numbers(points: Sequence[Point]) -> Markup:
    rows = [
        (format_size(p.size), f"{-p.sqnr:.1f} dB", f"{p.cosine:.6f}", MEANINGS[_kind(p)])
        for p in sorted(points, key=lambda p: (p.size, -p.sqnr))
    ]
    return table("sizes are estimates", ("size", "noise", "cosine", "verdict"), rows, numbers="noise,cosine")
