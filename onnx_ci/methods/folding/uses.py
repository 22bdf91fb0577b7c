"""Which nodes read a name, across scopes: a stored tensor that nothing reads any more can go."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from onnx_ci.methods.scopes import Scope
from onnx_ci.model.graphs import Body
from onnx_ci.model.proto import GraphProto, NodeProto

Key = tuple[Scope, str]  # a name, in the scope that defines it
Place = tuple[Scope, int]  # a node, by its position


class Uses:
    """`left` counts the reads that are still there; `readers` are all nodes that ever read a name."""

    def __init__(self) -> None:
        self.left: Counter[Key] = Counter()
        self.readers: dict[Key, list[Place]] = defaultdict(list)

    def add(self, scope: Scope) -> None:
        for position, node in enumerate(scope.body.node):
            for key in _reads(scope, node):
                self.left[key] += 1
                self.readers[key].append((scope, position))
        for name in body_outputs(scope.body):
            self.left[defined_at(scope, name) or (scope, name)] += 1

    def dying(self, scope: Scope, node: NodeProto) -> set[Key]:
        """What nothing reads once this node is gone."""
        counts = Counter(_reads(scope, node))
        return {key for key, count in counts.items() if self.left[key] == count}

    def remove(self, scope: Scope, node: NodeProto) -> Iterator[Place]:
        """Take out what a node reads; the readers that may be the last ones of something now."""
        self.left.subtract(_reads(scope, node))
        for key in dict.fromkeys(_reads(scope, node)):
            if self.left[key] in (1, 2):
                yield from self.readers[key]


def body_outputs(body: Body) -> list[str]:
    return [value.name for value in body.output] if isinstance(body, GraphProto) else list(body.output)


def _reads(scope: Scope, node: NodeProto) -> list[Key]:
    return [key for name in node.input if name and (key := defined_at(scope, name)) is not None]


def defined_at(scope: Scope, name: str) -> Key | None:
    """The innermost scope that defines a name, as seen from here."""
    return next(((outer, name) for outer in scope.chain() if name in outer.defined), None)


def connected(folded: Mapping[Place, set[Key]]) -> list[list[Place]]:
    """Folded nodes in groups: two that have a name in common belong together."""
    places: dict[Key, list[Place]] = defaultdict(list)
    for place, keys in folded.items():
        for key in keys:
            places[key].append(place)
    groups: list[list[Place]] = []
    seen: set[Place] = set()
    for start in folded:
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for place in group:  # grows while it is walked
            for key in folded[place]:
                new = [other for other in places.pop(key, ()) if other not in seen]
                seen.update(new)
                group += new
        groups.append(group)
    return groups
