"""Results as JSON holds them, and back: by the types that their classes declare."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, fields, is_dataclass
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Kind = TypeVar("Kind")


def plain(value: Any, *, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass, but for those that are kept in another way."""
    found = {item.name: getattr(value, item.name) for item in fields(value) if item.name not in leave_out}
    return {name: _plain(item) for name, item in found.items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def read(kind: type[Kind], values: dict[str, Any], **given: Any) -> Kind:
    """A dataclass from its fields, the ones that were left out given by hand."""
    hints = get_type_hints(kind)
    return kind(**{name: _read(hints[name], value) for name, value in values.items()}, **given)


def _read(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(hint) in (Union, UnionType):
        return _read(next(one for one in get_args(hint) if one is not NoneType), value)
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        every = repeat(kinds[0]) if kinds[-1] is Ellipsis else kinds
        return tuple(_read(kind, item) for kind, item in zip(every, value, strict=False))
    return read(hint, value) if is_dataclass(hint) and isinstance(hint, type) else value
