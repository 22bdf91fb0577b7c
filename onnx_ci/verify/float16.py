"""float16 that a CPU can't see: what a model computes in float16, looked at in its float32 twin.

onnxruntime's CPU provider computes most float16 operators in float32, and casts in between are left out. So a
value past the largest float16 number goes unnoticed here, and is infinite on a GPU or in a browser. The twin
is a copy in which all float16 is float32, and whose outputs are the largest and smallest of each such value.
"""

from __future__ import annotations

import tempfile
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, defs, helper, inliner

from onnx_ci.errors import ModelError
from onnx_ci.inputs.branches import FIRST_OPSET, Marker, constant
from onnx_ci.inputs.graph import node_key
from onnx_ci.model.graph import (
    STANDARD_DOMAINS,
    Body,
    all_names,
    bodies,
    captured,
    fresh_name,
    mentions_type,
    nested,
    opset,
    output_names,
    tensors,
    type_attributes,
)
from onnx_ci.model.model import Model, values_beside
from onnx_ci.model.proto import GraphProto
from onnx_ci.model.save import write_runnable
from onnx_ci.results import Float16Range, Peak
from onnx_ci.verify.reference import Reference

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
LARGEST = 65504.0
_INFINITE = 65520.0  # from here on, float16 rounds to infinity
_NEAR = LARGEST / 2
_MOST = 20_000  # values that are looked at, and nodes once functions are part of the graph
# Operators whose values were there before, or are bounded.
_NO_NEW_VALUES = {
    *("Constant", "ConstantOfShape", "Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"),
    *("Expand", "Tile", "Gather", "GatherND", "GatherElements", "Slice", "Split", "Concat", "Where", "Pad"),
    *("DepthToSpace", "SpaceToDepth", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Max", "Min"),
    *("Clip", "Relu", "Abs", "Neg", "TopK", "Dropout", "Compress", "ReverseSequence", "Trilu", "EyeLike"),
    *("Sign", "Sigmoid", "Tanh", "Erf", "Softmax", "Sin", "Cos", "SequenceConstruct", "SequenceAt"),
    *("SequenceInsert", "SequenceErase", "SequenceEmpty", "SplitToSequence", "ConcatFromSequence"),
    *("Optional", "OptionalGetElement", "If", "Loop", "Scan"),
}
# What a mask passes on its way to the Softmax that it is for.
_MASK_PASSES = {
    *("Add", "Where", "Cast", "Max", "Min", "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze"),
    *("Expand", "Tile", "Slice", "Concat", "Gather"),
}
_SOFTMAX = {"Softmax", "LogSoftmax"}
_FIRST_MASK = 3  # of the operands of the operators that are called Attention or the like


class _Value(NamedTuple):
    """A value that is computed in float16."""

    name: str
    node: str
    op: str
    masks: bool  # it only goes on to a Softmax, where minus infinity is as good as any large number


class _Unfit(Exception):
    """Why a model can't be looked at."""


def float16_range(reference: Reference, model: Model, scratch: Path) -> Float16Range | None:
    """Look at what a model computes in float16, on the inputs of a reference; None where it does not."""
    if not mentions_type(model.proto, HALF):
        return None
    try:
        feeds, spare = reference.feeds_for(values_beside(model))
        twin = _inlined(model)
        search = _Search(twin.proto)
        if not search.values:
            return Float16Range(unseen=search.unseen) if search.unseen else None
        if search.version < FIRST_OPSET:
            raise _Unfit(f"opsets before {FIRST_OPSET} are not looked at")
        if len(search.values) > _MOST:
            raise _Unfit(f"it has {len(search.values):,} such values, and {_MOST:,} are the most")
        order = _make_twin(twin, search.values)
        with tempfile.TemporaryDirectory(prefix="twin-", dir=scratch) as folder:
            path = Path(folder) / "twin.onnx"
            write_runnable(twin, path)
            wide = [{name: _widened(value) for name, value in sample.items()} for sample in feeds]
            outputs = reference.runner.run(path, wide, limits=reference.limits, spare=spare)
    except _Unfit as error:
        return Float16Range(unseen=str(error))
    except (ModelError, ValueError) as error:
        return Float16Range(unseen=f"its float32 twin could not be run: {error}")
    peaks = np.max([peak for sample in outputs for peak in sample.values()], axis=0).reshape(-1, 2)
    found = sorted(_peaks(order, peaks), key=lambda peak: -peak.magnitude)
    return Float16Range(
        values=len(order),
        samples=len(outputs),
        over=tuple(peak for peak in found if peak.magnitude >= _INFINITE),
        near=tuple(peak for peak in found if _NEAR < peak.magnitude < _INFINITE),
        unseen=search.unseen,
    )


def _peaks(values: Sequence[_Value], peaks: np.ndarray[Any, Any]) -> Iterator[Peak]:
    for value, (above, below) in zip(values, peaks.tolist(), strict=True):
        magnitude = above if value.masks else max(above, below)
        yield Peak(name=value.name, op=value.op, node=value.node, magnitude=magnitude)


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(item) for item in value]
    is_half = isinstance(value, np.ndarray) and value.dtype == np.float16
    return value.astype(np.float32) if is_half else value


def _inlined(model: Model) -> Model:
    """Return a copy in which functions are part of the graph: only there their values have types."""
    copy = model.copy()
    copy.proto.ClearField("training_info")
    if copy.proto.functions:
        if _inlined_nodes(copy.proto) > _MOST:
            raise _Unfit(f"with its functions it has more than {_MOST:,} nodes")
        try:
            copy.proto = inliner.inline_local_functions(copy.proto)
        except (RuntimeError, ValueError) as error:
            raise _Unfit(f"its functions could not be made part of the graph: {error}") from None
    if copy.proto.functions:
        raise _Unfit("it has functions of another opset than its own")
    return copy


def _inlined_nodes(proto: ModelProto) -> int:
    """Count nodes, those of a function for each call; without end where one calls itself."""
    functions = {(function.domain, function.name): function for function in proto.functions}
    known: dict[tuple[str, str], int] = {}

    def count(body: Body) -> int:
        total = 0
        for node in (node for inner in nested(body) for node in inner.node):
            key = (node.domain, node.op_type)
            if key in functions and key not in known:
                known[key] = _MOST + 1  # until it is known
                known[key] = count(functions[key])
            total += known.get(key, 1)
        return total

    return count(proto.graph)


class _Search:
    """Finds the values that a graph computes in float16, by the keys of the nodes that give them.

    Types follow from what is declared and from the schemas of operators, in one pass."""

    def __init__(self, proto: ModelProto) -> None:
        self.values: dict[str, _Value] = {}
        self.unseen = ""
        self.version = opset(proto)
        self._body(proto.graph, "", ChainMap())

    def _body(self, body: GraphProto, scope: str, around: ChainMap[str, int]) -> list[int]:
        """Look through a graph and those inside it; return the types of its outputs."""
        types = around.new_child()
        for info in (*body.input, *body.value_info, *body.output):
            if info.type.tensor_type.elem_type:
                types[info.name] = info.type.tensor_type.elem_type
        types.update({tensor.name: tensor.data_type for tensor in body.initializer})
        types.update({sparse.values.name: sparse.values.data_type for sparse in body.sparse_initializer})
        masks = _masks(body)
        for index, node in enumerate(body.node):
            key = node_key(scope, index)
            made = self._inner(node, key, types)
            for position, name in enumerate(node.output):
                if made is not None:
                    kind = made[position] if position < len(made) else 0
                else:
                    kind = _given(node, position, types, self.version)
                types.maps[0].setdefault(name, kind)
                if name and types[name] == HALF and _is_new(node, types):
                    value = _Value(name, node.name, node.op_type, masks.get(name, False))
                    self.values[f"{key}:{position}"] = value
        return [types.get(name, 0) for name in output_names(body)]

    def _inner(self, node: NodeProto, key: str, types: ChainMap[str, int]) -> list[int] | None:
        """Look through the graphs inside a node; return what types it gives, if these tell."""
        graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
        if not graphs:
            return None
        given = [types.get(name, 0) for name in node.input]
        if node.op_type in ("If", "Loop", "Scan") and node.domain in STANDARD_DOMAINS:
            first = (
                2 if node.op_type == "Loop" else 0
            )  # before it the number of the round, and whether to go on
            made: list[int] = []
            for name, graph in graphs.items():
                inputs = zip(graph.input[first:], given[first:], strict=False)
                inner = types.new_child({value.name: kind for value, kind in inputs if kind})
                made = self._body(graph, f"{key}.{name}", inner)
            return made[1:] if node.op_type == "Loop" else made
        self.unseen = f"what is inside of {node.op_type} is not looked at"
        return None


def _given(node: NodeProto, position: int, types: Mapping[str, int], version: int) -> int:
    """Return the type of what a node gives, 0 where it is none that matters."""
    for attribute in type_attributes(node):
        return int(attribute.i)
    if node.op_type in ("Constant", "ConstantOfShape"):
        return next((a.t.data_type for a in node.attribute if a.HasField("t")), SINGLE)
    operands = [types.get(name, 0) for name in node.input]
    any_half = HALF if HALF in operands else 0
    if node.domain not in STANDARD_DOMAINS:
        return any_half
    try:
        schema = defs.get_schema(node.op_type, max_inclusive_version=version, domain="")
    except defs.SchemaError:
        return any_half
    formal = schema.outputs[min(position, len(schema.outputs) - 1)].type_str
    if "(" in formal:
        return 0  # the same for all: indices, or whether something holds
    last = len(schema.inputs) - 1
    alike = [
        kind
        for at, kind in enumerate(operands)
        if kind and last >= 0 and schema.inputs[min(at, last)].type_str == formal
    ]
    return alike[0] if alike else any_half


def _is_new(node: NodeProto, types: Mapping[str, int]) -> bool:
    if node.op_type == "Cast":
        return types.get(node.input[0], 0) != HALF
    return node.domain not in STANDARD_DOMAINS or node.op_type not in _NO_NEW_VALUES


def _masks(body: Body) -> dict[str, bool]:
    """Tell of each value that is read whether it only goes on to a Softmax."""
    masks = dict.fromkeys(output_names(body), False)
    for node in reversed(body.node):
        passes = node.op_type in _MASK_PASSES and all(masks.get(name, False) for name in node.output if name)
        for at, name in enumerate(node.input):
            ends = node.op_type in _SOFTMAX or ("Attention" in node.op_type and at >= _FIRST_MASK)
            masks[name] = masks.get(name, True) and (ends or passes)
        masks.update(dict.fromkeys(captured(node), False))
    return masks


def _make_twin(model: Model, values: Mapping[str, _Value]) -> list[_Value]:
    """Edit a model in place: all in float32, and the peaks of its values its one output. Return the values
    in the order of that output."""
    graph = model.proto.graph
    _widen_types(model.proto)
    casts = _widen_stored(model)
    marker = Marker(model.proto, lambda *node: _measure(values, constants, *node), "Max")
    constants = _Constants(*(marker.name() for _ in _Constants._fields))
    marks, peaks = marker.body(graph, ""), marker.name()
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(peaks, SINGLE, [2 * len(marks)]))
    graph.node.append(helper.make_node("Concat", list(marks.values()), [peaks], axis=0))
    for body, stored, name in casts:
        body.node.insert(0, helper.make_node("Cast", [stored], [name], to=SINGLE))
    graph.node.insert(0, constant(constants.flat, TensorProto.INT64, [-1]))
    graph.node.insert(0, constant(constants.zero, SINGLE, [0.0]))
    graph.node.insert(0, constant(constants.infinity, SINGLE, [np.inf]))
    return [values[key] for key in marks]


class _Constants(NamedTuple):
    """What constants are called that all measurements read."""

    flat: str
    zero: str
    infinity: str


def _measure(
    values: Mapping[str, _Value],
    constants: _Constants,
    marker: Marker,
    node: NodeProto,
    key: str,
    nodes: list[NodeProto],
) -> dict[str, str]:
    """Add nodes that give the largest and the smallest of each value, both as distances from zero.

    What is NaN or infinite in float32 as well is left out: that a CPU can see. A zero is put in, since there
    is no largest of nothing."""
    marks = {}
    for position, name in enumerate(node.output):
        mark = f"{key}:{position}"
        if mark not in values:
            continue
        wide, flat, some, size, finite, kept, above, low, below, both = (marker.name() for _ in range(10))
        nodes += [
            helper.make_node("Cast", [name], [wide], to=SINGLE),
            helper.make_node("Reshape", [wide, constants.flat], [flat]),
            helper.make_node("Concat", [flat, constants.zero], [some], axis=0),
            helper.make_node("Abs", [some], [size]),
            helper.make_node("Less", [size, constants.infinity], [finite]),
            helper.make_node("Where", [finite, some, constants.zero], [kept]),
            helper.make_node("ReduceMax", [kept], [above], keepdims=1),
            helper.make_node("ReduceMin", [kept], [low], keepdims=1),
            helper.make_node("Neg", [low], [below]),
            helper.make_node("Concat", [above, below], [both], axis=0),
        ]
        marks[mark] = both
    return marks


def _widen_types(proto: ModelProto) -> None:
    """Make all that is declared or asked for in float16 float32."""
    for body in bodies(proto):
        body.ClearField("value_info")
        for value in (*body.input, *body.output):
            _widen_type(value.type)
        for node in body.node:
            for attribute in type_attributes(node):
                attribute.i = SINGLE if attribute.i == HALF else attribute.i
            for attribute in node.attribute:
                for kind in (*attribute.type_protos, *([attribute.tp] if attribute.HasField("tp") else [])):
                    _widen_type(kind)


def _widen_type(kind: TypeProto) -> None:
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(kind, which)
        tensor.elem_type = SINGLE if tensor.elem_type == HALF else tensor.elem_type
    elif which in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, which).elem_type)
    elif which == "map_type":
        _widen_type(kind.map_type.value_type)


def _widen_stored(model: Model) -> list[tuple[GraphProto, str, str]]:
    """Make stored float16 tensors float32. Initializers stay as they are, under other names: return these,
    and what a Cast of each is to be called."""
    taken, casts = all_names(model.proto), []
    for body in bodies(model.proto):
        given = {value.name for value in body.input}
        for tensor in body.initializer:
            if tensor.data_type == HALF and tensor.name not in given:
                name = tensor.name
                tensor.name = fresh_name(name, taken)
                casts.append((body, tensor.name, name))
    stays = {stored for _, stored, _ in casts}
    for tensor in tensors(model.proto):
        if tensor.data_type == HALF and tensor.name not in stays:
            model.set_array(tensor, model.array(tensor).astype(np.float32))
    return casts
