"""Computes and stores float64 as float32, and int64 as int32 where every value is known to fit.

What is narrowed is decided for each type variable of each operator, by the standard's own schemas; where
narrow and wide values meet, at inputs and outputs of the model too, a Cast stands between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.edit import cast_node, declare_input, replace_nodes
from onnx_ci.methods.options import Downcast
from onnx_ci.methods.rounding import Array
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.model.graph import (
    STANDARD_DOMAINS,
    Scope,
    Site,
    all_names,
    captured,
    fixed_names,
    fresh_name,
    keep_items,
    opset,
    output_names,
    sites,
)
from onnx_ci.model.model import LARGE, Model, stored_size
from onnx_ci.model.proto import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, full_onnx

# Operators whose outputs hold nothing but elements of their inputs: what fits before, fits after.
MOVING = {
    *("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Concat"),
    *("Gather", "GatherElements", "GatherND", "Expand", "Tile", "Where", "ScatterElements", "ScatterND"),
    *("Compress", "Max", "Min"),
}
# Others that onnxruntime runs on int32 as it does on int64, to the same result.
READING = {"Cast", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Shape", "Size", "NonZero"}


@dataclass(frozen=True)
class TypePair:
    """One type and the narrower one that takes its place."""

    wide: int
    narrow: int
    narrow_name: str
    dtype: type[np.generic]
    suffix: str
    fits: Callable[[Array], bool]


def float_fits(values: Array) -> bool:
    """No number becomes infinite or vanishes; whole numbers (ids, times) stay what they are."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not np.array_equal(np.isfinite(narrow), np.isfinite(values)):
        return False
    if not np.array_equal(narrow == 0, values == 0):
        return False
    whole = np.array_equal(values, np.rint(values))
    return not whole or np.array_equal(narrow, values)


def int_fits(values: Array) -> bool:
    limits = np.iinfo(np.int32)
    return bool(values.min(initial=0) >= limits.min and values.max(initial=0) <= limits.max)


FLOAT = TypePair(TensorProto.DOUBLE, TensorProto.FLOAT, "tensor(float)", np.float32, "f32", float_fits)
INT = TypePair(TensorProto.INT64, TensorProto.INT32, "tensor(int32)", np.int32, "i32", int_fits)


def downcast(model: Model, options: Downcast) -> Applied:
    if model.proto.training_info:
        return Applied(0, "left alone: it has training graphs")
    count, notes = 0, []
    for wanted, pair in ((options.float64, FLOAT), (options.int64, INT)):
        try:
            count += _downcast(model, pair) if wanted else 0
        except TypesDoNotFit as error:
            notes.append(f"types could not be checked: {error}")
    return Applied(count, "; ".join(notes))


@dataclass(frozen=True)
class KnownTypes:
    """What is known of the main graph: types of its values, and the stored tensors of the wide type.

    Those that `fit` may be narrowed, the `large` ones among them are.
    """

    pair: TypePair
    types: dict[str, int]
    fit: dict[str, Site]
    unfit: set[str]
    large: set[str]


Chosen = dict[int, set[str]]  # the type variables that become narrow, by the position of their node


def _downcast(model: Model, pair: TypePair) -> int:
    """On a copy, which takes the model's place only if onnx finds its types in order."""
    tried = model.copy()
    fixed = fixed_names(tried.proto) | encoding_parts(tried.proto)
    found = [s for s in sites(Scope(tried.proto.graph), fixed) if s.tensor.data_type == pair.wide]
    if not any(map(_is_large, found)):
        return 0
    fit = {site.name: site for site in found if pair.fits(tried.array(site.tensor))}
    large = {name for name, site in fit.items() if _is_large(site)}
    known = KnownTypes(pair, inferred(tried.proto), fit, {site.name for site in found} - fit.keys(), large)
    if not large:
        return 0
    chosen = _floats(tried, known) if pair is FLOAT else _integers(tried, known)
    count = _narrow_graph(tried, known, chosen)
    inferred(tried.proto)
    model.proto.CopyFrom(tried.proto)
    return count


def _is_large(site: Site) -> bool:
    return stored_size(site.tensor) >= LARGE


def _floats(model: Model, known: KnownTypes) -> Chosen:
    """What can be float32 instead of float64."""
    pair = known.pair
    chosen: Chosen = defaultdict(set)
    for position, node, rules in _standard_nodes(model):
        for variable in rules.allowed:
            read, made = rules.names(node, variable)
            names = {*read, *made}
            wide = all(known.types.get(name) == pair.wide for name in names) and not names & known.unfit
            decided = bool(read) or (bool(made) and type_attribute(node) is not None)
            if wide and decided and pair.narrow_name in rules.allowed[variable]:
                chosen[position].add(variable)
    return chosen


def _integers(model: Model, known: KnownTypes) -> Chosen:
    """What can be int32: only values that are known to fit, as far as large tensors reach."""
    fit, reached = set(known.fit), set(known.large)
    chosen: Chosen = defaultdict(set)
    for position, node, rules in _standard_nodes(model):
        for variable in rules.allowed:
            read, made = rules.names(node, variable)
            able = node.op_type in MOVING or (node.op_type in READING and not made)
            if not able or not fit.issuperset(read):
                continue
            fit.update(made if read else ())
            if reached.intersection(read) and known.pair.narrow_name in rules.allowed[variable]:
                reached.update(made)
                chosen[position].add(variable)
    return chosen


def _standard_nodes(model: Model) -> Iterator[tuple[int, NodeProto, Signature]]:
    for position, node in enumerate(model.proto.graph.node):
        rules = signature(model.proto, node)
        if rules is not None:
            yield position, node, rules


@dataclass
class NarrowUses:
    """Who makes and who reads each value, in its narrow form or in its wide one."""

    made_narrow: set[str] = field(default_factory=set)
    read_narrow: set[str] = field(default_factory=set)
    read_wide: set[str] = field(default_factory=set)


Places = dict[int, tuple[list[int], list[int]]]  # inputs and outputs that are narrow, by the node's position


def _narrow_graph(model: Model, known: KnownTypes, chosen: Chosen) -> int:
    """Give chosen values a narrower type, with a Cast wherever narrow and wide meet.

    Return how many stored tensors are narrow now.
    """
    graph, pair = model.proto.graph, known.pair
    places = _places(model, chosen)
    uses = _uses(graph, places)
    stored = {name for name in known.fit if name in known.large or name in uses.read_narrow}
    uses.made_narrow |= stored
    taken = all_names(model.proto)
    names: dict[str, str] = {}
    casts: dict[str, NodeProto] = {}  # by the value that they are made from
    for name in sorted(uses.made_narrow | uses.read_narrow):
        names[name] = name
        if name not in uses.made_narrow:
            names[name] = fresh_name(f"{name}.{pair.suffix}", taken)
            casts[name] = cast_node(name, names[name], pair.narrow)
        elif name in uses.read_wide:
            names[name] = fresh_name(f"{name}.{pair.suffix}", taken)
            casts[names[name]] = cast_node(names[name], name, pair.wide)
    for name in sorted(stored):
        _narrow_stored(model, known.fit[name], names[name], pair)
    for position, (inputs, outputs) in places.items():
        _rename(graph.node[position], inputs, outputs, names, pair)
    _place(graph, casts)
    for info in graph.value_info:
        if names.get(info.name) == info.name:
            info.type.tensor_type.elem_type = pair.narrow
    return len(stored)


def _places(model: Model, chosen: Chosen) -> Places:
    places: Places = {}
    for position, variables in chosen.items():
        node = model.proto.graph.node[position]
        rules = signature(model.proto, node)
        if rules is not None:
            inputs = [at for at, kind in enumerate(rules.inputs) if kind in variables and node.input[at]]
            outputs = [at for at, kind in enumerate(rules.outputs) if kind in variables and node.output[at]]
            places[position] = inputs, outputs
    return places


def _uses(graph: GraphProto, places: Places) -> NarrowUses:
    uses = NarrowUses(read_wide=set(output_names(graph)))
    for position, node in enumerate(graph.node):
        inputs, outputs = places.get(position, ([], []))
        uses.made_narrow.update(node.output[at] for at in outputs)
        for at, name in enumerate(node.input):
            (uses.read_narrow if at in inputs else uses.read_wide).add(name)
        uses.read_wide |= captured(node)
    return uses


def _narrow_stored(model: Model, site: Site, name: str, pair: TypePair) -> None:
    model.set_array(site.tensor, model.array(site.tensor).astype(pair.dtype))
    if site.node is not None:
        site.node.output[0] = name
    else:
        site.tensor.name = name


def _rename(
    node: NodeProto, inputs: list[int], outputs: list[int], names: dict[str, str], pair: TypePair
) -> None:
    for at in inputs:
        node.input[at] = names[node.input[at]]
    attribute = type_attribute(node)
    for at in outputs:
        node.output[at] = names[node.output[at]]
        if attribute is not None and attribute.type == AttributeProto.INT:
            attribute.i = pair.narrow
        elif attribute is not None:
            _narrow_value(attribute, pair)


def type_attribute(node: NodeProto) -> AttributeProto | None:
    """The attribute that says of which type an output is, for the operators where one does."""
    name = {"Cast": "to", "ConstantOfShape": "value"}.get(node.op_type)
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _narrow_value(attribute: AttributeProto, pair: TypePair) -> None:
    from onnx import numpy_helper

    value = numpy_helper.to_array(attribute.t).astype(pair.dtype)
    attribute.t.CopyFrom(numpy_helper.from_array(value, attribute.t.name))


def _place(graph: GraphProto, casts: dict[str, NodeProto]) -> None:
    """Each Cast right after what makes its input, or in front where that is no node."""
    made = {name for node in graph.node for name in node.output}
    front = [cast for source, cast in casts.items() if source not in made]

    def change(node: NodeProto) -> list[NodeProto]:
        return [node, *(casts[name] for name in node.output if name in casts)]

    replace_nodes(graph, change, front=front)


class TypesDoNotFit(ValueError):
    """What onnx says against the types of a graph."""


def inferred(proto: ModelProto) -> dict[str, int]:
    """The element type of every tensor of the main graph; TypesDoNotFit where it contradicts itself."""
    onnx: Any = full_onnx()
    # Loaded here: a module that is loaded before its package is not an attribute of it.
    from onnx import shape_inference

    try:
        done = shape_inference.infer_shapes(_without_values(proto), check_type=True, strict_mode=True)
    except (shape_inference.InferenceError, onnx.checker.ValidationError, ValueError) as error:
        raise TypesDoNotFit(str(error).strip().splitlines()[0]) from None
    values = (*done.graph.input, *done.graph.value_info, *done.graph.output)
    kinds = {value.name: value.type.tensor_type.elem_type for value in values}
    stored = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    return {**{name: kind for name, kind in kinds.items() if kind}, **stored}


def _without_values(proto: ModelProto) -> ModelProto:
    """A copy in which large tensors are inputs: inference must not look for values that are not there."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    known = {value.name for value in copy.graph.input}
    for tensor in copy.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL and tensor.name not in known:
            declare_input(copy.graph, tensor)
    keep_items(copy.graph, "initializer", lambda tensor: tensor.data_location != TensorProto.EXTERNAL)
    return copy


@dataclass(frozen=True)
class Signature:
    """The type, or type variable, of each input and output; the types that each variable may stand for."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    allowed: dict[str, frozenset[str]]

    def names(self, node: NodeProto, variable: str) -> tuple[list[str], list[str]]:
        """The inputs and the outputs of a node that share a type variable."""
        read = [name for name, kind in zip(node.input, self.inputs, strict=True) if kind == variable]
        made = [name for name, kind in zip(node.output, self.outputs, strict=True) if kind == variable]
        return list(filter(None, read)), list(filter(None, made))


def signature(model: ModelProto, node: NodeProto) -> Signature | None:
    """The signature of a standard operator; None for all others, and where inputs may differ in type."""
    local = any((f.domain, f.name) == (node.domain, node.op_type) for f in model.functions)
    if node.domain not in STANDARD_DOMAINS or local:
        return None
    return _signature(node.op_type, opset(model), len(node.input), len(node.output))


@lru_cache(maxsize=4096)
def _signature(op: str, version: int, inputs: int, outputs: int) -> Signature | None:
    from onnx import defs

    try:
        schema = defs.get_schema(op, max_inclusive_version=version, domain="")
    except defs.SchemaError:
        return None
    read, made = _kinds(schema.inputs, inputs), _kinds(schema.outputs, outputs)
    if read is None or made is None:
        return None
    allowed = {item.type_param_str: frozenset(item.allowed_type_strs) for item in schema.type_constraints}
    return Signature(read, made, allowed)


def _kinds(formal: Any, count: int) -> tuple[str, ...] | None:
    """Types by position; the last parameter may stand for any number of values."""
    if count > len(formal) and not (formal and formal[-1].option.name == "Variadic"):
        return None
    used = [formal[min(position, len(formal) - 1)] for position in range(count)]
    if any(parameter.option.name == "Variadic" and not parameter.is_homogeneous for parameter in used):
        return None
    return tuple(parameter.type_str for parameter in used)
