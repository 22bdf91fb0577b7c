"""Sizes over the history: a table, a chart that a README can show, and a badge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from onnx_ci.report.html_page import Markup, Scale, element
from onnx_ci.report.sheet import Section, Sheet
from onnx_ci.report.text import clipped, counted
from onnx_ci.results import HistoryEntry, SizeHistory
from onnx_ci.util.sizes import SIZE_UNITS, format_size, size_unit
from onnx_ci.util.text import first_of, one_line

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 36, 28
DOTS = 120  # versions that still have a mark each
COLUMNS = ("commit", "date", "size", "change", "percent", "models", "kept in", "subject")
# An image follows the reader's light or dark setting by itself.
STYLE = Markup(
    ".oci-t{font:12px system-ui,sans-serif;fill:#57606a}.oci-h{font-weight:600}"
    ".oci-g{stroke:#d0d7de;stroke-width:1}.oci-l{fill:none;stroke:#1f6f8b;stroke-width:2}"
    ".oci-a{fill:#1f6f8b;fill-opacity:.12}.oci-d{fill:#1f6f8b}"
    "@media(prefers-color-scheme:dark){.oci-t{fill:#a2aab1}.oci-g{stroke:#30363b}.oci-l{stroke:#6cb8d4}"
    ".oci-a{fill:#6cb8d4}.oci-d{fill:#6cb8d4}}"
)


def history_sheet(history: SizeHistory) -> Sheet:
    """The newest version first, as git log has it."""
    entries = history.entries
    sizes = [entry.size for entry in entries if entry.size is not None]
    lines = []
    if sizes:
        first, last = sizes[0], sizes[-1]
        change = f", {last / first - 1:+.1%} since the first" if first and len(sizes) > 1 else ""
        most = f"; the largest had {format_size(max(sizes))}" if max(sizes) > last else ""
        lines.append(f"{format_size(last)}{change}, {counted(len(entries), 'version')}{most}")
    rows = tuple(map(_row, reversed(entries)))
    section = Section("versions", COLUMNS, rows, ("size", "change", "percent"))
    return Sheet(
        title=history.title,
        lines=(*lines, *history.notes),
        sections=(section,) if rows else (),
        picture=element("section", chart(history)) if sizes else "",
    )


def _row(entry: HistoryEntry) -> tuple[str, ...]:
    was = entry.size - entry.delta if entry.size is not None and entry.delta is not None else 0
    return (
        entry.commit[:10] or "-",
        entry.date[:10],
        "-" if entry.size is None else format_size(entry.size),
        "" if entry.delta is None else f"{'+' if entry.delta >= 0 else ''}{format_size(entry.delta)}",
        f"{entry.delta / was:+.1%}" if entry.delta and was else "",
        first_of(entry.names, 2),
        "" if entry.keeper == "git" else entry.keeper,
        clipped(entry.subject, 60),
    )


def render_svg(history: SizeHistory) -> str:
    """The chart as a file of its own."""
    return f"{chart(history)}\n"


def chart(history: SizeHistory) -> Markup:
    """A step at every version, from the first to the last; what a hole leaves is not drawn."""
    entries = history.entries
    sizes = [entry.size for entry in entries if entry.size is not None] or [0]
    unit = size_unit(max(sizes))
    upward = Scale.over([0, max(*sizes, 1)], unit=SIZE_UNITS[unit])
    across = WIDTH - LEFT - RIGHT
    places = [LEFT + across * (n / max(len(entries) - 1, 1)) for n in range(len(entries))]
    heights = [None if e.size is None else _y(upward, e.size) for e in entries]
    words = f"{one_line(history.title)}: {format_size(sizes[-1])} now, {len(entries)} versions"
    return element(
        "svg",
        element("title", words),
        element("style", STYLE),
        element("text", f"{_clipped(history.title)}, {unit}", x=8, y=20, class_="oci-t oci-h"),
        element(
            "text", format_size(sizes[-1]), x=WIDTH - RIGHT, y=20, class_="oci-t oci-h", text_anchor="end"
        ),
        *_grid(upward),
        *_dates(entries),
        *_line(places, heights),
        *(_dots(entries, places, heights) if len(entries) <= DOTS else ()),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
        aria_label=words,
        style="max-width:100%;height:auto",
    )


def _clipped(text: str, most: int = 70) -> str:
    shown = one_line(text)
    return shown if len(shown) <= most else f"…{shown[-most:]}"


def _y(scale: Scale, size: int) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - scale.place(size))


def _grid(scale: Scale) -> Iterator[Markup]:
    for value in scale.ticks:
        height = f"{_y(scale, int(value)):.1f}"
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=height, y2=height, class_="oci-g")
        label = f"{value / scale.unit:g}"
        yield element("text", label, x=LEFT - 8, y=height, dy=".32em", text_anchor="end", class_="oci-t")


def _dates(entries: Sequence[HistoryEntry]) -> Iterator[Markup]:
    dates = [entry.date[:10] for entry in entries if entry.date]
    ends = [(LEFT, "start", dates[:1]), (WIDTH - RIGHT, "end", dates[-1:] if len(dates) > 1 else [])]
    for place, anchor, shown in ends:
        for date in shown:
            yield element("text", date, x=place, y=HEIGHT - 8, text_anchor=anchor, class_="oci-t")


def _line(places: Sequence[float], heights: Sequence[float | None]) -> Iterator[Markup]:
    base = HEIGHT - BOTTOM
    points = list(zip(places, heights, strict=True))
    drawn: list[str] = []
    for (x1, y1), (x2, y2) in pairwise(points):
        if y1 is None:
            continue
        end = y1 if y2 is None else y2
        drawn.append(f"M{x1:.1f} {y1:.1f}H{x2:.1f}V{end:.1f}")
        yield element("path", d=f"M{x1:.1f} {base}V{y1:.1f}H{x2:.1f}V{base}Z", class_="oci-a")
    if drawn:
        yield element("path", d="".join(drawn), class_="oci-l")


def _dots(
    entries: Sequence[HistoryEntry], places: Sequence[float], heights: Sequence[float | None]
) -> Iterator[Markup]:
    for entry, x, y in zip(entries, places, heights, strict=True):
        if y is not None and entry.size is not None:
            words = f"{entry.commit[:10] or 'not committed'} {entry.date[:10]}: {format_size(entry.size)}"
            title = element("title", f"{words}, {entry.subject}")
            yield element("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, class_="oci-d")


COLOURS = {"brightgreen": "#3a7d0a", "red": "#b93a2b", "blue": "#0b6aa2"}
_NARROW, _WIDE = "filjtrI.,:;|!'()[]{} ", "mwMWGOQ@%"


def badge_json(label: str, message: str, colour: str) -> dict[str, str | int]:
    """What shields.io reads from a URL: https://shields.io/badges/endpoint-badge."""
    return {"schemaVersion": 1, "label": one_line(label), "message": one_line(message), "color": colour}


def badge_svg(label: str, message: str, colour: str) -> str:
    """Two fields, as wide as their texts are about; the texts are fitted to them."""
    label, message = one_line(label)[:80], one_line(message)[:80]
    widths = [_width(label), _width(message)]
    total = sum(widths) + 20
    split = widths[0] + 10
    fields = [(label, split / 2, widths[0]), (message, split + (total - split) / 2, widths[1])]
    texts = [
        element("text", text, x=f"{x:g}", y=14, textLength=width, lengthAdjust="spacingAndGlyphs")
        for text, x, width in fields
    ]
    drawn = element(
        "svg",
        element("title", f"{label}: {message}"),
        element("clipPath", element("rect", width=total, height=20, rx=3), id="r"),
        element(
            "g",
            element("rect", width=split, height=20, fill="#444d56"),
            element("rect", x=split, width=total - split, height=20, fill=COLOURS[colour]),
            clip_path="url(#r)",
        ),
        element(
            "g", *texts, fill="#fff", text_anchor="middle", font_family="Verdana,sans-serif", font_size=11
        ),
        xmlns="http://www.w3.org/2000/svg",
        width=total,
        height=20,
        role="img",
        aria_label=f"{label}: {message}",
    )
    return f"{drawn}\n"


def _width(text: str) -> int:
    return sum(4 if letter in _NARROW else 10 if letter in _WIDE else 7 for letter in text)
