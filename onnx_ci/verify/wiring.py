"""Who uses which value in a model, and what shape its constants have, across subgraphs and functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import onnx
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_ci.model.graphs import subgraphs

Shape = tuple[int, ...]
_COUNTLESS = 1 << 63
_SMALL = 64  # shapes, axes and depths are this short; anything longer is not read


class Op(NamedTuple):
    """A node with its value names made unique: a function's values carry the function's name."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node: NodeProto

    def attribute(self, name: str, default: Any) -> Any:
        return next((helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)


class Wiring:
    """Consumers, producers and constants by value name. Subgraphs capture names from outside, so all
    graphs share one space; a shadowed name at worst makes a guess worse."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.uses: defaultdict[str, list[tuple[Op, int]]] = defaultdict(list)
        self.producer: dict[str, Op] = {}
        self.tensors: dict[str, TensorProto] = {}
        self.aliases: defaultdict[str, list[str]] = defaultdict(list)  # the same value under another name
        self._functions = {(f.domain, f.name): f for f in proto.functions}
        self._add_graph(proto.graph, "")
        for function in proto.functions:
            self._add_nodes(function.node, _scope(function))

    def integers(self, name: str) -> list[int] | None:
        """The values of a short integer constant."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
            return None
        if (
            tensor.data_type not in (TensorProto.INT64, TensorProto.INT32)
            or element_count(tensor.dims) > _SMALL
        ):
            return None
        try:
            return [int(value) for value in numpy_helper.to_array(tensor).reshape(-1)]
        except ValueError:  # fewer bytes than the shape says
            return None

    def _add_graph(self, graph: GraphProto, scope: str) -> None:
        for tensor in graph.initializer:
            self.tensors[scope + tensor.name] = tensor
        for sparse in graph.sparse_initializer:
            name = scope + sparse.values.name
            self.tensors[name] = TensorProto(
                dims=sparse.dims, data_type=sparse.values.data_type, data_location=TensorProto.EXTERNAL
            )
        self._add_nodes(graph.node, scope)

    def _add_nodes(self, nodes: Iterable[NodeProto], scope: str) -> None:
        for node in nodes:
            inputs = tuple(scope + name if name else "" for name in node.input)
            op = Op(node.op_type, inputs, tuple(scope + name for name in node.output), node)
            for index, name in enumerate(op.inputs):
                self.uses[name].append((op, index))
            for name in op.outputs:
                self.producer[name] = op
            if op.type == "Constant" and op.outputs and (tensor := constant_tensor(node)) is not None:
                self.tensors[op.outputs[0]] = tensor
            self._alias_call(op)
            for graph in subgraphs(node):
                self._alias_body(op, graph, scope)
                self._add_graph(graph, scope)

    def _alias_call(self, op: Op) -> None:
        function = self._functions.get((op.node.domain, op.type))
        if function is None:
            return
        inner = _scope(function)
        for outer, name in zip(op.inputs, function.input, strict=False):
            self.aliases[outer].append(inner + name)
        for name, outer in zip(function.output, op.outputs, strict=False):
            self.aliases[inner + name].append(outer)

    def _alias_body(self, op: Op, graph: GraphProto, scope: str) -> None:
        """Loop and Scan hand their operands to the body by position, If by name alone."""
        if op.type in {"Loop", "Scan", "SequenceMap"}:
            for outer, value in zip(op.inputs, graph.input, strict=False):
                self.aliases[outer].append(scope + value.name)


def element_count(dims: Iterable[int]) -> int:
    """Elements of a shape, capped: a hostile shape must neither wrap around nor grow without end."""
    count = 1
    for dim in dims:
        count = min(count * max(dim, 0), _COUNTLESS)
    return count


def constant_tensor(node: NodeProto) -> TensorProto | None:
    """What a Constant node holds, as a tensor."""
    for attribute in node.attribute:
        if attribute.name == "value":
            tensor: TensorProto = attribute.t
            return tensor
        if attribute.name == "value_int":
            return helper.make_tensor("", TensorProto.INT64, [], [attribute.i])
        if attribute.name == "value_ints":
            return helper.make_tensor("", TensorProto.INT64, [len(attribute.ints)], attribute.ints)
        if attribute.name == "value_floats":
            return helper.make_tensor("", TensorProto.FLOAT, [len(attribute.floats)], attribute.floats)
        if attribute.name == "value_float":
            return helper.make_tensor("", TensorProto.FLOAT, [], [attribute.f])
    return None


def _scope(function: FunctionProto) -> str:
    return f"{function.domain}.{function.name}/"
