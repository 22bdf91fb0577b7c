"""Gives chosen values of a graph a narrower type, with a Cast wherever narrow and wide meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onnx_ci.methods.edit import replace_nodes
from onnx_ci.methods.element_types import signature
from onnx_ci.methods.scopes import Site
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import all_names, fresh_name, nested, subgraphs
from onnx_ci.model.proto import AttributeProto, GraphProto, NodeProto

SUFFIX = {1: "f32", 6: "i32"}


@dataclass(frozen=True)
class Narrowing:
    """`chosen` are the type variables that become narrow, by the position of their node; the stored
    tensors in `fit` may be narrowed, those in `large` are."""

    wide: int
    narrow: int
    dtype: type[Any]
    types: dict[str, int]
    fit: dict[str, Site]
    large: set[str]
    chosen: dict[int, set[str]]


@dataclass
class Uses:
    """Who makes and who reads each value, in its narrow form or in its wide one."""

    made_narrow: set[str] = field(default_factory=set)
    read_narrow: set[str] = field(default_factory=set)
    read_wide: set[str] = field(default_factory=set)


def narrow_graph(model: Model, plan: Narrowing) -> int:
    """Edit the main graph; how many stored tensors are narrow now."""
    graph = model.proto.graph
    uses = _uses(model, plan)
    stored = {name for name in plan.fit if name in plan.large or name in uses.read_narrow}
    uses.made_narrow |= stored
    taken = all_names(model.proto)
    names: dict[str, str] = {}
    casts: dict[str, NodeProto] = {}  # by the value that they are made from
    for name in sorted(uses.made_narrow | uses.read_narrow):
        names[name] = name
        if name not in uses.made_narrow or name in uses.read_wide:
            names[name] = fresh_name(f"{name}.{SUFFIX[plan.narrow]}", taken)
            widens = name in uses.made_narrow
            source, made = (names[name], name) if widens else (name, names[name])
            casts[source] = _cast(source, made, plan.wide if widens else plan.narrow)
    for name in sorted(stored):
        _narrow_stored(model, plan.fit[name], names[name], plan)
    for position, input_at, output_at in _places(model, plan):
        _rename(graph.node[position], input_at, output_at, names, plan)
    _place(graph, casts)
    for info in graph.value_info:
        if names.get(info.name) == info.name:
            info.type.tensor_type.elem_type = plan.narrow
    return len(stored)


def _places(model: Model, plan: Narrowing) -> Iterator[tuple[int, list[int], list[int]]]:
    """Which inputs and outputs of which nodes are narrow."""
    for position, variables in plan.chosen.items():
        node = model.proto.graph.node[position]
        rules = signature(model.proto, node)
        if rules is not None:
            inputs = [at for at, kind in enumerate(rules.inputs) if kind in variables and node.input[at]]
            outputs = [at for at, kind in enumerate(rules.outputs) if kind in variables and node.output[at]]
            yield position, inputs, outputs


def _uses(model: Model, plan: Narrowing) -> Uses:
    graph, uses = model.proto.graph, Uses()
    places = {position: (inputs, outputs) for position, inputs, outputs in _places(model, plan)}
    uses.read_wide.update(value.name for value in graph.output)
    for position, node in enumerate(graph.node):
        inputs, outputs = places.get(position, ([], []))
        uses.made_narrow.update(node.output[at] for at in outputs)
        for at, name in enumerate(node.input):
            (uses.read_narrow if at in inputs else uses.read_wide).add(name)
        for inner in subgraphs(node):
            uses.read_wide.update(_captured(inner))
    return uses


def _captured(graph: GraphProto) -> Iterator[str]:
    """The names that a graph inside a node may read from around it."""
    for body in nested(graph):
        for node in body.node:
            yield from node.input
        if isinstance(body, GraphProto):
            yield from (value.name for value in body.output)


def _narrow_stored(model: Model, site: Site, name: str, plan: Narrowing) -> None:
    model.set_array(site.tensor, model.array(site.tensor).astype(plan.dtype))
    if site.node is not None:
        site.node.output[0] = name
    else:
        site.tensor.name = name


def _rename(
    node: NodeProto, inputs: list[int], outputs: list[int], names: dict[str, str], plan: Narrowing
) -> None:
    for at in inputs:
        node.input[at] = names[node.input[at]]
    attribute = with_attribute(node)
    for at in outputs:
        node.output[at] = names[node.output[at]]
        if attribute is not None and attribute.type == AttributeProto.INT:
            attribute.i = plan.narrow
        elif attribute is not None:
            _narrow_value(attribute, plan)


def with_attribute(node: NodeProto) -> AttributeProto | None:
    """The attribute that says of which type an output is, for the operators where one does."""
    name = {"Cast": "to", "ConstantOfShape": "value"}.get(node.op_type)
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _narrow_value(attribute: AttributeProto, plan: Narrowing) -> None:
    from onnx import numpy_helper

    value = numpy_helper.to_array(attribute.t).astype(plan.dtype)
    attribute.t.CopyFrom(numpy_helper.from_array(value, attribute.t.name))


def _cast(source: str, output: str, to: int) -> NodeProto:
    node = NodeProto(op_type="Cast", input=[source], output=[output])
    node.attribute.add(name="to", type=AttributeProto.INT, i=to)
    return node


def _place(graph: GraphProto, casts: dict[str, NodeProto]) -> None:
    """Each Cast right after what makes its input, or in front where that is no node."""
    made = {name for node in graph.node for name in node.output}
    front = [cast for source, cast in casts.items() if source not in made]
    after: dict[str, list[NodeProto]] = defaultdict(list)
    for source, cast in casts.items():
        after[source].append(cast)
    replace_nodes(
        graph, lambda node: [node, *(cast for name in node.output for cast in after[name])], front=front
    )
