"""Stored tensors by name: those that patterns match, and those that certain nodes read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from onnx_ci.methods.scopes import Scope, Site, constant_value
from onnx_ci.model.container import Model
from onnx_ci.model.digest import tensor_key
from onnx_ci.model.proto import GraphProto, NodeProto


def stored(root: Scope) -> Iterator[Site]:
    """Every initializer and every Constant that holds a tensor, in a graph and the graphs inside it.

    Of two that have one name in one graph, onnxruntime takes now one, now the other: both are left out.
    """
    for scope in root.nested():
        for site in _stored_in(scope):
            if scope.defined[site.name] == 1:
                yield site


def _stored_in(scope: Scope) -> Iterator[Site]:
    if isinstance(scope.body, GraphProto):
        yield from (Site(scope, tensor.name, tensor) for tensor in scope.body.initializer)
    for node in scope.body.node:
        tensor = constant_value(node)
        if tensor is not None:
            yield Site(scope, node.output[0], tensor, node)


def chosen(root: Scope, sites: Sequence[Site], tensors: Sequence[str], ops: Sequence[str]) -> list[Site]:
    """The sites that a pattern names, or that a node reads whose op or name one matches; each once."""
    wanted = {id(site) for site in sites if _matches(site.name, tensors)}
    wanted |= {id(site) for site in _read_by(root, sites, ops)}
    return [site for site in sites if id(site) in wanted]


def unmatched(root: Scope, sites: Sequence[Site], tensors: Sequence[str], ops: Sequence[str]) -> str:
    """The patterns that match nothing, as an addition to a note: most likely a typing mistake."""
    idle = [pattern for pattern in tensors if not any(_matches(site.name, [pattern]) for site in sites)]
    idle += [pattern for pattern in ops if not any(_read_by(root, sites, [pattern]))]
    return f"; no stored tensor belongs to {', '.join(map(repr, idle))}" if idle else ""


def _read_by(root: Scope, sites: Sequence[Site], ops: Sequence[str]) -> Iterator[Site]:
    found = {(site.scope, site.name): site for site in sites}
    for scope in root.nested():
        for node in scope.body.node:
            if _is_one_of(node, ops):
                homes = [(home, name) for name in node.input if name for home in _home(scope, name)]
                yield from (found[home] for home in homes if home in found)


def _is_one_of(node: NodeProto, ops: Sequence[str]) -> bool:
    return node.op_type in ops or (bool(node.name) and _matches(node.name, ops))


def _home(scope: Scope, name: str) -> list[Scope]:
    """The innermost scope around a node that defines the name, if one does."""
    return [outer for outer in scope.chain() if name in outer.defined][:1]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def same_content(model: Model, sites: Sequence[Site]) -> list[list[Site]]:
    """The sites in groups of equal type, shape and bytes, most of them alone. Only look-alikes are read."""
    alike = Counter((site.tensor.data_type, tuple(site.tensor.dims)) for site in sites)
    groups: dict[object, list[Site]] = defaultdict(list)
    for site in sites:
        kind = site.tensor.data_type, tuple(site.tensor.dims)
        groups[(kind, tensor_key(model, site.tensor)) if alike[kind] > 1 else kind].append(site)
    return list(groups.values())
