"""HTML and SVG as values: what is not markup already is escaped, so that no name can become a tag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from onnx_ci.report.style import one_line

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


def _row(cells: Sequence[str], columns: Sequence[tuple[str, str | bool]]) -> Markup:
    first = element("th", cells[0], scope="row", role="rowheader")
    rest = [
        element("td", element("span", cell), role="cell", data_label=name, class_=kind)
        for cell, (name, kind) in zip(cells[1:], columns[1:], strict=True)
    ]
    return element("tr", first, *rest, role="row")
