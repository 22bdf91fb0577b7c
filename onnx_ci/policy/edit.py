"""Writes policies: a first one from the models that are there, lower budgets, and rules for new models."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.policy.fields import NONE, SCHEMA_URL
from onnx_ci.policy.glob import escape
from onnx_ci.policy.load import parse_policy
from onnx_ci.policy.reader import Place, Reading
from onnx_ci.util.scalars import EXACT, EXACT_METHODS
from onnx_ci.util.sizes import SIZE_UNITS, format_size, parse_count, parse_size, size_unit

if TYPE_CHECKING:
    from onnx_ci.policy.reader import MethodRegistry

KEYS = ("size", "gzip", "brotli", "zstd", "params")
_START = r"^((?:[&!]\S*\s+)*)([\"']?)"  # of a value: anchors and tags before it, and its quote

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
        measured = [present(holder, spot.key) for holder in spot.holders]
        values = [value for value in measured if value is not None]
        if values and len(values) == len(measured) and 0 < max(values) < spot.now:
            text = text[: spot.start] + _written(text, spot, max(values)) + text[spot.end :]
            done.append(Lowered(spot.line, spot.key, spot.now, max(values)))
    return text, done[::-1]


def _written(text: str, spot: Spot, value: int) -> str:
    before = text[spot.start : spot.end]
    prefix, quote = re.findall(_START, before)[0]
    return f"{prefix}{quote}{value if spot.key == 'params' else exact_size(value)}{quote}"


def exact_size(size: int) -> str:
    """A size in the unit people would choose, to the last byte."""
    unit = size_unit(size)
    whole, rest = divmod(size, SIZE_UNITS[unit])
    digits = f"{rest:0{len(str(SIZE_UNITS[unit])) - 1}d}".rstrip("0")
    if not digits:
        return f"{whole} {unit}"
    text = f"{whole}.{digits} {unit}"
    # With a point it is read as a float, which can't tell larger ones apart.
    return text if size < 2**53 and parse_size(text) == size else f"{size} B"


def _spots(text: str, methods: MethodRegistry) -> list[Spot]:
    """Every budget in the text, with the rules and groups that it holds for."""
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    if document is None:
        return []
    root = Place(Reading("", methods), document, "", example="")
    spots: dict[int, Spot] = {}
    for holder, key, place in _budgets(root.entries("")):
        start, end = place.node.start_mark.index, place.node.end_mark.index
        value = (parse_count if key == "params" else parse_size)(place.scalar(""))
        spot = Spot(key, start, end, place.line, value)
        spots.setdefault(start, spot).holders.append(holder)
    return list(spots.values())


def _budgets(top: Mapping[str, Place]) -> Iterator[tuple[Holder, str, Place]]:
    """Of a rule those that hold for the models whose budget it decides."""
    defaults = _entries(_entries(top.get("defaults")).get("budget"))
    for section, start in (("models", defaults), ("groups", {})):
        for number, item in enumerate(top[section].items("") if section in top else []):
            own = item.entries("").get("budget")
            budget = {} if _is_none(own) else {**start, **_entries(own)}
            for key, place in budget.items():
                if key in KEYS and not _is_none(place):
                    yield (section, number), key, place


def _is_none(place: Place | None) -> bool:
    return place is not None and place.node.value == NONE


def _entries(place: Place | None) -> dict[str, Place]:
    return place.entries("") if place else {}


FEW = 10
EVERY_MODEL = "**/*.onnx"
_HEAD = f"# yaml-language-server: $schema={SCHEMA_URL}\n"
_HEAD += f"""\
# What the ONNX models here may weigh, and how onnx-ci may make them smaller.
#   onnx-ci check          says what is wrong, and changes nothing
#   onnx-ci fix            shrinks what can be shrunk
#   onnx-ci explain PATH   says which rule holds for a model, and why
version: 1

defaults:
  # All exact methods ([exact] for short); `onnx-ci survey` shows what others save, such as fp16-weights.
  methods: [{", ".join(EXACT_METHODS)}]
  tolerance: {{cosine: 0.999}}  # how far outputs may move when a method is not exact

# Patterns as in .gitignore, relative to this file; where several match, later rules win key by key.
models:
"""
_EXACT = """\
  # A model without a rule is an error (unmatched: error); `onnx-ci ratchet` adds one for it.
"""
_TAIL = """\
  # - path: "vendor/**"
  #   ignore: true
"""


def starter_policy(models: Sequence[tuple[str, int]], *, exact: bool = False, headroom: float = 0.0) -> str:
    """The text of a policy for these (relative path, size) pairs: a rule each when few, else by folder; its
    budgets leave a share of `headroom`.

    `exact`: always a rule each, with the size to the byte, so that none can grow unseen."""
    ordered = sorted(models)
    if exact and ordered:
        return _HEAD + _EXACT + "".join(exact_rule(*model) for model in ordered) + _TAIL
    largest = max((size for _, size in ordered), default=0)
    # The first rule, so that every other one wins over it: no model is without a rule.
    catch_all = f"  - path: {_quoted(EVERY_MODEL)}\n"
    if ordered:
        room = largest * (1 + headroom)
        catch_all = _rule(EVERY_MODEL, room, "any other model: not larger than the largest now")
    if len(ordered) <= FEW:
        sizes = [(path, size * (1 + headroom), format_size(size)) for path, size in ordered]
        rules = [_rule(escape(path), room, f"now {size}") for path, room, size in sizes]
    else:
        rules = [_folder_rule(*folder, headroom) for folder in sorted(_folders(ordered).items())]
    return _HEAD + catch_all + "".join(rules) + _TAIL


def exact_rule(path: str, size: int) -> str:
    """A rule for one model, its budget at its size to the byte."""
    return f"  - path: {_quoted(escape(path))}\n    budget: {{size: {exact_size(max(size, 1))}}}\n"


def survey_rule(path: str, methods: Sequence[str]) -> str:
    """A rule in one line, for as small a form of one model as these methods give beside the exact ones."""
    names = ", ".join([EXACT, *methods])
    smallest = ", shrink: smallest" if methods else ""
    return f"- {{path: {_quoted(escape(path))}, methods: [{names}]{smallest}}}"


def _folder_rule(folder: tuple[str, ...], members: Sequence[tuple[str, int]], headroom: float) -> str:
    largest = max(size for _, size in members)
    start = escape("/".join(folder) + "/") + "**/" if folder else "/"
    ending = ".onnx" if all(path.endswith(".onnx") for path, _ in members) else ""
    note = f"the largest of {len(members)}, now {format_size(largest)}"
    return _rule(f"{start}*{ending}", largest * (1 + headroom), note)


def _folders(models: Sequence[tuple[str, int]]) -> dict[tuple[str, ...], list[tuple[str, int]]]:
    """Models by folder, as deep as leaves few folders; sorted, inner folders come last and win."""
    depth = max(path.count("/") for path, _ in models)
    while True:
        folders: dict[tuple[str, ...], list[tuple[str, int]]] = {}
        for path, size in models:
            folders.setdefault(tuple(path.split("/")[:-1][:depth]), []).append((path, size))
        if len(folders) <= FEW or depth <= 1:
            return folders
        depth -= 1


def _rule(pattern: str, size: float, note: str) -> str:
    return f"  - path: {_quoted(pattern)}\n    budget: {{size: {_rounded_up(size)}}}  # {note}\n"


def _rounded_up(wanted: float) -> str:
    """The size with three digits, never less than it is."""
    size = max(math.ceil(wanted), 1)
    step = 10 ** max(len(str(size)) - 3, 0)
    size = -(-size // step) * step
    unit = size_unit(size)
    return f"{size / SIZE_UNITS[unit]:.10g} {unit}"


def _quoted(text: str) -> str:
    """A YAML string in double quotes; what an editor might not show is escaped."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", text)
    shown = (letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in escaped)
    return f'"{"".join(shown)}"'


def with_rules(text: str, models: Sequence[tuple[str, int]], methods: MethodRegistry) -> str | None:
    """The text with a rule for each (path, size); None where it is written so that this can't be done."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return None
    rules = next(value for key, value in root.value if key.value == "models")
    if rules.flow_style:
        return None
    line_end = text.find("\n", max(_ends(rules)))
    before, after = (text[: line_end + 1], text[line_end + 1 :]) if line_end >= 0 else (f"{text}\n", "")
    margin = " " * rules.start_mark.column
    added = "".join(f"{margin}{line[2:]}\n" for model in models for line in exact_rule(*model).splitlines())
    changed = before + (added.replace("\n", "\r\n") if "\r\n" in text else added) + after
    return changed if _only_adds(text, changed, len(models), methods) else None


def _ends(node: yaml.Node) -> Iterator[int]:
    """Where the last words of a list stand; its own end is only where something else begins."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        yield node.end_mark.index - 1
        return
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _ends(part)


def _only_adds(before: str, after: str, count: int, methods: MethodRegistry) -> bool:
    """Aliases and odd layouts could put a rule elsewhere: what was there must still be there, and first."""
    try:
        old, new = (parse_policy(text, file="", methods=methods) for text in (before, after))
    except PolicyError:
        return False
    same = [rule.pattern for rule in old.rules] == [rule.pattern for rule in new.rules[: len(old.rules)]]
    return same and len(new.rules) == len(old.rules) + count
