"""Edits of a graph: nodes and stored tensors replaced, nodes put in order, weights made inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from onnx_ci.model import graph as graphs
from onnx_ci.model.graph import CONSTANTS_IR, Body, Scope, Site
from onnx_ci.model.model import Model
from onnx_ci.model.proto import AttributeProto, GraphProto, NodeProto, TensorProto

Attribute = int | Sequence[int] | None


class Edits:
    """Changes to a graph and the graphs inside it, collected first and made together."""

    def __init__(self, root: Scope) -> None:
        self.root = root
        self.front: dict[Scope, list[NodeProto]] = defaultdict(list)  # nodes to put before all others
        self.removed: dict[Scope, list[Site]] = defaultdict(list)
        self._renames: dict[Scope, dict[str, str]] = defaultdict(dict)

    def store(self, scope: Scope, name: str, tensor: TensorProto, ir_version: int) -> None:
        """Store a further tensor where all that is in a scope can see it."""
        if takes_initializers(scope.body, ir_version):
            scope.body.initializer.append(renamed(tensor, name))
        else:
            self.front[scope].append(constant_node(name, tensor))

    @cached_property
    def shadowed(self) -> set[str]:
        """Names that mean one thing here and another there."""
        return graphs.defined_twice(self.root)

    def name_for(self, site: Site, taken: set[str]) -> str:
        """What takes a site's place is called as it was, unless another graph uses that name too."""
        return graphs.fresh_name(site.name, taken) if site.name in self.shadowed else site.name

    def remove(self, site: Site) -> None:
        self.removed[site.scope].append(site)

    def replace(self, site: Site, name: str) -> None:
        """Remove a stored tensor; what reads it is to read `name` instead."""
        self.remove(site)
        self._renames[site.scope][site.name] = name

    def move_to_front(self, site: Site) -> None:
        """Put a Constant where all can read it."""
        copy = NodeProto()
        copy.CopyFrom(site.node)
        self.front[site.scope].append(copy)
        self.remove(site)

    def make(self) -> None:
        if self._renames:
            graphs.rename_uses(self.root, self._renames)
        # Innermost first: rebuilding a list of nodes copies the graphs inside them.
        for scope in sorted({**self.removed, **self.front}, key=lambda scope: -len(scope.chain())):
            self._make_in(scope)

    def _make_in(self, scope: Scope) -> None:
        constants = {site.name for site in self.removed[scope] if site.node is not None}
        initializers = {site.name for site in self.removed[scope] if site.node is None}

        def change(node: NodeProto) -> list[NodeProto]:
            return [] if node.output and node.output[0] in constants else [node]

        replace_nodes(scope.body, change, front=self.front[scope])
        if isinstance(scope.body, GraphProto):
            drop_named(scope.body, initializers, constants | initializers)


def takes_initializers(body: Body, ir_version: int) -> bool:
    """Before IR 4 every initializer is an input as well; in a function there are none at all."""
    return isinstance(body, GraphProto) and ir_version >= CONSTANTS_IR


def drop_named(graph: GraphProto, initializers: Collection[str], infos: Collection[str]) -> None:
    """Remove initializers and value infos by name."""
    if initializers:
        graphs.keep_items(graph, "initializer", lambda tensor: tensor.name not in initializers)
    if infos:
        graphs.keep_items(graph, "value_info", lambda info: info.name not in infos)


def replace_nodes(
    body: Body, change: Callable[[NodeProto], Sequence[NodeProto]], *, front: Sequence[NodeProto] = ()
) -> None:
    """Replace each node by the nodes `change` gives for it, and put others before them all."""
    nodes = list(front)
    for node in body.node:
        nodes += change(node)
    same = len(nodes) == len(body.node) and all(a is b for a, b in zip(nodes, body.node, strict=True))
    if not same:
        body.ClearField("node")
        body.node.extend(nodes)


def constant_node(name: str, tensor: TensorProto) -> NodeProto:
    node = NodeProto(op_type="Constant", output=[name])
    node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    return node


def make_node(op: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> NodeProto:
    """Return a node whose attributes are whole numbers or lists of them; those that are None are left out."""
    node = NodeProto(op_type=op, input=inputs, output=[output])
    for key, value in attributes.items():
        if isinstance(value, int):
            node.attribute.add(name=key, type=AttributeProto.INT, i=value)
        elif value is not None:
            node.attribute.add(name=key, type=AttributeProto.INTS, ints=value)
    return node


def renamed(tensor: TensorProto, name: str) -> TensorProto:
    """Return a copy of a tensor under another name."""
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def declare_input(graph: GraphProto, tensor: TensorProto) -> None:
    """Add a graph input of the name, type and shape of a tensor."""
    declared = graph.input.add(name=tensor.name).type.tensor_type
    declared.elem_type = tensor.data_type
    declared.shape.SetInParent()
    for dim in tensor.dims:
        declared.shape.dim.add(dim_value=dim)


def sort_nodes(body: Body) -> None:
    """Put nodes in the order they run in, which the standard asks for and some libraries don't keep.

    Inner graphs too. Nodes that stand right stay where they are.
    """
    for node in body.node:
        for graph in graphs.subgraphs(node):
            sort_nodes(graph)
    order = list(_running_order(body))
    if order != list(range(len(body.node))):
        nodes = [body.node[position] for position in order]
        body.ClearField("node")
        body.node.extend(nodes)


def _running_order(body: Body) -> Iterator[int]:
    """Positions, each after those it waits for. Without recursion: graphs are deep."""
    makers = {name: position for position, node in enumerate(body.node) for name in node.output if name}
    done: set[int] = set()
    for start in range(len(body.node)):
        pending = [start]
        waiting: set[int] = set()
        while pending:
            position = pending[-1]
            needed = {*body.node[position].input, *graphs.captured(body.node[position])}
            missing = {makers[name] for name in needed if name in makers} - done - {position}
            if position in done:
                pending.pop()
            elif position in waiting or not missing:  # twice with something missing: a circle, left alone
                done.add(position)
                pending.pop()
                yield position
            else:
                waiting.add(position)
                pending += sorted(missing, reverse=True)


def probe(model: Model, names: Collection[str]) -> tuple[Model, dict[str, list[str]]]:
    """Return the model with these tensors as inputs that have defaults, and what the inputs are called.

    An initializer that is a graph input as well is a default that a caller may override: so weights can be
    exchanged from one run to the next, in one session. Those inside branches and loops are moved out to
    where callers can reach them.
    """
    copy = model.copy()
    root = Scope(copy.proto.graph)
    edits, taken = Edits(root), graphs.all_names(copy.proto)
    inputs: dict[str, list[str]] = defaultdict(list)
    defaults: list[TensorProto] = []
    for site in root.nested_sites(graphs.fixed_names(copy.proto)):
        if site.name in names:
            name = edits.name_for(site, taken)
            edits.replace(site, name)
            inputs[site.name].append(name)
            defaults.append(renamed(site.tensor, name))
    edits.make()
    for tensor in defaults:
        copy.proto.graph.initializer.append(tensor)
        declare_input(copy.proto.graph, tensor)
    copy.proto.ir_version = max(copy.proto.ir_version, CONSTANTS_IR)
    return copy, dict(inputs)
