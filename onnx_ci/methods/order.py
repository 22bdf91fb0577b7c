"""Puts nodes in the order they run in, which the standard asks for and some libraries don't keep."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_ci.model.graphs import Body, nested, subgraphs
from onnx_ci.model.proto import GraphProto, NodeProto


def sort_nodes(body: Body) -> None:
    """Inner graphs too. Nodes that stand right stay where they are."""
    for node in body.node:
        for graph in subgraphs(node):
            sort_nodes(graph)
    order = list(_ordered(body))
    if order != list(range(len(body.node))):
        nodes = [body.node[position] for position in order]
        body.ClearField("node")
        body.node.extend(nodes)


def _ordered(body: Body) -> Iterator[int]:
    """Positions, each after those it waits for. Without recursion: graphs are deep."""
    makers = {name: position for position, node in enumerate(body.node) for name in node.output if name}
    done: set[int] = set()
    for start in range(len(body.node)):
        pending = [start]
        waiting: set[int] = set()
        while pending:
            position = pending[-1]
            missing = {makers[name] for name in _reads(body.node[position]) if name in makers} - done
            missing -= {position}
            if position in done:
                pending.pop()
            elif position in waiting or not missing:  # twice with something missing: a circle, left alone
                done.add(position)
                pending.pop()
                yield position
            else:
                waiting.add(position)
                pending += sorted(missing, reverse=True)


def _reads(node: NodeProto) -> set[str]:
    """What a node needs from the graph it stands in, for the graphs inside it too."""
    names = set(node.input)
    for graph in subgraphs(node):
        for inner in nested(graph):
            names.update(name for item in inner.node for name in item.input)
            if isinstance(inner, GraphProto):
                names.update(value.name for value in inner.output)
    return names
