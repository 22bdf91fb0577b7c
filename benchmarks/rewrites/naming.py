"""Rewrites that change names, order and storage, and nothing that is computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_ci.model.graph import all_names, bodies, subgraphs, tensors
from rewrites.base import Rewrite, edited, graphs


def values_renamed(model: ModelProto) -> bool:
    """Every inner value under another name; the outside keeps its names."""
    if model.functions:
        return False
    kept = {value.name for value in (*model.graph.input, *model.graph.output)} | {""}
    new = {name: f"v{at}" for at, name in enumerate(sorted(all_names(model) - kept))}
    if set(new.values()) & kept:
        return False
    for graph in graphs(model):
        for node in graph.node:
            for names in (node.input, node.output):
                names[:] = [new.get(name, name) for name in names]
        for values in (graph.input, graph.output, graph.value_info, graph.initializer):
            for value in values:
                value.name = new.get(value.name, value.name)
    return True


def nodes_renamed(model: ModelProto) -> bool:
    for body in bodies(model):
        for at, node in enumerate(body.node):
            node.name = f"node {at}"
    return True


def nodes_reordered(model: ModelProto) -> bool:
    """Another order in which no node comes before what it reads."""
    changed = False
    for graph in graphs(model):
        ordered = _late_first(graph)
        changed = changed or [node.output[0] for node in ordered] != [node.output[0] for node in graph.node]
        del graph.node[:]
        graph.node.extend(ordered)
    return changed


def _late_first(graph: GraphProto) -> list[NodeProto]:
    """Of all nodes that could come next, the one that came last so far."""
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    maker = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    needs = [{maker[name] for name in _reads(node) if name in maker} - {at} for at, node in enumerate(nodes)]
    users: list[list[int]] = [[] for _ in nodes]
    for at, needed in enumerate(needs):
        for before in needed:
            users[before].append(at)
    ready = sorted(at for at, needed in enumerate(needs) if not needed)
    ordered: list[NodeProto] = []
    while ready:
        at = ready.pop()
        ordered.append(nodes[at])
        for user in users[at]:
            needs[user].discard(at)
            if not needs[user]:
                ready.append(user)
        ready.sort()
    return ordered


def _reads(node: NodeProto) -> set[str]:
    inner = (name for graph in subgraphs(node) for one in graph.node for name in _reads(one))
    outputs = (value.name for graph in subgraphs(node) for value in graph.output)
    return {*node.input, *inner, *outputs}


def typed_fields(model: ModelProto) -> bool:
    """Small floats in `float_data` and integers in `int64_data`, instead of raw bytes."""
    found = [one for one in tensors(model) if one.HasField("raw_data") and len(one.raw_data) < 1 << 20]
    for tensor in found:
        array = numpy_helper.to_array(tensor)
        if tensor.data_type == TensorProto.FLOAT:
            tensor.ClearField("raw_data")
            tensor.float_data.extend(array.reshape(-1).tolist())
        elif tensor.data_type == TensorProto.INT64:
            tensor.ClearField("raw_data")
            tensor.int64_data.extend(array.reshape(-1).tolist())
    return bool(found)


def raw_fields(model: ModelProto) -> bool:
    found = [one for one in tensors(model) if one.float_data or one.int64_data]
    for tensor in found:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    return bool(found)


def to_constants(model: ModelProto) -> bool:
    """Initializers of the main graph as Constant nodes."""
    fed = {value.name for value in model.graph.input}
    moved = [one for one in model.graph.initializer if one.name not in fed]
    made = [helper.make_node("Constant", [], [one.name], value=one) for one in moved]
    kept = [one for one in model.graph.initializer if one.name in fed]
    rest = [*made, *model.graph.node]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(rest)
    model.graph.initializer.extend(kept)
    return bool(moved)


def to_initializers(model: ModelProto) -> bool:
    """Constant nodes of the main graph as initializers."""
    found = [
        node for node in model.graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"
    ]
    for node in found:
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
    kept = [node for node in model.graph.node if node not in found]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return bool(found)


def outside(_: Path, model: ModelProto, target: Path) -> bool:
    copy = ModelProto()
    copy.CopyFrom(model)
    where = f"{target.name}.data"
    onnx.save(copy, target, save_as_external_data=True, location=where, convert_attribute=True)
    return target.with_name(where).exists()


def annotated(model: ModelProto) -> bool:
    model.doc_string = "rewritten"
    model.producer_name = "another exporter"
    for node in model.graph.node:
        node.doc_string = "a note"
    return True


def unused_tensor(model: ModelProto) -> bool:
    model.graph.initializer.append(helper.make_tensor("nobody reads this", TensorProto.FLOAT, [3], [1, 2, 3]))
    return True


def newer_ir(model: ModelProto) -> bool:
    model.ir_version += 1
    return model.ir_version <= onnx.IR_VERSION


def weights_copied(model: ModelProto) -> bool:
    """A tensor that two nodes share becomes two."""
    stored = {one.name: one for one in model.graph.initializer}
    seen: set[str] = set()
    copies = 0
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            if name in seen and name in stored and copies < 5:
                copy = model.graph.initializer.add()
                copy.CopyFrom(stored[name])
                copy.name = node.input[at] = f"{name}/copy {copies}"
                copies += 1
            seen.add(name)
    return copies > 0


def no_shapes(model: ModelProto) -> bool:
    del model.graph.value_info[:]
    return True


EDITS: tuple[tuple[str, Callable[[ModelProto], bool]], ...] = (
    ("values renamed", values_renamed),
    ("nodes renamed", nodes_renamed),
    ("nodes reordered", nodes_reordered),
    ("typed fields", typed_fields),
    ("raw fields", raw_fields),
    ("initializers to Constants", to_constants),
    ("Constants to initializers", to_initializers),
    ("notes added", annotated),
    ("unused tensor", unused_tensor),
    ("newer IR", newer_ir),
    ("weights copied", weights_copied),
    ("inner shapes removed", no_shapes),
)
NAMING = (
    *(Rewrite(name=name, write=edited(edit)) for name, edit in EDITS),
    Rewrite(name="external data", write=outside),
)
