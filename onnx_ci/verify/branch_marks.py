"""A copy of a model that tells which branches of its Ifs ran: each If gets one more output, two counts."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_ci.model.graph import Body, all_names, fresh_name, opset
from onnx_ci.verify.scoped_names import key_of, place_of

_FIRST_OPSET = 9  # before, Scan had another form, and numbers were stretched otherwise


class Mark(NamedTuple):
    """Where the counts of one If are: how often the first branch ran, and the second."""

    key: str
    value: str


def marked(proto: ModelProto) -> list[Mark]:
    """Edits the model in place: its outputs are the marks, and nothing else. Without Ifs there are none."""
    if opset(proto) < _FIRST_OPSET:
        return []
    marker = _Marker(proto)
    marks = marker.body(proto.graph, "")
    del proto.graph.output[:]
    proto.graph.output.extend(_info(mark.value) for mark in marks)
    return marks


class _Marker:
    def __init__(self, proto: ModelProto) -> None:
        self.prefix = fresh_name("mark", all_names(proto))
        self.numbers = count()
        self.functions = {(f.domain, f.name): f for f in proto.functions}
        self.done: dict[tuple[str, str], list[Mark]] = {}

    def body(self, body: Body, place: str) -> list[Mark]:
        """The marks of all Ifs in here, as values of this body."""
        nodes = list(body.node)
        marks: list[Mark] = []
        made: list[NodeProto] = []
        for index, node in enumerate(nodes):
            before: list[NodeProto] = []
            found = self._node(node, key_of(place, index), before)
            made += [*before, node]
            if node.op_type == "If" and node.input and node.domain in ("", "ai.onnx"):
                found.append(Mark(key_of(place, index), self._both(node.input[0], made)))
            marks += found
        marks = self._joined(marks, made)
        del body.node[:]
        body.node.extend(made)
        return marks

    def _node(self, node: NodeProto, key: str, before: list[NodeProto]) -> list[Mark]:
        if (node.domain, node.op_type) in self.functions:
            return self._call(node)
        if node.op_type == "If":
            return self._if(node, key)
        if node.op_type == "Loop":
            return self._repeated(node, key, len(node.input) - 2, 1, 2, before)
        if node.op_type == "Scan":
            scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
            return self._repeated(node, key, len(node.input) - scanned, 0, 0, before)
        return []

    def _if(self, node: NodeProto, key: str) -> list[Mark]:
        graphs = [(a.name, a.g) for a in node.attribute if a.name in ("then_branch", "else_branch")]
        inner = [self.body(graph, f"{key}.{name}") for name, graph in graphs]
        found = []
        for side, marks in enumerate(inner):
            for mark in marks:
                for other, (_, graph) in enumerate(graphs):
                    value = mark.value if other == side else self._nothing(graph)
                    graph.output.append(_info(value))
                found.append(Mark(mark.key, self._name()))
                node.output.append(found[-1].value)
        return found

    def _repeated(
        self, node: NodeProto, key: str, states: int, leading: int, given: int, before: list[NodeProto]
    ) -> list[Mark]:
        """A loop carries the counts along as further state. `leading` outputs and `given` inputs of its body
        come before the state."""
        graph = next((a.g for a in node.attribute if a.name == "body"), None)
        if graph is None:
            return []
        found = []
        for mark in self.body(graph, f"{key}.body"):
            carried, total, result, zero = (self._name() for _ in range(4))
            graph.node.append(helper.make_node("Add", [carried, mark.value], [total]))
            _insert(graph.input, given + states, _info(carried))
            _insert(graph.output, leading + states, _info(total))
            before.append(_zeros(zero))
            _insert(node.input, given + states, zero)
            _insert(node.output, states, result)
            states += 1
            found.append(Mark(mark.key, result))
        return found

    def _call(self, node: NodeProto) -> list[Mark]:
        function = self.functions[node.domain, node.op_type]
        known = (function.domain, function.name)
        outputs = len(function.output)
        if known not in self.done:
            self.done[known] = []  # one that calls itself is not a model, and must not keep us here
            self.done[known] = self.body(function, place_of(function))
            function.output.extend(mark.value for mark in self.done[known])
        else:
            outputs -= len(self.done[known])
        if not self.done[known]:
            return []
        node.output.extend([""] * (outputs - len(node.output)))
        found = [Mark(mark.key, self._name()) for mark in self.done[known]]
        node.output.extend(mark.value for mark in found)
        return found

    def _both(self, condition: str, made: list[NodeProto]) -> str:
        """[1, 0] where the condition holds, [0, 1] where it does not."""
        number, shape, flat, one, other, both = (self._name() for _ in range(6))
        made += [
            helper.make_node("Cast", [condition], [number], to=TensorProto.FLOAT),
            _constant(shape, TensorProto.INT64, [1]),
            helper.make_node("Reshape", [number, shape], [flat]),
            _constant(one, TensorProto.FLOAT, [1.0]),
            helper.make_node("Sub", [one, flat], [other]),
            helper.make_node("Concat", [flat, other], [both], axis=0),
        ]
        return both

    def _joined(self, marks: list[Mark], made: list[NodeProto]) -> list[Mark]:
        """Calls of one function count together."""
        found: dict[str, str] = {}
        for mark in marks:
            if mark.key in found:
                total = self._name()
                made.append(helper.make_node("Add", [found[mark.key], mark.value], [total]))
                found[mark.key] = total
            else:
                found[mark.key] = mark.value
        return [Mark(key, value) for key, value in found.items()]

    def _nothing(self, graph: GraphProto) -> str:
        name = self._name()
        graph.node.append(_zeros(name))
        return name

    def _name(self) -> str:
        return f"{self.prefix}.{next(self.numbers)}"


def _info(name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def _zeros(name: str) -> NodeProto:
    return _constant(name, TensorProto.FLOAT, [0.0, 0.0])


def _constant(name: str, code: int, values: list[float]) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=helper.make_tensor("", code, [len(values)], values))


def _insert(items: Any, index: int, item: Any) -> None:
    rest = list(items)
    del items[:]
    items.extend([*rest[:index], item, *rest[index:]])
