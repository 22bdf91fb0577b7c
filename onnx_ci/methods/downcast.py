"""Computes and stores float64 as float32, and int64 as int32 where every value is known to fit.

What is narrowed is decided for each type variable of each operator, by the standard's own schemas; where
narrow and wide values meet, at inputs and outputs of the model too, a Cast stands between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.edit import declare_input, make_node, replace_nodes
from onnx_ci.methods.options import Downcast
from onnx_ci.methods.rounding import Array
from onnx_ci.methods.selection import encoding_parts
from onnx_ci.model import graph as graphs
from onnx_ci.model.graph import Scope, Site
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


def _downcast(model: Model, pair: TypePair) -> int:
    """On a copy, which takes the model's place only if onnx finds its types in order."""
    tried = model.copy()
    fixed = graphs.fixed_names(tried.proto) | encoding_parts(tried.proto)
    found = [s for s in graphs.sites(Scope(tried.proto.graph), fixed) if s.tensor.data_type == pair.wide]
    if not any(map(_is_large, found)):
        return 0
    fit = {site.name: site for site in found if pair.fits(tried.array(site.tensor))}
    large = {name for name, site in fit.items() if _is_large(site)}
    types = inferred(tried.proto)
    if not large:
        return 0
    groups = list(_type_groups(tried.proto, pair))
    if pair is FLOAT:
        chosen = _floats(groups, types, unfit={site.name for site in found} - fit.keys())
    else:
        chosen = _integers(groups, set(fit), set(large))
    count = _narrow_graph(tried, pair, fit, large, chosen)
    inferred(tried.proto)
    model.proto.CopyFrom(tried.proto)
    return count


def _is_large(site: Site) -> bool:
    return stored_size(site.tensor) >= LARGE


@dataclass(frozen=True)
class TypeGroup:
    """The inputs and outputs of a node that share a type variable, by position."""

    node: NodeProto
    inputs: list[int]
    outputs: list[int]
    may_be_narrow: bool

    @property
    def read(self) -> list[str]:
        return [self.node.input[at] for at in self.inputs]

    @property
    def made(self) -> list[str]:
        return [self.node.output[at] for at in self.outputs]


def _type_groups(model: ModelProto, pair: TypePair) -> Iterator[TypeGroup]:
    """Those of all standard operators in the main graph."""
    version = graphs.opset(model)
    local = {(function.domain, function.name) for function in model.functions}
    for node in model.graph.node:
        if node.domain not in graphs.STANDARD_DOMAINS or (node.domain, node.op_type) in local:
            continue
        for variable in type_variables(node.op_type, version, len(node.input), len(node.output)):
            inputs = [at for at in variable.inputs if node.input[at]]
            outputs = [at for at in variable.outputs if node.output[at]]
            yield TypeGroup(node, inputs, outputs, pair.narrow_name in variable.allowed)


def _floats(groups: Sequence[TypeGroup], types: dict[str, int], unfit: set[str]) -> list[TypeGroup]:
    """What can be float32 instead of float64."""
    chosen: list[TypeGroup] = []
    for group in groups:
        names = {*group.read, *group.made}
        wide = all(types.get(name) == FLOAT.wide for name in names) and not names & unfit
        decided = group.inputs or (group.outputs and type_attribute(group.node) is not None)
        if wide and decided and group.may_be_narrow:
            chosen.append(group)
    return chosen


def _integers(groups: Sequence[TypeGroup], fit: set[str], reached: set[str]) -> list[TypeGroup]:
    """What can be int32: only values that are known to fit, as far as large tensors reach."""
    chosen: list[TypeGroup] = []
    for group in groups:
        op = group.node.op_type
        able = op in MOVING or (op in READING and not group.outputs)
        if not able or not fit.issuperset(group.read):
            continue
        if group.inputs:
            fit.update(group.made)
        if reached.intersection(group.read) and group.may_be_narrow:
            reached.update(group.made)
            chosen.append(group)
    return chosen


def _narrow_graph(
    model: Model, pair: TypePair, fit: dict[str, Site], large: set[str], chosen: Sequence[TypeGroup]
) -> int:
    """Give chosen values a narrower type, with a Cast wherever narrow and wide meet.

    Return how many stored tensors are narrow now.
    """
    graph = model.proto.graph
    read = {name for group in chosen for name in group.read}
    stored = {name for name in fit if name in large or name in read}
    made = stored.union(*(group.made for group in chosen))
    read_wide = _read_wide(graph, chosen)
    taken = graphs.all_names(model.proto)
    names: dict[str, str] = {}
    casts: dict[str, NodeProto] = {}  # by the value that they are made from
    for name in sorted(made | read):
        names[name] = name
        if name not in made:
            names[name] = graphs.fresh_name(f"{name}.{pair.suffix}", taken)
            casts[name] = make_node("Cast", [name], names[name], to=pair.narrow)
        elif name in read_wide:
            names[name] = graphs.fresh_name(f"{name}.{pair.suffix}", taken)
            casts[names[name]] = make_node("Cast", [names[name]], name, to=pair.wide)
    for name in sorted(stored):
        _narrow_stored(model, fit[name], names[name], pair)
    for group in chosen:
        _narrow_node(model, group, names, pair)
    _place(graph, casts)
    for info in graph.value_info:
        if names.get(info.name) == info.name:
            info.type.tensor_type.elem_type = pair.narrow
    return len(stored)


def _read_wide(graph: GraphProto, chosen: Sequence[TypeGroup]) -> set[str]:
    """What some node, inner graph or caller reads as it was."""
    narrow: dict[int, set[int]] = defaultdict(set)
    for group in chosen:
        narrow[id(group.node)].update(group.inputs)
    names = set(graphs.output_names(graph))
    for node in graph.node:
        names |= graphs.captured(node)
        names.update(name for at, name in enumerate(node.input) if at not in narrow.get(id(node), ()))
    return names


def _narrow_stored(model: Model, site: Site, name: str, pair: TypePair) -> None:
    _narrow_values(model, site.tensor, pair)
    if site.node is not None:
        site.node.output[0] = name
    else:
        site.tensor.name = name


def _narrow_values(model: Model, tensor: TensorProto, pair: TypePair) -> None:
    model.set_array(tensor, model.array(tensor).astype(pair.dtype))


def _narrow_node(model: Model, group: TypeGroup, names: dict[str, str], pair: TypePair) -> None:
    node = group.node
    for at in group.inputs:
        node.input[at] = names[node.input[at]]
    for at in group.outputs:
        node.output[at] = names[node.output[at]]
    attribute = type_attribute(node) if group.outputs else None
    if attribute is None:
        return
    if attribute.type == AttributeProto.INT:
        attribute.i = pair.narrow
    else:
        _narrow_values(model, attribute.t, pair)


def type_attribute(node: NodeProto) -> AttributeProto | None:
    """The attribute that says of which type an output is, for the operators where one does."""
    name = {"Cast": "to", "ConstantOfShape": "value"}.get(node.op_type)
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


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
        done = shape_inference.infer_shapes(without_values(proto), check_type=True, strict_mode=True)
    except (shape_inference.InferenceError, onnx.checker.ValidationError, ValueError) as error:
        raise TypesDoNotFit(str(error).strip().splitlines()[0]) from None
    values = (*done.graph.input, *done.graph.value_info, *done.graph.output)
    kinds = {value.name: value.type.tensor_type.elem_type for value in values}
    stored = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    return {**{name: kind for name, kind in kinds.items() if kind}, **stored}


def without_values(proto: ModelProto) -> ModelProto:
    """A copy in which large tensors are inputs: inference must not look for values that are not there."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    known = {value.name for value in copy.graph.input}
    for tensor in copy.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL and tensor.name not in known:
            declare_input(copy.graph, tensor)
    graphs.keep_items(copy.graph, "initializer", lambda tensor: tensor.data_location != TensorProto.EXTERNAL)
    return copy


class TypeVariable(NamedTuple):
    """The inputs and outputs of an operator that have the same type, and the types it may be."""

    inputs: list[int]
    outputs: list[int]
    allowed: Sequence[str]


@lru_cache(maxsize=4096)
def type_variables(op: str, version: int, inputs: int, outputs: int) -> list[TypeVariable]:
    """Those of a standard operator; none where it is not known, or where inputs may differ in type."""
    from onnx import defs

    try:
        schema = defs.get_schema(op, max_inclusive_version=version, domain="")
    except defs.SchemaError:
        return []
    read, made = _by_type(schema.inputs, inputs), _by_type(schema.outputs, outputs)
    if read is None or made is None:
        return []
    allowed = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    return [TypeVariable(read[name], made[name], types) for name, types in allowed.items()]


def _by_type(formal: Any, count: int) -> dict[str, list[int]] | None:
    """Positions by type, or type variable; the last parameter may stand for any number of values."""
    if count > len(formal) and not (formal and formal[-1].option.name == "Variadic"):
        return None
    positions: dict[str, list[int]] = defaultdict(list)
    for position in range(count):
        parameter = formal[min(position, len(formal) - 1)]
        if parameter.option.name == "Variadic" and not parameter.is_homogeneous:
            return None
        positions[parameter.type_str].append(position)
    return positions
