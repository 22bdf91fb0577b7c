"""A model's graph as seen by whoever makes up inputs: its inputs, and who makes and uses each value."""

from __future__ import annotations

import re
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
from onnx import TypeProto, ValueInfoProto, helper, numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.model.graph import SHORT_CONSTANTS, default_inputs
from onnx_ci.model.interface import show_type
from onnx_ci.model.proto import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto
from onnx_ci.sandbox.exchange import numpy_dtype
from onnx_ci.util.advice import GIVE_SAMPLES

Shape = tuple[int, ...]
Dims = tuple[int | None, ...]  # None where a size is not known
Dim = int | str | None  # a size, a symbol, or nothing known
Wrap = Literal["optional", "sequence", "map"]

GIVE_YOURSELF = "give its inputs yourself: " + GIVE_SAMPLES
MAP_ENTRIES = 4  # of a map whose keys are not known
_ANONYMOUS = {"", "?", "None", "-1"}
_SHOWN = 8  # names of open dims in a message
_SIGNS = re.compile(r"[\s()+*-]+")
_MOST_AXES = 32  # numpy 1 has no more
_COUNTLESS = 1 << 63
_SMALL = 64  # shapes, axes and depths are this short; anything longer is not read
_MOST_NODES = 200_000  # functions counted at each call: calls of calls multiply
_DEEPEST = 32  # calls within calls


@dataclass(frozen=True, kw_only=True)
class Input:
    """An input that has to be fed."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[Dim, ...]
    ranked: bool = True  # False where the model does not even say how many axes there are
    wraps: tuple[Wrap, ...] = ()  # what the tensor is in, outermost first
    keys: np.dtype[Any] | None = None  # of a map
    numbers_rows: bool = False  # of a table: tokens, even where they come as floats


def fed_inputs(proto: onnx.ModelProto) -> list[ValueInfoProto]:
    """Return the graph's inputs without those that have a default value among the initializers."""
    defaults = set(default_inputs(proto.graph))
    return [value for value in proto.graph.input if value.name not in defaults]


def dims_of(tensor: TypeProto.Tensor) -> tuple[Dim, ...] | None:
    """Return sizes, symbols, and None where nothing is said; some exporters write -1 for that."""
    if not tensor.HasField("shape"):
        return None
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        else:
            dims.append(None if dim.dim_param in _ANONYMOUS else dim.dim_param)
    return tuple(dims)


def unwrap(kind: TypeProto) -> tuple[TypeProto.Tensor, tuple[Wrap, ...], np.dtype[Any] | None] | None:
    """Return the tensor inside, what it is in, and the type of a map's keys; None where it can't be fed."""
    wraps: list[Wrap] = []
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        wraps.append("sequence" if which == "sequence_type" else "optional")
        kind = getattr(kind, which).elem_type
    if which == "tensor_type" and len(wraps) == len(set(wraps)):
        return kind.tensor_type, tuple(wraps), None
    if which == "map_type" and wraps in ([], ["sequence"]):
        value = kind.map_type.value_type
        keys = numpy_dtype(kind.map_type.key_type)
        if value.WhichOneof("value") == "tensor_type" and keys is not None:
            numbers = TypeProto.Tensor(elem_type=value.tensor_type.elem_type or TensorProto.FLOAT)
            numbers.shape.dim.add().dim_value = MAP_ENTRIES
            return numbers, (*wraps, "map"), keys
    return None


def read_input(value: ValueInfoProto) -> Input:
    """Return what is declared of an input; ModelError where no values can be made up for it."""
    unwrapped = unwrap(value.type)
    if unwrapped is None:
        raise _unfit(value, f"is {show_type(value.type)}, for which no values can be made up")
    tensor, wraps, keys = unwrapped
    dtype = numpy_dtype(tensor.elem_type)
    if dtype is None:
        update = "update the packages numpy, onnx and ml_dtypes"
        raise _unfit(value, f"has element type {tensor.elem_type}, unknown to numpy", update)
    dims = dims_of(tensor) or ()
    if len(dims) > _MOST_AXES:
        raise _unfit(value, f"has {len(dims)} axes, more than the {_MOST_AXES} that can be made up")
    ranked = tensor.HasField("shape")
    return Input(name=value.name, dtype=dtype, dims=dims, ranked=ranked, wraps=wraps, keys=keys)


def _unfit(value: ValueInfoProto, what: str, hint: str = GIVE_YOURSELF) -> ModelError:
    return ModelError(f"input {value.name!r} {what}", hint=hint, code="OCI005")


def unknown_dims(proto: onnx.ModelProto, given: Iterable[str]) -> str:
    """Return what is wrong with names that a user gave for open sizes; "" if each stands for one."""
    symbols: list[str] = []
    for value in fed_inputs(proto):
        unwrapped = unwrap(value.type)
        if unwrapped is not None:
            symbols += [dim for dim in dims_of(unwrapped[0]) or () if isinstance(dim, str)]
    there = list(dict.fromkeys(symbols))  # `past + 1` counts as a whole
    known = {*there, *(part for dim in there for part in _SIGNS.split(dim))}
    unknown = [name for name in given if name not in known]
    if not unknown:
        return ""
    have = "its inputs have no named dim that is open"
    if there:
        have = f"its inputs leave open: {', '.join(there[:_SHOWN])}{', …' if len(there) > _SHOWN else ''}"
    return f"no dim of the model is called {', '.join(map(repr, unknown))}; {have}"


class Op(NamedTuple):
    """A node with its value names made unique; `given` are the attributes of the call it is part of."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node: NodeProto
    given: Mapping[str, AttributeProto] = {}

    def attribute(self, name: str, default: Any) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                given = self.given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
                return default if given is None else helper.get_attribute_value(given)
        return default

    def input(self, index: int) -> str:
        """Return the name of an operand; "" where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""


class IfNode(NamedTuple):
    """An If: its key, its condition, and the conditions under which it is reached at all."""

    key: str
    op: Op
    condition: str
    under: tuple[tuple[str, bool], ...]


class _Scope(NamedTuple):
    """A graph or a call: its names, its key, the attributes of the call, and the conditions it is under."""

    prefix: str  # of the names that it defines
    names: ChainMap[str, str]  # unique ones by those that it defines, and by those of the graphs around it
    key: str
    given: Mapping[str, AttributeProto]
    under: tuple[tuple[str, bool], ...]
    within: tuple[str, ...] = ()  # the functions whose bodies are around

    def define(self, names: Iterable[str]) -> None:
        self.names.maps[0].update({name: self.prefix + name for name in names if name})

    def unique(self, name: str) -> str:
        for known in self.names.maps:  # each once; a ChainMap would look twice
            if name in known:
                return known[name]
        return self.prefix + name


def node_key(scope: str, index: int) -> str:
    """Return a key that tells one node from all others, wherever it is nested."""
    return f"{scope}/{index}"


def function_key(function: FunctionProto) -> str:
    return f"{function.domain}.{function.name}:"


class UseDef:
    """Uses, producers and constants by value name.

    A value of the main graph keeps its name; those of subgraphs and of functions, which count as often as
    they are called, get a name of their own.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.uses: defaultdict[str, list[tuple[Op, int]]] = defaultdict(list)
        self.producer: dict[str, Op] = {}
        self.tensors: dict[str, TensorProto] = {}
        self.aliases: defaultdict[str, list[str]] = defaultdict(list)  # the same value under another name
        self.origins: defaultdict[str, list[str]] = defaultdict(list)  # aliases, the other way round
        self.declared: dict[str, onnx.TypeProto] = {}
        self.branches: list[IfNode] = []
        self._functions = {(f.domain, f.name): f for f in proto.functions}
        self._numbers = count(1)
        self._left = _MOST_NODES
        self._add_graph(proto.graph, _Scope("", ChainMap(), "", {}, ()))

    def integers(self, name: str) -> list[int] | None:
        """Return the values of a short integer constant."""
        values = self.numbers(name, (TensorProto.INT64, TensorProto.INT32))
        return None if values is None else [int(value) for value in values]

    def numbers(self, name: str, types: Iterable[int] | None = None) -> list[float] | None:
        """Return the values of a short constant."""
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
        """Return the value itself, where `name` is another name for it in a loop or behind an Identity."""
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

    def back(self, name: str, steps: int) -> Iterator[Op]:
        """Yield the node that makes a value, the one that makes its first operand, and so on."""
        for _ in range(steps):
            op = self.producer.get(self.source(name))
            if op is None:
                return
            yield op
            name = op.input(0)

    def _alias(self, outer: str, inner: str) -> None:
        if outer and inner:
            self.aliases[outer].append(inner)
            self.origins[inner].append(outer)

    def _add_graph(self, graph: GraphProto, scope: _Scope) -> None:
        scope.define(value.name for value in graph.input)
        scope.define(tensor.name for tensor in graph.initializer)
        scope.define(sparse.values.name for sparse in graph.sparse_initializer)
        scope.define(name for node in graph.node for name in node.output)
        for tensor in graph.initializer:
            self.tensors[scope.unique(tensor.name)] = tensor
        for sparse in graph.sparse_initializer:
            self.tensors[scope.unique(sparse.values.name)] = TensorProto(
                dims=sparse.dims, data_type=sparse.values.data_type, data_location=TensorProto.EXTERNAL
            )
        for value in (*graph.value_info, *graph.input, *graph.output):
            self.declared[scope.unique(value.name)] = value.type
        self._add_nodes(graph.node, scope)

    def _add_nodes(self, nodes: Iterable[NodeProto], scope: _Scope) -> None:
        for index, node in enumerate(nodes):
            self._left -= 1
            if self._left < 0:
                return
            inputs = tuple(scope.unique(name) if name else "" for name in node.input)
            op = Op(node.op_type, inputs, tuple(map(scope.unique, node.output)), node, scope.given)
            function = self._functions.get((node.domain, node.op_type))
            if function is not None:
                self._add_call(op, function, scope)
            else:
                self._add_op(op, scope, node_key(scope.key, index))

    def _add_op(self, op: Op, scope: _Scope, key: str) -> None:
        for index, name in enumerate(op.inputs):
            self.uses[name].append((op, index))
        for name in op.outputs:
            self.producer[name] = op
        if op.type == "Constant" and op.outputs and (tensor := _constant_tensor(op)) is not None:
            self.tensors[op.outputs[0]] = tensor
        if op.type == "If" and op.inputs:
            self.branches.append(IfNode(key, op, op.inputs[0], scope.under))
        for attribute in op.node.attribute:
            for graph in (attribute.g,) if attribute.HasField("g") else attribute.graphs:
                inner = self._inside(op, attribute.name, scope, f"{key}.{attribute.name}")
                self._add_graph(graph, inner)
                self._alias_body(op, graph, inner)

    def _inside(self, op: Op, attribute: str, scope: _Scope, key: str) -> _Scope:
        under = scope.under
        if op.type == "If" and op.inputs:
            under = (*under, (op.inputs[0], attribute == "then_branch"))
        names = scope.names.new_child()
        return _Scope(f"{next(self._numbers)}\0", names, key, scope.given, under, scope.within)

    def _add_call(self, op: Op, function: FunctionProto, scope: _Scope) -> None:
        """Add the function's body as if it were written out here."""
        here = function_key(function)
        if here in scope.within or len(scope.within) >= _DEEPEST:
            return  # one that calls itself is no model, and must not keep us here
        given = {a.name: a for a in (*function.attribute_proto, *op.node.attribute)}
        within = (*scope.within, here)
        inner = _Scope(f"{next(self._numbers)}\0", ChainMap(), here, given, scope.under, within)
        inner.define(name for node in function.node for name in node.output)
        inner.names.update(dict.fromkeys(function.input, ""))
        inner.names.update(zip(function.output, op.outputs, strict=False))
        inner.names.update(zip(function.input, op.inputs, strict=False))
        self._add_nodes(function.node, inner)

    def _alias_body(self, op: Op, graph: GraphProto, scope: _Scope) -> None:
        """Note what Loop and Scan hand to their bodies by position; If does so by name alone."""
        given = [scope.unique(value.name) for value in graph.input]
        results = [scope.unique(value.name) for value in graph.output]
        if op.type in {"Loop", "Scan", "SequenceMap"}:
            for outer, inner in zip(op.inputs, given, strict=False):
                self._alias(outer, inner)
        if op.type == "Loop":  # the first of what a body gives is whether to go on
            results = results[1:]
            for inner, again in zip(results, given[2:], strict=False):
                self._alias(inner, again)
        for inner, outer in zip(results, op.outputs, strict=False):
            self._alias(inner, outer)


def element_count(dims: Iterable[int]) -> int:
    """Return the elements of a shape, capped: a hostile one must neither wrap around nor grow without end."""
    total = 1
    for dim in dims:
        total = min(total * max(dim, 0), _COUNTLESS)
    return total


def _constant_tensor(op: Op) -> TensorProto | None:
    """Return what a Constant node holds."""
    for attribute in op.node.attribute:
        value = op.attribute(attribute.name, None)
        if attribute.name == "value" and isinstance(value, TensorProto):
            return value
        if attribute.name in SHORT_CONSTANTS:
            return numpy_helper.from_array(np.array(value, SHORT_CONSTANTS[attribute.name][-1]))
    return None
