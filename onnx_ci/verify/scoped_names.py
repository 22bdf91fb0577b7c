"""Value names made unique: the same name in two branches, or in two calls of a function, is two values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import FunctionProto


class Names:
    """The names that one graph defines; others are looked for in the graph around it."""

    def __init__(self, prefix: str, around: Names | None = None) -> None:
        self.prefix = prefix
        self.around = around
        self._known: dict[str, str] = {}

    def define(self, names: Iterable[str]) -> None:
        for name in names:
            if name:
                self._known[name] = self.prefix + name

    def bind(self, names: Mapping[str, str]) -> None:
        """Names that stand for values of another place."""
        self._known.update(names)

    def of(self, name: str) -> str:
        scope: Names | None = self
        while scope is not None:
            if name in scope._known:
                return scope._known[name]
            scope = scope.around
        return self.prefix + name


def key_of(place: str, index: int) -> str:
    """Tells one node from all others, wherever it is nested."""
    return f"{place}/{index}"


def place_of(function: FunctionProto) -> str:
    return f"{function.domain}.{function.name}:"
