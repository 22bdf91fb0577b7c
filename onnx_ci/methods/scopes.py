"""Names and where they can be seen: graphs inside graphs, with captures and shadowing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from onnx_ci.model.graphs import Body, bodies, subgraphs
from onnx_ci.model.proto import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


@dataclass(eq=False)
class Scope:
    """One graph or function body; names defined outside are seen inside unless defined anew."""

    body: Body
    parent: Scope | None = None
    children: list[Scope] = field(default_factory=list)
    defined: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for node in self.body.node:
            self.defined.update(filter(None, node.output))
            self.children += [Scope(graph, self) for graph in subgraphs(node)]
        if isinstance(self.body, GraphProto):
            self.defined.update(tensor.name for tensor in self.body.initializer)
            # A graph input that is also an initializer is one name, not two.
            self.defined.update({value.name for value in self.body.input} - self.defined.keys())
            self.defined.update(sparse.values.name for sparse in self.body.sparse_initializer)
        else:
            self.defined.update(self.body.input)

    def nested(self) -> Iterator[Scope]:
        yield self
        for child in self.children:
            yield from child.nested()

    def chain(self) -> list[Scope]:
        """This scope and those around it, innermost first."""
        return [self, *(self.parent.chain() if self.parent else [])]


def roots(model: ModelProto) -> list[Scope]:
    """The main graph and each function: names never pass from one to another."""
    return [Scope(model.graph), *map(Scope, model.functions)]


def defined_twice(root: Scope) -> set[str]:
    """Names that mean one thing here and another there: unfit to be seen from everywhere."""
    seen: set[str] = set()
    twice: set[str] = set()
    for scope in root.nested():
        twice |= seen & scope.defined.keys()
        seen |= scope.defined.keys()
    return twice


@dataclass(frozen=True, eq=False)
class Site:
    """A stored tensor that can be replaced: an initializer, or the value of a Constant node."""

    scope: Scope
    name: str
    tensor: TensorProto
    node: NodeProto | None = None


def sites(scope: Scope, fixed: set[str]) -> Iterator[Site]:
    """The tensors of one body whose only role is to be read by nodes.

    Left out: what a caller may override or receives (graph inputs and outputs), and `fixed` names.
    """
    body = scope.body
    bound = set(fixed)
    if isinstance(body, GraphProto):
        bound.update(value.name for value in (*body.input, *body.output))
        for tensor in body.initializer:
            if tensor.name not in bound and scope.defined[tensor.name] == 1:
                yield Site(scope, tensor.name, tensor)
    else:
        bound.update(body.output)
    for node in body.node:
        tensor = constant_value(node)
        if tensor is not None and node.output[0] not in bound and scope.defined[node.output[0]] == 1:
            yield Site(scope, node.output[0], tensor, node)


def constant_value(node: NodeProto) -> TensorProto | None:
    """The tensor of a Constant node that holds one."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
        return None
    tensors = [a.t for a in node.attribute if a.name == "value" and a.type == AttributeProto.TENSOR]
    return tensors[0] if tensors else None


def fixed_names(model: ModelProto) -> set[str]:
    """Names that something other than a node refers to: training graphs and quantization notes."""
    names: set[str] = set()
    for training in model.training_info:
        for bindings in (training.initialization_binding, training.update_binding):
            names.update(name for entry in bindings for name in (entry.key, entry.value))
        for graph in (training.initialization, training.algorithm):
            names.update(name for node in graph.node for name in node.input)
    for body in bodies(model):
        if isinstance(body, GraphProto):
            for note in body.quantization_annotation:
                names.update([note.tensor_name, *(e.value for e in note.quant_parameter_tensor_names)])
    return names


def rename_uses(scope: Scope, renames: Mapping[Scope, Mapping[str, str]]) -> None:
    """Give node inputs their new names, wherever the old name means what it meant in its own scope."""
    _rename(scope, renames, {})


def _rename(scope: Scope, renames: Mapping[Scope, Mapping[str, str]], inherited: Mapping[str, str]) -> None:
    seen = {old: new for old, new in inherited.items() if old not in scope.defined}
    active = {**seen, **renames.get(scope, {})}
    for node in scope.body.node:
        for position, name in enumerate(node.input):
            if name in active:
                node.input[position] = active[name]
    for child in scope.children:
        _rename(child, renames, active)
