"""Who uses which value in a model, and what shape its constants have, across subgraphs and functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_ci.verify.scoped_names import Names, key_of, place_of

Shape = tuple[int, ...]
_COUNTLESS = 1 << 63
_SMALL = 64  # shapes, axes and depths are this short; anything longer is not read
_MOST = 200_000  # nodes, functions counted at each call: calls of calls multiply
_DEEPEST = 32  # calls within calls


class Op(NamedTuple):
    """A node with its value names made unique; `given` are the attributes of the call it is part of."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node: NodeProto
    given: Mapping[str, AttributeProto] = {}

    def attribute(self, name: str, default: Any) -> Any:
        found = next((a for a in self.node.attribute if a.name == name), None)
        if found is not None and found.ref_attr_name:
            found = self.given.get(found.ref_attr_name)
        return default if found is None else helper.get_attribute_value(found)


class Branch(NamedTuple):
    """An If: where it is, its condition, and the conditions under which it is come to at all."""

    key: str
    op: Op
    condition: str
    under: tuple[tuple[str, bool], ...]


class _Place(NamedTuple):
    """A graph or a call: its names, its key, the attributes of the call, and the conditions it is under."""

    names: Names
    key: str
    given: Mapping[str, AttributeProto]
    under: tuple[tuple[str, bool], ...]
    within: tuple[str, ...] = ()  # the functions whose bodies are around


class Wiring:
    """Consumers, producers and constants by value name. A value of the main graph keeps its name; those of
    subgraphs and of functions, which count as often as they are called, get a name of their own."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.uses: defaultdict[str, list[tuple[Op, int]]] = defaultdict(list)
        self.producer: dict[str, Op] = {}
        self.tensors: dict[str, TensorProto] = {}
        self.aliases: defaultdict[str, list[str]] = defaultdict(list)  # the same value under another name
        self.origins: defaultdict[str, list[str]] = defaultdict(list)  # aliases, the other way round
        self.declared: dict[str, onnx.TypeProto] = {}
        self.branches: list[Branch] = []
        self._functions = {(f.domain, f.name): f for f in proto.functions}
        self._numbers = count(1)
        self._left = _MOST
        self._add_graph(proto.graph, _Place(Names(""), "", {}, ()))

    def integers(self, name: str) -> list[int] | None:
        """The values of a short integer constant."""
        values = self.numbers(name, (TensorProto.INT64, TensorProto.INT32))
        return None if values is None else [int(value) for value in values]

    def numbers(self, name: str, types: Iterable[int] | None = None) -> list[float] | None:
        """The values of a short constant."""
        tensor = self.tensors.get(self.source(name))
        if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
            return None
        if tensor.data_type == TensorProto.STRING or element_count(tensor.dims) > _SMALL:
            return None
        if types is not None and tensor.data_type not in types:
            return None
        try:
            return list(numpy_helper.to_array(tensor).reshape(-1).tolist())
        except (ValueError, TypeError):  # fewer bytes than the shape says, or a type unheard of
            return None

    def source(self, name: str, depth: int = 16) -> str:
        """The value itself, where `name` is another name for it in a loop or behind an Identity."""
        for _ in range(depth):
            origins = self.origins.get(name, [])
            op = self.producer.get(name)
            if name in self.tensors:
                return name
            if len(origins) == 1 and origins[0] != name:
                name = origins[0]
            elif op is not None and op.type == "Identity" and op.inputs:
                name = op.inputs[0]
            else:
                return name
        return name

    def _alias(self, outer: str, inner: str) -> None:
        if outer and inner:
            self.aliases[outer].append(inner)
            self.origins[inner].append(outer)

    def _add_graph(self, graph: GraphProto, place: _Place) -> None:
        names = place.names
        names.define(value.name for value in graph.input)
        names.define(tensor.name for tensor in graph.initializer)
        names.define(sparse.values.name for sparse in graph.sparse_initializer)
        names.define(name for node in graph.node for name in node.output)
        for tensor in graph.initializer:
            self.tensors[names.of(tensor.name)] = tensor
        for sparse in graph.sparse_initializer:
            self.tensors[names.of(sparse.values.name)] = TensorProto(
                dims=sparse.dims, data_type=sparse.values.data_type, data_location=TensorProto.EXTERNAL
            )
        for value in (*graph.value_info, *graph.input, *graph.output):
            self.declared[names.of(value.name)] = value.type
        self._add_nodes(graph.node, place)

    def _add_nodes(self, nodes: Iterable[NodeProto], place: _Place) -> None:
        for index, node in enumerate(nodes):
            self._left -= 1
            if self._left < 0:
                return
            of = place.names.of
            inputs = tuple(of(name) if name else "" for name in node.input)
            op = Op(node.op_type, inputs, tuple(of(name) for name in node.output), node, place.given)
            function = self._functions.get((node.domain, node.op_type))
            if function is not None:
                self._add_call(op, function, place)
            else:
                self._add_op(op, place, key_of(place.key, index))

    def _add_op(self, op: Op, place: _Place, key: str) -> None:
        for index, name in enumerate(op.inputs):
            self.uses[name].append((op, index))
        for name in op.outputs:
            self.producer[name] = op
        if op.type == "Constant" and op.outputs and (tensor := constant_tensor(op)) is not None:
            self.tensors[op.outputs[0]] = tensor
        if op.type == "If" and op.inputs:
            self.branches.append(Branch(key, op, op.inputs[0], place.under))
        for attribute in op.node.attribute:
            for graph in (attribute.g,) if attribute.HasField("g") else attribute.graphs:
                inner = self._inside(op, attribute.name, place, f"{key}.{attribute.name}")
                self._add_graph(graph, inner)
                self._alias_body(op, graph, inner.names)

    def _inside(self, op: Op, attribute: str, place: _Place, key: str) -> _Place:
        names = Names(f"{next(self._numbers)}\0", place.names)
        under = place.under
        if op.type == "If" and op.inputs:
            under = (*under, (op.inputs[0], attribute == "then_branch"))
        return _Place(names, key, place.given, under, place.within)

    def _add_call(self, op: Op, function: FunctionProto, place: _Place) -> None:
        """The function's body, as if it were written out here."""
        here = place_of(function)
        if here in place.within or len(place.within) >= _DEEPEST:
            return  # one that calls itself is no model, and must not keep us here
        inner = Names(f"{next(self._numbers)}\0")
        inner.define(name for node in function.node for name in node.output)
        inner.bind(dict.fromkeys(function.input, ""))
        inner.bind(dict(zip(function.output, op.outputs, strict=False)))
        inner.bind(dict(zip(function.input, op.inputs, strict=False)))
        given = {a.name: a for a in (*function.attribute_proto, *op.node.attribute)}
        within = (*place.within, here)
        self._add_nodes(function.node, _Place(inner, here, given, place.under, within))

    def _alias_body(self, op: Op, graph: GraphProto, names: Names) -> None:
        """Loop and Scan hand their operands to the body by position, If by name alone."""
        given = [names.of(value.name) for value in graph.input]
        made = [names.of(value.name) for value in graph.output]
        if op.type in {"Loop", "Scan", "SequenceMap"}:
            for outer, inner in zip(op.inputs, given, strict=False):
                self._alias(outer, inner)
        if op.type == "Loop":  # the first of what a body gives is whether to go on
            made = made[1:]
            for inner, again in zip(made, given[2:], strict=False):
                self._alias(inner, again)
        for inner, outer in zip(made, op.outputs, strict=False):
            self._alias(inner, outer)


def element_count(dims: Iterable[int]) -> int:
    """Elements of a shape, capped: a hostile shape must neither wrap around nor grow without end."""
    count = 1
    for dim in dims:
        count = min(count * max(dim, 0), _COUNTLESS)
    return count


def constant_tensor(op: Op) -> TensorProto | None:
    """What a Constant node holds, as a tensor."""
    for attribute in op.node.attribute:
        value = op.attribute(attribute.name, None)
        if attribute.name == "value" and isinstance(value, TensorProto):
            return value
        if attribute.name == "value_int":
            return helper.make_tensor("", TensorProto.INT64, [], [value])
        if attribute.name == "value_ints":
            return helper.make_tensor("", TensorProto.INT64, [len(value)], value)
        if attribute.name == "value_floats":
            return helper.make_tensor("", TensorProto.FLOAT, [len(value)], value)
        if attribute.name == "value_float":
            return helper.make_tensor("", TensorProto.FLOAT, [], [value])
    return None
