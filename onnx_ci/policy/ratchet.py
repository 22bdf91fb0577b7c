"""Lowers budgets in the text of a policy, and leaves every other character of it as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from onnx_ci.policy.nodes import Place, Reading
from onnx_ci.policy.registry import MethodRegistry
from onnx_ci.sizes import SIZE_UNITS, parse_count, parse_size

KEYS = ("size", "gzip", "brotli", "zstd", "params")
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor or a tag before the value

Holder = tuple[str, int]  # "models" or "groups", and which of them


@dataclass
class Spot:
    """One budget as it stands in the text: it may hold for several rules, by an alias or as a default."""

    key: str
    start: int
    end: int
    line: int
    now: int
    holders: list[Holder] = field(default_factory=list)


@dataclass(frozen=True)
class Lowered:
    """What became of one budget."""

    line: int
    key: str
    before: int
    after: int


def lower(
    text: str, present: Callable[[Holder, str], int | None], methods: MethodRegistry
) -> tuple[str, list[Lowered]]:
    """The text with each budget at the largest present value it holds for; a budget is never raised.

    `present` measures what a rule or group holds for; None where there is nothing, or it can't be measured.
    """
    done: list[Lowered] = []
    for spot in sorted(_spots(text, methods), key=lambda spot: spot.start, reverse=True):
        found = [present(holder, spot.key) for holder in spot.holders]
        known = [value for value in found if value is not None]
        if known and len(known) == len(found) and 0 < max(known) < spot.now:
            text = text[: spot.start] + _written(text, spot, max(known)) + text[spot.end :]
            done.append(Lowered(spot.line, spot.key, spot.now, max(known)))
    return text, done[::-1]


def _written(text: str, spot: Spot, value: int) -> str:
    before = text[spot.start : spot.end]
    properties = _PROPERTIES.match(before)
    prefix = properties[0] if properties else ""
    quote = before[len(prefix)] if before[len(prefix)] in "\"'" else ""
    return f"{prefix}{quote}{value if spot.key == 'params' else exact_size(value)}{quote}"


def exact_size(size: int) -> str:
    """A size in the unit people would choose, to the last byte."""
    unit = next((name for name in ("TB", "GB", "MB", "kB") if size >= SIZE_UNITS[name]), "B")
    digits = len(str(SIZE_UNITS[unit])) - 1
    text = f"{size / SIZE_UNITS[unit]:.{digits}f}"
    text = f"{text.rstrip('0').rstrip('.') if digits else text} {unit}"
    return text if parse_size(text) == size else f"{size} B"


def _spots(text: str, methods: MethodRegistry) -> list[Spot]:
    """Every budget in the text, with the rules and groups that it holds for."""
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    if document is None:
        return []
    root = Place(Reading("", methods), document, "", example="")
    found: dict[int, Spot] = {}
    for holder, key, place in _budgets(root.entries("")):
        start, end = place.node.start_mark.index, place.node.end_mark.index
        parse = parse_count if key == "params" else parse_size
        made = Spot(key, start, end, place.line, parse(place.scalar("")))
        found.setdefault(start, made).holders.append(holder)
    return list(found.values())


def _budgets(top: Mapping[str, Place]) -> Iterator[tuple[Holder, str, Place]]:
    defaults = _entries(_entries(top.get("defaults")).get("budget"))
    for section, start in (("models", defaults), ("groups", {})):
        for number, item in enumerate(top[section].items("") if section in top else []):
            budget = {**start, **_entries(item.entries("").get("budget"))}
            yield from (((section, number), key, place) for key, place in budget.items() if key in KEYS)


def _entries(place: Place | None) -> dict[str, Place]:
    return place.entries("") if place else {}
