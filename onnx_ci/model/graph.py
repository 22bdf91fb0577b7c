"""Graphs, functions and names of a model: what is nested where, what a name means there, who reads it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_ci.model.proto import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

if TYPE_CHECKING:
    import numpy as np

Body = GraphProto | FunctionProto
STANDARD_DOMAINS = ("", "ai.onnx")
CONSTANTS_IR = 4  # the first IR version in which an initializer need not be a graph input
# Operators that give other numbers at every run, unless they have a seed.
RANDOM_OPS = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"]
)
# Attributes of a Constant that is given in short: their type, the field of the value, the type of elements.
SHORT_CONSTANTS = {
    "value_int": (AttributeProto.INT, "i", "int64"),
    "value_ints": (AttributeProto.INTS, "ints", "int64"),
    "value_float": (AttributeProto.FLOAT, "f", "float32"),
    "value_floats": (AttributeProto.FLOATS, "floats", "float32"),
}
TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs directly inside a node's attributes: branches and loop bodies."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nested(body: Body) -> Iterator[Body]:
    """A graph or function and every graph inside it, outer ones first."""
    yield body
    for node in body.node:
        if node.attribute:  # most nodes of a large graph have none, and a generator for each takes long
            for graph in subgraphs(node):
                yield from nested(graph)


def bodies(model: ModelProto) -> Iterator[Body]:
    """Every list of nodes in the model: the main graph, functions, training graphs, and all inside them."""
    for body in _outermost(model):
        yield from nested(body)


class Nodes:
    """The nodes of a graph or function as plain lists, by their position.

    protobuf makes a new object of all that is asked of a node, each time; these are made once.
    """

    def __init__(self, body: Body) -> None:
        self.ops: list[str] = []
        self.domains: list[str] = []
        self.inputs: list[tuple[str, ...]] = []
        self.outputs: list[tuple[str, ...]] = []
        self.attributed: list[int] = []  # those that have attributes
        self.inside: list[Nodes] = []  # of the graphs in these attributes
        for position, node in enumerate(body.node):
            self.ops.append(node.op_type)
            self.domains.append(node.domain)
            self.inputs.append(tuple(node.input[:]))  # a slice is read at once, not one by one
            self.outputs.append(tuple(node.output[:]))
            if node.attribute:
                self.attributed.append(position)
                self.inside += map(Nodes, subgraphs(node))
        self.made = Counter(filter(None, chain.from_iterable(self.outputs)))

    def within(self, body: Body) -> Iterator[tuple[Body, Nodes]]:
        """A body that has these nodes, and every graph inside it with its own, outer ones first."""
        yield body, self
        for graph, nodes in zip(self.graphs(body), self.inside, strict=True):
            yield from nodes.within(graph)

    def graphs(self, body: Body) -> Iterator[GraphProto]:
        """The graphs directly inside a body that has these nodes."""
        for position in self.attributed if self.inside else ():
            yield from subgraphs(body.node[position])


_last_read: tuple[bytes | None, list[Nodes]] = (None, [])


class Outline:
    """A model and the nodes of each outermost body, as long as none of them is edited.

    Those of the model that was asked for last are not read again: what one method leaves as it is, the next
    one looks at too. To serialize a model takes a fraction of reading its nodes.
    """

    def __init__(self, model: ModelProto, content: bytes | None = None) -> None:
        """`content` is the model as bytes, where that is known."""
        global _last_read
        content = content or model.SerializeToString()
        known, found = _last_read
        if content != known:
            found = [Nodes(body) for body in _outermost(model)]
            _last_read = content, found
        self.model = model
        self.nodes = found


def outline(model: ModelProto | Outline) -> Outline:
    return model if isinstance(model, Outline) else Outline(model)


def nodes_by_body(model: ModelProto | Outline) -> Iterator[tuple[Body, Nodes]]:
    """Each of the `bodies` with its nodes, as they are now."""
    known = outline(model)
    for body, nodes in zip(_outermost(known.model), known.nodes, strict=True):
        yield from nodes.within(body)


def _outermost(model: ModelProto) -> Iterator[Body]:
    yield model.graph
    yield from model.functions
    for training in model.training_info:
        yield training.initialization
        yield training.algorithm


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of the model, wherever it is."""
    for body in bodies(model):
        yield from body.node


def foreign_nodes(model: ModelProto) -> list[NodeProto]:
    """All nodes but calls of the model's own functions, which are made of other nodes."""
    own = {(function.domain, function.name) for function in model.functions}
    return [node for node in all_nodes(model) if (node.domain, node.op_type) not in own]


def attribute_tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    first = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for sparse in (*first, *attribute.sparse_tensors):
        yield from (sparse.values, sparse.indices)


def tensors(model: ModelProto | Outline) -> Iterator[TensorProto]:
    """Every tensor that the model stores, in a fixed order."""
    if not isinstance(model, Outline):
        content = model.SerializeToString()
        if content != _last_read[0]:  # to read all nodes for their few tensors would take longer
            for body in _outermost(model):
                yield from _tensors_in(body, None)
            return
        model = Outline(model, content)
    for body, nodes in zip(_outermost(model.model), model.nodes, strict=True):
        yield from _tensors_in(body, nodes)


def _tensors_in(body: Body, nodes: Nodes | None) -> Iterator[TensorProto]:
    """Those of one body, then those of the graphs inside it; its nodes are passed once."""
    if isinstance(body, GraphProto):
        yield from body.initializer
        for sparse in body.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    else:
        for attribute in body.attribute_proto:
            yield from attribute_tensors(attribute)
    inside: list[GraphProto] = []
    attributed = (body.node[position] for position in nodes.attributed) if nodes else body.node
    for node in attributed:
        if node.attribute:
            inside += subgraphs(node)
            for attribute in node.attribute:
                yield from attribute_tensors(attribute)
    for number, graph in enumerate(inside):
        yield from _tensors_in(graph, nodes.inside[number] if nodes else None)


def type_attributes(node: NodeProto) -> Iterator[AttributeProto]:
    """The attributes that name the element type of what a node gives."""
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT:
            yield attribute


def mentions_type(model: ModelProto, kind: int) -> bool:
    """Whether any value of a model may be of this element type: stored, fed or asked for."""
    if any(tensor.data_type == kind for tensor in tensors(model)):
        return True
    if any(value.type.tensor_type.elem_type == kind for value in model.graph.input):
        return True
    return any(attribute.i == kind for node in all_nodes(model) for attribute in type_attributes(node))


def output_names(body: Body) -> list[str]:
    """The outputs of a graph or a function."""
    if isinstance(body, GraphProto):
        return [value.name for value in body.output]
    return list(body.output)


def captured(node: NodeProto) -> set[str]:
    """The names that graphs inside a node may read from around it."""
    names: set[str] = set()
    for graph in subgraphs(node):
        for body in nested(graph):
            names.update(output_names(body))
            for inner in body.node:
                names.update(inner.input)
    return names


def all_names(model: ModelProto | Outline) -> set[str]:
    """Every value name used anywhere, so that a new one can be chosen that clashes with none."""
    names: set[str] = set()
    for body, nodes in nodes_by_body(model):
        names.update(chain.from_iterable(nodes.inputs), chain.from_iterable(nodes.outputs))
        if isinstance(body, GraphProto):
            for values in (body.input, body.output, body.value_info):
                names.update(value.name for value in values)
            names.update(tensor.name for tensor in body.initializer)
            names.update(sparse.values.name for sparse in body.sparse_initializer)
        else:
            names.update(body.input, body.output)
    return names


def keep_items(message: Any, field_name: str, wanted: Callable[[Any], bool]) -> None:
    """Drop the items of a repeated field that are not wanted."""
    items = list(getattr(message, field_name))
    kept = [item for item in items if wanted(item)]
    if len(kept) < len(items):
        message.ClearField(field_name)
        getattr(message, field_name).extend(kept)


def metadata_entry(model: ModelProto, key: str) -> str | None:
    """The text of an entry of the model's metadata."""
    return next((entry.value for entry in model.metadata_props if entry.key == key), None)


def set_metadata_entry(model: ModelProto, key: str, text: str) -> None:
    """Put an entry at the end of the model's metadata, in place of an older one; an empty one goes."""
    keep_items(model, "metadata_props", lambda entry: entry.key != key)
    if text:
        model.metadata_props.add(key=key, value=text)


def fresh_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted` with the first number that makes it new; the result counts as taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}.{number}"
    taken.add(name)
    return name


def opset(model: ModelProto | FunctionProto, domain: str = "") -> int:
    """The version of a domain the model or function imports; of two imports the last counts, 0 if none."""
    wanted = STANDARD_DOMAINS if domain in STANDARD_DOMAINS else (domain,)
    versions = [entry.version for entry in model.opset_import if entry.domain in wanted]
    return versions[-1] if versions else 0


@dataclass(eq=False)
class Scope:
    """One graph or function body; names defined outside are seen inside unless defined anew."""

    body: Body
    parent: Scope | None = None
    children: list[Scope] = field(default_factory=list)
    defined: Counter[str] = field(default_factory=Counter)
    known: InitVar[Nodes | None] = None
    nodes: Nodes = field(init=False)  # as they are when this is made

    def __post_init__(self, known: Nodes | None) -> None:
        self.nodes = known or Nodes(self.body)
        inside = zip(self.nodes.graphs(self.body), self.nodes.inside, strict=True)
        self.children += [Scope(graph, self, known=nodes) for graph, nodes in inside]
        self.defined.update(self.nodes.made)
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

    def nested_sites(self, fixed: set[str]) -> Iterator[Site]:
        """The `sites` of this body and of all graphs inside it."""
        for scope in self.nested():
            yield from sites(scope, fixed)

    def chain(self) -> list[Scope]:
        """This scope and those around it, innermost first."""
        return [self, *(self.parent.chain() if self.parent else [])]

    def home(self, name: str) -> Scope:
        """The innermost scope that defines a name, as seen from here; the outermost where none does."""
        scope = self
        while scope.parent is not None and name not in scope.defined:
            scope = scope.parent
        return scope

    @cached_property
    def readers(self) -> Mapping[Key, Sequence[Reader]]:
        """Who reads each name, here and in the graphs inside, as it was when this was first asked for."""
        readers: dict[Key, list[Reader]] = defaultdict(list)
        for scope in self.nested():
            for position, inputs in enumerate(scope.nodes.inputs):
                for operand, name in enumerate(inputs):
                    if name:
                        readers[scope.home(name), name].append(Reader(scope, position, operand))
        return dict(readers)


Key = tuple[Scope, str]  # a name, in the scope that defines it


class Reader(NamedTuple):
    """A node, by its position in a scope, that reads a name as one of its inputs."""

    scope: Scope
    position: int
    operand: int

    @property
    def node(self) -> NodeProto:
        node: NodeProto = self.scope.body.node[self.position]
        return node


def opset_in(scope: Scope, model: ModelProto) -> int:
    """The opset that counts in a scope: functions import their own."""
    root = scope.chain()[-1].body
    return opset(root if isinstance(root, FunctionProto) else model)


def common_scope(scopes: Iterable[Scope]) -> Scope:
    """The innermost scope around all of these."""
    chains = [scope.chain() for scope in scopes]
    return next(scope for scope in chains[0] if all(scope in chain for chain in chains))


def roots(model: ModelProto | Outline) -> list[Scope]:
    """The main graph and each function: names never pass from one to another."""
    known = outline(model)
    bodies = (known.model.graph, *known.model.functions)
    return [Scope(body, known=nodes) for body, nodes in zip(bodies, known.nodes, strict=False)]


def defined_twice(root: Scope) -> set[str]:
    """Names that mean one thing here and another there: unfit to be seen from everywhere."""
    seen: set[str] = set()
    twice: set[str] = set()
    for scope in root.nested():
        twice |= seen & scope.defined.keys()
        seen |= scope.defined.keys()
    return twice


@dataclass(eq=False, slots=True)
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
    bound = {*fixed, *output_names(body)}
    if isinstance(body, GraphProto):
        bound.update(value.name for value in body.input)
    for site in stored_in(scope):
        if site.name not in bound and scope.defined[site.name] == 1:
            yield site


def stored_in(scope: Scope) -> Iterator[Site]:
    """Every initializer and every Constant that holds a tensor, of one body."""
    if isinstance(scope.body, GraphProto):
        for tensor in scope.body.initializer:
            yield Site(scope, tensor.name, tensor)
    for node in constant_nodes(scope.body, scope.nodes):
        constant = constant_value(node)
        if constant is not None:
            yield Site(scope, node.output[0], constant, node)


def constant_nodes(body: Body, nodes: Nodes) -> Iterator[NodeProto]:
    """The nodes of a body that are called Constant."""
    for position in nodes.attributed:
        if nodes.ops[position] == "Constant":
            yield body.node[position]


def constant_value(node: NodeProto) -> TensorProto | None:
    """The tensor of a Constant node that holds one."""
    if node.op_type != "Constant" or node.domain not in STANDARD_DOMAINS or len(node.output) != 1:
        return None
    values = [a.t for a in node.attribute if a.name == "value" and a.type == AttributeProto.TENSOR]
    return values[0] if values else None


def short_constant(node: NodeProto) -> np.ndarray[Any, np.dtype[Any]] | None:
    """The numbers of a Constant node that holds some in place of a tensor."""
    if node.op_type != "Constant" or node.domain not in STANDARD_DOMAINS or len(node.output) != 1:
        return None
    for attribute in node.attribute:
        kind, field_name, dtype = SHORT_CONSTANTS.get(attribute.name, (None, "", ""))
        if attribute.type == kind and not attribute.ref_attr_name:
            import numpy as np  # late: most of what walks a graph needs no numbers

            return np.array(getattr(attribute, field_name), dtype)
    return None


def default_inputs(graph: GraphProto) -> list[str]:
    """The inputs of a graph that are initializers too: a caller may give them, and need not."""
    names = [value.name for value in graph.input]
    stored = {tensor.name for tensor in graph.initializer} if names else set()
    stored |= {sparse.values.name for sparse in graph.sparse_initializer}
    return [name for name in names if name in stored]


def fixed_names(model: ModelProto | Outline) -> set[str]:
    """Names that something other than a node refers to: training graphs and quantization notes."""
    known = outline(model)
    names: set[str] = set()
    for training in known.model.training_info:
        for bindings in (training.initialization_binding, training.update_binding):
            names.update(name for entry in bindings for name in (entry.key, entry.value))
        for graph in (training.initialization, training.algorithm):
            names.update(name for node in graph.node for name in node.input)
    for body, _ in nodes_by_body(known):
        if isinstance(body, GraphProto):
            for note in body.quantization_annotation:
                names.update([note.tensor_name, *(e.value for e in note.quant_parameter_tensor_names)])
    return names


def rename_uses(
    scope: Scope, renames: Mapping[Scope, Mapping[str, str]], outer: Mapping[str, str] | None = None
) -> None:
    """Give node inputs their new names, wherever the old name means what it meant in its own scope.

    `outer` are the new names of the scopes around this one."""
    active = {old: new for old, new in (outer or {}).items() if old not in scope.defined}
    active.update(renames.get(scope, {}))
    for position, inputs in enumerate(scope.nodes.inputs):
        if not active.keys().isdisjoint(inputs):
            scope.body.node[position].input[:] = [active.get(name, name) for name in inputs]
    for child in scope.children:
        rename_uses(child, renames, active)
