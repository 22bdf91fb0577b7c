"""Reads HTML strictly: a tag that is not closed, or closed in the wrong order, is a failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br"}


@dataclass
class Element:
    """A tag with its attributes and what is in it."""

    tag: str
    attributes: dict[str, str | None]
    content: list[str | Element] = field(default_factory=list)

    @property
    def children(self) -> list[Element]:
        return [part for part in self.content if isinstance(part, Element)]

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    def all(self, tag: str = "") -> list[Element]:
        """Elements within, at any depth, in the order of the document."""
        within = [element for child in self.children for element in (child, *child.all())]
        return [element for element in within if not tag or element.tag == tag]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute is there twice: {attrs}"
        made = Element(tag, dict(attrs))
        self.open[-1].content.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def read(document: str) -> Element:
    reader = _Reader()
    reader.feed(document)
    reader.close()
    assert len(reader.open) == 1, f"never closed: {[element.tag for element in reader.open[1:]]}"
    return reader.root
