"""Edits of whole node and tensor lists, in one pass each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from onnx_ci.methods.scopes import Scope, Site
from onnx_ci.model.graphs import Body
from onnx_ci.model.proto import AttributeProto, GraphProto, NodeProto, TensorProto


def remove_sites(removed: Iterable[Site], front: Mapping[Scope, Sequence[NodeProto]]) -> None:
    """Take stored tensors out of their bodies, and put nodes at the front of some."""
    by_scope: dict[Scope, list[Site]] = defaultdict(list)
    for site in removed:
        by_scope[site.scope].append(site)
    # Innermost first: rebuilding a list of nodes copies the graphs inside them.
    for scope in sorted({**by_scope, **front}, key=lambda scope: -len(scope.chain())):
        constants = {site.name for site in by_scope[scope] if site.node is not None}
        initializers = {site.name for site in by_scope[scope] if site.node is None}
        replace_nodes(
            scope.body,
            lambda node, names=constants: [] if node.output and node.output[0] in names else [node],  # type: ignore[misc]
            front=front.get(scope, ()),
        )
        if isinstance(scope.body, GraphProto):
            drop_named(scope.body, initializers, constants | initializers)


def move_to_front(site: Site, front: dict[Scope, list[NodeProto]]) -> None:
    """Put a copy of a Constant where all can read it; its site is to be removed along with others."""
    copy = NodeProto()
    copy.CopyFrom(site.node)
    front[site.scope].append(copy)


def drop_named(graph: GraphProto, initializers: set[str], infos: set[str]) -> None:
    """Remove initializers and value infos by name."""
    if initializers:
        kept = [tensor for tensor in graph.initializer if tensor.name not in initializers]
        graph.ClearField("initializer")
        graph.initializer.extend(kept)
    if any(info.name in infos for info in graph.value_info):
        left = [info for info in graph.value_info if info.name not in infos]
        graph.ClearField("value_info")
        graph.value_info.extend(left)


def replace_nodes(
    body: Body, change: Callable[[NodeProto], Sequence[NodeProto]], *, front: Sequence[NodeProto] = ()
) -> None:
    """Replace each node by the nodes `change` gives for it, and put others before them all."""
    nodes = [*front, *(new for node in body.node for new in change(node))]
    if (
        len(nodes) == len(body.node)
        and not front
        and all(a is b for a, b in zip(nodes, body.node, strict=True))
    ):
        return
    body.ClearField("node")
    body.node.extend(nodes)


def constant_node(name: str, tensor: TensorProto) -> NodeProto:
    node = NodeProto(op_type="Constant", output=[name])
    node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    return node


def cast_to_float(source: str, output: str, name: str) -> NodeProto:
    return cast_node(source, output, name, TensorProto.FLOAT)


def cast_node(source: str, output: str, name: str, to: int) -> NodeProto:
    node = NodeProto(op_type="Cast", input=[source], output=[output], name=name)
    node.attribute.add(name="to", type=AttributeProto.INT, i=to)
    return node
