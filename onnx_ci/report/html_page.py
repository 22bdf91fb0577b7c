"""What an HTML report is made of: escaped markup, tables, the page, and the curve of size against error."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib import resources
from itertools import pairwise

from onnx_ci.results import SPREAD, Point, ValueSpread
from onnx_ci.util.sizes import SIZE_UNITS, format_percent, format_size, size_unit
from onnx_ci.util.text import one_line
from onnx_ci.version import __version__

VOID = frozenset({"br", "meta"})
NUMBERS = "number"  # the class of columns that hold numbers


class Markup(str):
    """Text that is HTML already. Joining or formatting one gives plain text again, which is then escaped."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Control characters are spelled out: a browser would drop some and let others turn text around."""
    return Markup(escape(one_line(value)))


def join(parts: Iterable[str]) -> Markup:
    return Markup("".join(part if isinstance(part, Markup) else text(part) for part in parts))


def element(name: str, /, *children: str, **attributes: str | int | bool) -> Markup:
    """`class_` is written as `class`, `data_label` as `data-label`; True stands alone, False is left out."""
    opened = name + "".join(_attribute(key, value) for key, value in attributes.items() if value is not False)
    return Markup(f"<{opened}>" if name in VOID else f"<{opened}>{join(children)}</{name}>")


def _attribute(key: str, value: str | int | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: str = "") -> Markup:
    """The first cell of a row is its header; columns with nothing in them are left out. `numbers` are those
    to align at the right. On a narrow screen rows are shown as cards, with the column's name before each
    cell; the roles keep it a table there."""
    rows = list(rows)
    filled = [index for index in range(len(columns)) if not index or any(row[index] for row in rows)]
    classes = dict.fromkeys(numbers.split(","), NUMBERS)
    shown = [(columns[index], classes.get(columns[index], False)) for index in filled]
    head = [element("th", name, scope="col", role="columnheader", class_=kind) for name, kind in shown]
    body = [_row([row[index] for index in filled], shown) for row in rows]
    return element(
        "table",
        element("caption", caption) if caption else "",
        element("thead", element("tr", *head, role="row"), role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
        role="table",
    )


def number(value: float, words: str) -> Markup:
    """A number in words, that a table can be sorted by."""
    return element("data", words, value=f"{value:g}" if isinstance(value, float) else value)


def sized(size: int | None) -> str:
    return "" if size is None else number(size, format_size(size))


def _row(cells: Sequence[str], columns: Sequence[tuple[str, str | bool]]) -> Markup:
    first = element("th", cells[0], scope="row", role="rowheader")
    rest = [
        element("td", element("span", cell), role="cell", data_label=name, class_=kind)
        for cell, (name, kind) in zip(cells[1:], columns[1:], strict=True)
    ]
    return element("tr", first, *rest, role="row")


def part(name: str) -> str:
    """Return report.css or report.js, which stand in the page itself."""
    return resources.files("onnx_ci.report").joinpath(name).read_text(encoding="utf-8")


def security_policy(style: str, script: str) -> str:
    """The browser is told to hold us to it: no request, and nothing but our own style and script."""
    allowed = [f"'sha256-{b64encode(sha256(each.encode()).digest()).decode()}'" for each in (style, script)]
    sources = "style-src {}; script-src {}".format(*allowed)
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def page(title: str, *content: str, about: str = "") -> str:
    """`about` is what the report is of, at its foot."""
    style, script = part("report.css"), part("report.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=security_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    foot = element("footer", about or f"onnx-ci {__version__}")
    body = element("body", element("main", *content), foot, element("script", Markup(script)))
    return join([Markup("<!doctype html>\n"), element("html", head, body, lang="en"), Markup("\n")])


def figures(*pairs: tuple[str, str]) -> Markup:
    """The few numbers that matter, large."""
    return element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in pairs if value),
        class_="figures",
    )


def badge(word: str, kind: str) -> Markup:
    """`kind` is good, warn, bad or dim; its sign says the same without colour."""
    sign = element("span", {"good": "✓", "warn": "!", "bad": "✕"}.get(kind, "–"), aria_hidden="true")  # noqa: RUF001
    return element("span", sign, " ", word, class_=f"badge {kind}")


@dataclass(frozen=True)
class Scale:
    """`unit` is what a labelled value is counted in; ticks are round in it."""

    low: float
    high: float
    step: float
    unit: float

    @classmethod
    def over(cls, values: Sequence[float], *, steps: int = 4, unit: float = 1) -> Scale:
        """From the round value below all of them to the one above."""
        low, high = min(values), max(values)
        step = _round_step((high - low) / unit / steps) * unit
        return cls(math.floor(low / step) * step, math.ceil(high / step) * step, step, unit)

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    @property
    def ticks(self) -> Iterator[float]:
        for number in range(round((self.high - self.low) / self.step) + 1):
            yield round((self.low + number * self.step) / self.unit, 9) * self.unit


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)


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
    sizes = [point.size for point in points]
    unit = size_unit(max(sizes))
    across = Scale.over(sizes, unit=SIZE_UNITS[unit])
    upward = Scale.over([_noise(point) for point in points])
    places = {point: (_x(across, point.size), _y(upward, _noise(point))) for point in points}
    corners = [(*places[point], *places[following]) for point, following in pairwise(_best(points))]
    # The chosen point is drawn last, so that no other hides it.
    in_order = sorted(points, key=lambda point: point.chosen)
    return element(
        "svg",
        *_horizontal(upward),
        *_vertical(across, unit),
        *(element("line", class_="best", x1=x1, y1=y1, x2=x2, y2=y2) for x1, y1, x2, y2 in corners),
        *(_mark(point, *places[point]) for point in in_order),
        class_="curve",
        role="img",
        aria_label=_summary(points),
    )


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


def _vertical(scale: Scale, unit: str) -> Iterator[Markup]:
    for value in scale.ticks:
        place = _x(scale, value)
        yield element("line", class_="grid", x1=place, x2=place, y1=HEIGHT, y2=HEIGHT + 4)
        yield element("text", f"{value / scale.unit:g}", x=place, y=HEIGHT + 18, text_anchor="middle")
    yield element("text", f"size, {unit}", x="100%", y=HEIGHT + 36, text_anchor="end")


def _best(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both size and error, by size."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.size, _noise(point))):
        if not front or _noise(point) < _noise(front[-1]):
            front.append(point)
    return front


def _mark(point: Point, x: str, y: str) -> Markup:
    kind = _kind(point)
    numbers = f"{format_size(point.size)}, {point.sqnr:.1f} dB, cosine {point.cosine:.6f}: {MEANINGS[kind]}"
    shape = [element("title", numbers), SHAPES[kind], element("circle", class_="hit", r=9)]
    return element("svg", *shape, class_=f"point {kind}", x=x, y=y)


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


def histogram(counts: Sequence[int]) -> Markup:
    """How many values of an output are off by how much, as bars from the least to the most."""
    total, most = sum(counts), max(counts, default=0)
    if not total:
        return Markup()
    names = ["the same", *(f"below {limit:g}" for limit in SPREAD), f"{SPREAD[-1]:g} or more"]
    bars, told = [], []
    for place, (name, count) in enumerate(zip(names, counts, strict=False)):
        words = f"{name}: {format_percent(count / total)}"
        tall = max(1.0, 100 * count / most) if count else 0.0
        sides = (100 * place / len(names), 100 - tall, 90 / len(names), tall)
        bars.append(element("rect", element("title", words), **_sides(sides)))
        told += [words] if count else []
    label = f"errors in shares of the largest value: {', '.join(told)}"
    return element("svg", element("title", label), *bars, class_="errors", role="img", aria_label=label)


def spread(values: ValueSpread | None) -> Markup:
    """How values are spread before, in grey, and after, as lines around that."""
    most = max((*values.before, *values.after), default=0) if values else 0
    if values is None or not most:
        return Markup()
    bins = max(len(values.before), len(values.after))
    drawn = []
    for kind, counts in (("was", values.before), ("is", values.after)):
        for place, count in enumerate(counts):
            low = values.low + (values.high - values.low) * place / bins
            words = f"{kind} {format_percent(count / max(sum(counts), 1))} from {low:.3g}"
            sides = _sides((100 * place / bins, 100 - 100 * count / most, 100 / bins, 100 * count / most))
            drawn += [element("rect", element("title", words), class_=kind, **sides)] if count else []
    label = f"values from {values.low:.3g} to {values.high:.3g}, before and after"
    return element("svg", *drawn, class_="spread", role="img", aria_label=label)


def share_bar(share: float, words: str, kind: str = "") -> Markup:
    """Widths are percentages, so that the bar is as wide as there is room."""
    return element(
        "svg",
        element("title", words),
        element("rect", class_="whole", width="100%", height="100%", rx=4),
        element("rect", class_="part", width=f"{100 * min(max(share, 0), 1):.2f}%", height="100%", rx=4),
        class_=f"bar {kind}".strip(),
        role="img",
        aria_label=words,
    )


@dataclass(frozen=True, kw_only=True)
class Box:
    """One thing in a treemap: the groups that it is in, outermost first, and its name; `words` are all there
    is to say of it."""

    path: Sequence[str]
    size: int
    words: str
    kind: str  # of its colour
    link: str = ""


Place = tuple[float, float, float, float]  # left, top, width and height, in percent of a map
Tree = dict[str, "Box | Tree"]
TALL = 260  # pixels of the largest map
WIDE = 900  # of a map on a desk: what is to be square is square there
DEEPEST = 6  # levels of groups
LABEL = 16  # pixels of a line of text


def treemap(caption: str, maps: Sequence[tuple[str, Sequence[Box]]]) -> Markup:
    """Maps of the same things, one below the other, each as tall as what it holds is large."""
    totals = [sum(box.size for box in boxes) for _, boxes in maps]
    largest = max(totals, default=0)
    if not largest:
        return Markup()
    drawn: list[Markup] = []
    for (title, boxes), total in zip(maps, totals, strict=True):
        if total:
            words = f"{title}: {format_size(total)}"
            height = max(20, round(TALL * total / largest))
            drawn += [element("p", words, class_="soft"), _map(boxes, height, words)]
    told = element("output", "Hover over a map, or go through it with the arrow keys.", class_="soft")
    return element("figure", element("figcaption", caption), *drawn, told, class_="treemap")


def _map(boxes: Sequence[Box], height: int, words: str) -> Markup:
    shapes = list(_shapes(_grouped(boxes), (0.0, 0.0, 100.0, 100.0), height))
    label = f"{words}, in {len(boxes):,} parts"
    return element("svg", *shapes, class_="map", height=height, role="img", aria_label=label)


def _grouped(boxes: Sequence[Box]) -> Tree:
    """Boxes by their groups. A group of one is none."""
    root: Tree = {}
    for place, box in enumerate(boxes):
        group = root
        for key in box.path[:-1][:DEEPEST]:
            inner = group.setdefault(f"{key}/", {})
            group = inner if isinstance(inner, dict) else group
        group[f"{place}"] = box  # two may have one name
    return _joined(root, "")[1]


def _joined(group: Tree, name: str) -> tuple[str, Tree]:
    """A group that holds only one other is that one, under the names of both."""
    joined: Tree = {}
    for key, item in group.items():
        inner_name, inner = (key, item) if isinstance(item, Box) else _joined(item, key)
        only = next(iter(inner.values())) if isinstance(inner, dict) and len(inner) == 1 else inner
        joined[inner_name] = only if isinstance(only, Box) else inner
    if len(joined) == 1 and isinstance(only := next(iter(joined.values())), dict):
        return name + next(iter(joined)), only
    return name, joined


def _size(item: Box | Tree) -> int:
    return item.size if isinstance(item, Box) else sum(map(_size, item.values()))


def _shapes(group: Tree, place: Place, height: int) -> Iterator[Markup]:
    items = sorted(((_size(item), key, item) for key, item in group.items()), key=lambda item: -item[0])
    for (_, key, item), inner in _divided([item for item in items if item[0]], place, height / WIDE):
        x, y, wide, tall = inner
        has_room = wide * WIDE > 70 * 100 and tall * height > 3 * LABEL * 100
        label = _label(item.path[-1] if isinstance(item, Box) else key.rstrip("/"), inner) if has_room else ""
        if isinstance(item, Box):
            yield _box(item, inner)
            yield Markup(label)
            continue
        strip = 100 * LABEL / height if has_room else 0.0  # above what is in the group
        yield Markup(label)
        yield from _shapes(item, (x, y + strip, wide, tall - strip), height)
        yield element("rect", class_="outline", **_sides(inner))


Sized = tuple[int, str, "Box | Tree"]


def _divided(items: Sequence[Sized], place: Place, aspect: float) -> Iterator[tuple[Sized, Place]]:
    """A place for each item, the largest first: in two halves, again and again, across the longer side."""
    if len(items) < 2:
        yield from ((item, place) for item in items)
        return
    total, first, count = sum(size for size, *_ in items), 0, 0
    while count < len(items) - 1 and (not count or 2 * (first + items[count][0]) <= total):
        first += items[count][0]
        count += 1
    x, y, width, height = place
    share = first / total
    if width >= height * aspect:
        halves = (x, y, width * share, height), (x + width * share, y, width * (1 - share), height)
    else:
        halves = (x, y, width, height * share), (x, y + height * share, width, height * (1 - share))
    for part_of, half in zip((items[:count], items[count:]), halves, strict=True):
        yield from _divided(part_of, half, aspect)


def _sides(place: Place) -> dict[str, str]:
    return {name: f"{value:.3g}%" for name, value in zip(("x", "y", "width", "height"), place, strict=True)}


def _box(box: Box, place: Place) -> Markup:
    link = {"data_link": box.link} if box.link else {}
    return element("rect", element("title", box.words), class_=f"box {box.kind}", **_sides(place), **link)


def _label(name: str, place: Place) -> Markup:
    """What is too long is cut off at the edge of its box."""
    words = element("text", name, x=5, y=LABEL - 4)
    return element("svg", words, class_="label", aria_hidden="true", **_sides(place))


def stage_bar(parts: Sequence[tuple[str, float]]) -> Markup:
    """How a whole is made of parts, in seconds."""
    total = sum(seconds for _, seconds in parts)
    at, drawn = 0.0, []
    for place, (name, seconds) in enumerate(parts):
        width = 100 * seconds / total if total else 0.0
        title = element("title", f"{name} {seconds:.1f} s")
        drawn.append(
            element("rect", title, class_=f"k{place}", x=f"{at:.2f}%", width=f"{width:.2f}%", height="100%")
        )
        at += width
    words = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts)
    return element("svg", *drawn, class_="stages", role="img", aria_label=words)
