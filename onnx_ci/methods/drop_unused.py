"""Removes what no output needs: nodes, weights, functions, notes on values, opset imports;
and, of weights that are graph inputs too, the inputs.

Bytes of external data that no tensor points at are dropped by any rewrite, this one included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.edit import drop_named, replace_nodes
from onnx_ci.methods.options import FreezeInputs, NoOptions
from onnx_ci.methods.selection import matches
from onnx_ci.model import graph as graphs
from onnx_ci.model.graph import Body, Nodes, Outline, Scope
from onnx_ci.model.model import Model
from onnx_ci.model.proto import GraphProto, ModelProto


def drop_unused(model: Model, _: NoOptions) -> Applied:
    before = graphs.outline(model.proto)
    stored = sum(1 for _ in graphs.tensors(before))
    fixed = graphs.fixed_names(before)
    for root in graphs.roots(before):
        _clean(root, fixed)
    _drop_functions(model.proto)
    after = graphs.outline(model.proto)
    _drop_imports(after)
    if after.nodes is before.nodes:  # nothing was dropped
        return Applied(0)
    return Applied(stored - sum(1 for _ in graphs.tensors(after)))


def _clean(scope: Scope, fixed: set[str]) -> None:
    """Inner graphs first: what they no longer read, the outer ones need not keep."""
    for child in scope.children:
        _clean(child, fixed)
    body, nodes = scope.body, scope.nodes
    kept, needed = _alive(body, nodes, {*fixed, *graphs.output_names(body)})
    if len(kept) < len(nodes.ops):
        positions = iter(range(len(nodes.ops)))
        replace_nodes(body, lambda node: [node] if next(positions) in kept else [])
    if isinstance(body, GraphProto):
        _drop_stored(body, needed)


def _alive(body: Body, nodes: Nodes, wanted: set[str]) -> tuple[set[int], set[str]]:
    """The nodes that some wanted name needs, and every name they need. Nodes may stand in any order."""
    makers = {name: position for position, made in enumerate(nodes.outputs) for name in made if name}
    # A node without outputs can only be there for its effect.
    kept = set(range(len(nodes.outputs))).difference(makers.values())
    kept = {position for position in kept if not any(nodes.outputs[position])}
    kept |= {makers[name] for name in wanted if name in makers}
    attributed = set(nodes.attributed if nodes.inside else ())
    read: list[Collection[str]] = [wanted]
    pending = list(kept)
    while pending:
        position = pending.pop()
        names: Collection[str] = nodes.inputs[position]
        if position in attributed:
            names = {*names, *graphs.captured(body.node[position])}
        read.append(names)
        for name in names:
            maker = makers.pop(name, None)
            if maker is not None and maker not in kept:
                kept.add(maker)
                pending.append(maker)
    return kept, set(chain.from_iterable(read))


def _drop_stored(graph: GraphProto, needed: set[str]) -> None:
    inputs = {value.name for value in graph.input}
    unused = {tensor.name for tensor in graph.initializer} - needed - inputs
    notes = {info.name for info in graph.value_info}
    if notes:
        made = {name for node in graph.node for name in node.output}
        notes -= inputs.union(needed, made) - unused
    drop_named(graph, unused, notes)
    used = needed | inputs
    graphs.keep_items(graph, "sparse_initializer", lambda sparse: sparse.values.name in used)


def _drop_functions(model: ModelProto) -> None:
    """Keep the functions that nodes call, and those that these call."""
    if not model.functions:
        return
    by_key = {(f.domain, f.name): f for f in model.functions}
    called: set[tuple[str, str]] = set()
    pending = _calls(model.graph, *(training.algorithm for training in model.training_info)) & by_key.keys()
    while pending:
        called |= pending
        pending = (_calls(*(by_key[key] for key in pending)) & by_key.keys()) - called
    graphs.keep_items(model, "functions", lambda function: (function.domain, function.name) in called)


def _calls(*outer: Body) -> set[tuple[str, str]]:
    nested = (body for root in outer for body in graphs.nested(root))
    return {(node.domain, node.op_type) for body in nested for node in body.node}


def _drop_imports(known: Outline) -> None:
    """Drop imports of domains that nothing belongs to; the standard one always stays."""
    model = known.model
    used = set(graphs.STANDARD_DOMAINS).union(*(nodes.domains for _, nodes in graphs.nodes_by_body(known)))
    used.update(domain for f in model.functions for domain in (f.domain, *(e.domain for e in f.opset_import)))
    graphs.keep_items(model, "opset_import", lambda entry: entry.domain in used)


def strip_docs(model: Model, _: NoOptions) -> Applied:
    """Remove doc strings and metadata of nodes, values, tensors and graphs, not those of the model itself."""
    for items in filter(None, _documented(model.proto)):
        fields = items[0].DESCRIPTOR.fields_by_name
        for name in ("doc_string", "metadata_props"):
            for item in items if name in fields else ():
                item.ClearField(name)
    return Applied(0)


def _documented(model: ModelProto) -> Iterator[Sequence[Any]]:
    """Everything that can carry notes, but for the model itself: lists of one kind each."""
    known = graphs.outline(model)
    yield list(graphs.tensors(known))
    for body, nodes in graphs.nodes_by_body(known):
        yield [body]
        yield body.value_info
        if isinstance(body, GraphProto):
            yield body.input
            yield body.output
        yield body.node
        for position in nodes.attributed:
            yield body.node[position].attribute


OLDEST_IR = 3  # before it a model does not even say which opset it uses


def freeze_inputs(model: Model, options: FreezeInputs) -> Applied:
    """Take the inputs that have a value off the list; whoever never feeds them sees no difference."""
    proto = model.proto
    if proto.ir_version < OLDEST_IR:
        return Applied(0, f"IR version {proto.ir_version} can't be raised to {graphs.CONSTANTS_IR}")
    named = [name for name in graphs.default_inputs(proto.graph) if not matches(name, options.skip)]
    if not named:
        return Applied(0)
    frozen = set(named) - graphs.fixed_names(proto)
    if not frozen:
        return Applied(0, f"{_inputs(named)} kept: training or quantization notes name them")
    graphs.keep_items(proto.graph, "input", lambda value: value.name not in frozen)
    note = f"{_inputs(frozen)} frozen"
    if proto.ir_version < graphs.CONSTANTS_IR:
        note += f"; IR version {proto.ir_version} raised to {graphs.CONSTANTS_IR}"
        proto.ir_version = graphs.CONSTANTS_IR
    return Applied(len(frozen), note)


def inputs_too(count: int) -> str:
    """Why a method leaves weights alone that it could store smaller."""
    weights = "1 weight is a graph input" if count == 1 else f"{count} weights are graph inputs"
    return f"{weights} too: add freeze-inputs"


def _inputs(names: Collection[str]) -> str:
    return f"{len(names)} input{'s'[: len(names) != 1]}"
