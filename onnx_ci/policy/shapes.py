"""Kinds made of other kinds: lists, mappings with free keys, and tables of known keys."""

from __future__ import annotations

from collections.abc import Callable

from onnx_ci.errors import PolicyError
from onnx_ci.policy.kinds import Kind, Schema
from onnx_ci.policy.nodes import Place
from onnx_ci.policy.suggest import did_you_mean, nearest

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from typing import Any, TypeAlias


class Field:
    """What may stand under one key: its kind, an example, and a sentence for the editor."""

    __slots__ = ("about", "example", "kind", "required")

    def __init__(self, kind: Kind, example: str, about: str, *, required: bool = False) -> None:
        self.kind = kind
        self.example = example
        self.about = about
        self.required = required


Table = dict[str, Field]
Check: TypeAlias = "Callable[[Place, dict[str, Any]], None]"


def list_of(kind: Kind, *, least: int = 0) -> Kind:
    def read(place: Place) -> tuple[Any, ...]:
        items = place.items("a list")
        if len(items) < least:
            raise place.error("found an empty list, expected at least one entry")
        return tuple(kind.read(item) for item in items)

    return Kind(read, {"type": "array", "items": kind.schema, **({"minItems": least} if least else {})})


def map_of(kind: Kind) -> Kind:
    """A mapping whose keys are the user's own names."""

    def read(place: Place) -> dict[str, Any]:
        return {key: kind.read(entry) for key, entry in place.entries("a mapping").items()}

    return Kind(read, {"type": "object", "additionalProperties": kind.schema})


def table_of(
    table: Table, *, check: Check | None = None, also: Schema | None = None, lined: bool = False
) -> Kind:
    """A mapping with known keys, read as a dict of what was given, with its line where that is wanted.

    `also` tells editors, as far as a schema can, what `check` makes sure of."""

    def read(place: Place) -> dict[str, Any]:
        values = read_table(place, table)
        if check:
            check(place, values)
        return {**values, "line": place.line} if lined else values

    return Kind(read, {**table_schema(table), **(also or {})})


def read_table(place: Place, table: Table) -> dict[str, Any]:
    entries = place.entries(f"a mapping with the keys {', '.join(table)}")
    values = {}
    for key, entry in entries.items():
        if key not in table:
            raise _unknown_key(place, entry, table)
        entry.example = f"{key}: {table[key].example}"
        values[key] = table[key].kind.read(entry)
    for key, field in table.items():
        if field.required and key not in values:
            raise place.error(
                f"found no {key!r}, expected it here", hint=f"for example: {key}: {field.example}"
            )
    return values


def table_schema(table: Table) -> Schema:
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"description": f"{field.about}, for example: {field.example}", **field.kind.schema}
            for key, field in table.items()
        },
    }
    required = [key for key, field in table.items() if field.required]
    return {**schema, "required": required} if required else schema


def _unknown_key(place: Place, entry: Place, table: Table) -> PolicyError:
    meant = nearest(entry.name, table) or next(iter(table))
    return place.error(
        f"unknown key {entry.name[:60]!r}, {did_you_mean(entry.name, table)}",
        hint=f"known keys: {', '.join(table)}; for example: {meant}: {table[meant].example}",
        line=entry.key_line,
    )
