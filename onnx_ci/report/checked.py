"""Values from JSON that nobody vouches for: made into dataclasses field by field, or refused with a place."""

from __future__ import annotations

import re
import sys
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from onnx_ci.findings import Finding
from onnx_ci.report.style import one_line
from onnx_ci.report.words import PLACES
from onnx_ci.report.words import WORDS as VERDICTS
from onnx_ci.results import OriginalState, Outcome, RunReport

LONGEST_TEXT = 20_000  # characters
LONGEST_LIST = 100_000
LARGEST_NUMBER = 2**63

CODE = re.compile(r"(OCI[0-9]{3})?")
KNOWN: dict[tuple[type, str], tuple[str, ...]] = {
    (Outcome, "verdict"): tuple(VERDICTS),
    (OriginalState, "place"): ("", *PLACES),
    (Finding, "severity"): ("error", "warning", "note"),
    (RunReport, "command"): ("check", "fix", "build", "shrink", "compare"),
}

Built = TypeVar("Built")


class Checked:
    """A JSON object, and where it stands in its document. Keys that are not known do no harm: they may be
    those of a later version."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _refusal(where, "an object", value)
        self.values = value
        self.where = where

    def object(self, key: str) -> Checked:
        return Checked(self.values.get(key, {}), f"{self.where}.{key}")

    def listed(self, key: str) -> list[Checked]:
        items = _listed(self.values.get(key), f"{self.where}.{key}")
        return [Checked(item, f"{self.where}.{key}[{number}]") for number, item in enumerate(items)]

    def refusal(self, key: str, expected: str) -> ValueError:
        return _refusal(f"{self.where}.{key}", expected, self.values.get(key))

    def build(self, cls: type[Built], called: dict[str, str] | None = None) -> Built:
        """`called` are fields that have another name in the document."""
        kinds = _kinds(cls)  # type: ignore[arg-type]
        found = {}
        for field in fields(cls):  # type: ignore[arg-type]
            where = f"{self.where}.{(called or {}).get(field.name, field.name)}"
            if field.name in self.values:
                value = _value(kinds[field.name], self.values[field.name], where)
                found[field.name] = _known(cls, field.name, value, where)
            elif field.default is MISSING and field.default_factory is MISSING:
                raise ValueError(f"{where} is missing")
        return cls(**found)


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _known(cls: type, name: str, value: Any, where: str) -> Any:
    words = KNOWN.get((cls, name))
    if words:
        _word(words, value, where)
    if name == "code" and not CODE.fullmatch(value):
        raise _refusal(where, "a code like OCI001", value)
    return value


def _value(kind: Any, value: Any, where: str) -> Any:
    """`kind` is an annotation, as the classes of results have them."""
    if isinstance(kind, UnionType):
        return None if value is None else _value(get_args(kind)[0], value, where)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value, where)
    if get_origin(kind) is Literal:
        return _word(get_args(kind), value, where)
    if is_dataclass(kind):
        return Checked(value, where).build(kind)  # type: ignore[arg-type]
    return {str: _text, bool: _truth, int: _whole, float: _number}[kind](value, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    items = _listed(value, where)
    if kinds[-1] is Ellipsis:
        return tuple(_value(kinds[0], item, f"{where}[{n}]") for n, item in enumerate(items))
    if len(items) != len(kinds):
        raise _refusal(where, f"{len(kinds)} items", value)
    return tuple(_value(kind, item, where) for kind, item in zip(kinds, items, strict=True))


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > LONGEST_LIST:
        raise _refusal(where, f"a list of at most {LONGEST_LIST:,}", value)
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise _refusal(where, f"text of at most {LONGEST_TEXT:,} characters", value)
    return value


def _word(words: tuple[str, ...], value: Any, where: str) -> str:
    if value not in words:
        raise _refusal(where, " or ".join(words), value)
    return _text(value, where)


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _refusal(where, "true or false", value)
    return value


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST_NUMBER:
        raise _refusal(where, "a whole number from 0", value)
    return value


def _number(value: Any, where: str) -> float:
    counts = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not counts or not abs(value) <= sys.float_info.max:
        raise _refusal(where, "a number", value)
    return float(value)


def _refusal(where: str, expected: str, found: Any) -> ValueError:
    shown = "an object" if isinstance(found, dict) else "a list" if isinstance(found, list) else repr(found)
    return ValueError(f"{one_line(where)}: expected {expected}, found {one_line(shown[:60])}")
