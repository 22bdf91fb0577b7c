"""Plain values, as JSON and YAML have them, into dataclasses, by the annotations of their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

Check = Callable[[Any, Any, str], Any]


def _unchecked(_kind: Any, value: Any, _where: str) -> Any:
    return value


def build(kind: Any, value: Any, check: Check = _unchecked, where: str = "") -> Any:
    """Return the value that an annotation asks for; what is one already stays as it is.

    `check` is given the kind of every single value, list and dict, the value itself and where it stands; it
    returns the value or raises. Unknown keys are passed over: they may be those of a later version.
    """
    if isinstance(kind, UnionType):
        first, *others = get_args(kind)
        meant = next((each for each in others if type(value) is each), first)
        return None if value is None else build(meant, value, check, where)
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        items = check(list, value, where)
        if others == [Ellipsis]:
            return tuple(build(first, item, check, f"{where}[{n}]") for n, item in enumerate(items))
        return tuple(build(*pair, check, where) for pair in zip((first, *others), items, strict=False))
    if not is_dataclass(kind):
        return check(kind, value, where)
    return value if isinstance(value, kind) else _dataclass(kind, value, check, where)  # type: ignore[arg-type]


def _dataclass(kind: Any, value: Any, check: Check, where: str) -> Any:
    given, kinds = check(dict, value, where), _annotations(kind)
    values = {}
    for field in fields(kind):
        if field.name in given:
            place = f"{where}.{field.name}"
            values[field.name] = build(kinds[field.name], given[field.name], check, place)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}.{field.name} is missing")
    return kind(**values)


@cache
def _annotations(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
