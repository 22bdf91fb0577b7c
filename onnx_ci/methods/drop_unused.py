"""Removes what no output needs: nodes, weights, functions, notes on values, opset imports.

Bytes of external data that no tensor points at are dropped by any rewrite, this one included.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import drop_named, replace_nodes
from onnx_ci.methods.options import NoOptions
from onnx_ci.methods.scopes import fixed_names
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import Body, bodies, nested, subgraphs, tensors
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto


def apply(model: Model, _: NoOptions) -> Applied:
    before = sum(1 for _ in tensors(model.proto))
    fixed = fixed_names(model.proto)
    _clean(model.proto.graph, fixed)
    for function in model.proto.functions:
        _clean(function, fixed)
    _drop_functions(model.proto)
    _drop_imports(model.proto)
    return Applied(before - sum(1 for _ in tensors(model.proto)))


def _clean(body: Body, fixed: set[str]) -> None:
    """Inner graphs first: what they no longer read, the outer ones need not keep."""
    for node in body.node:
        for graph in subgraphs(node):
            _clean(graph, fixed)
    kept, needed = _alive(body, fixed | _outputs(body))
    if len(kept) < len(body.node):
        positions = iter(range(len(body.node)))
        replace_nodes(body, lambda node: [node] if next(positions) in kept else [])
    if isinstance(body, GraphProto):
        _drop_stored(body, needed)


def _alive(body: Body, wanted: set[str]) -> tuple[set[int], set[str]]:
    """The nodes that some wanted name needs, and every name they need. Nodes may stand in any order."""
    makers = {name: position for position, node in enumerate(body.node) for name in node.output if name}
    # A node without outputs can only be there for its effect.
    pending = {position for position, node in enumerate(body.node) if not any(node.output)}
    pending |= {makers[name] for name in wanted if name in makers}
    kept: set[int] = set()
    needed = set(wanted)
    while pending:
        kept |= pending
        read = {name for position in pending for name in _reads(body.node[position])}
        needed |= read
        pending = {makers[name] for name in read if name in makers} - kept
    return kept, needed


def _outputs(body: Body) -> set[str]:
    return {value.name for value in body.output} if isinstance(body, GraphProto) else set(body.output)


def _reads(node: NodeProto) -> set[str]:
    """The names a node may read, those that its inner graphs capture included."""
    names = set(node.input)
    for graph in subgraphs(node):
        for inner in nested(graph):
            names.update(name for item in inner.node for name in item.input)
            names |= _outputs(inner)
    return names


def _drop_stored(graph: GraphProto, needed: set[str]) -> None:
    inputs = {value.name for value in graph.input}
    unused = {tensor.name for tensor in graph.initializer} - needed - inputs
    alive = inputs | needed | {name for node in graph.node for name in node.output}
    drop_named(graph, unused, {info.name for info in graph.value_info} - (alive - unused))
    sparse = [item for item in graph.sparse_initializer if item.values.name in needed | inputs]
    if len(sparse) < len(graph.sparse_initializer):
        graph.ClearField("sparse_initializer")
        graph.sparse_initializer.extend(sparse)


def _drop_functions(model: ModelProto) -> None:
    """Keep the functions that nodes call, and those that these call."""
    by_key = {(f.domain, f.name): f for f in model.functions}
    called: set[tuple[str, str]] = set()
    graphs = [*nested(model.graph), *(body for t in model.training_info for body in nested(t.algorithm))]
    pending = _calls(graphs) & by_key.keys()
    while pending:
        called |= pending
        reached = (nested(by_key[key]) for key in pending)
        pending = (_calls(body for inner in reached for body in inner) & by_key.keys()) - called
    if len(called) < len(by_key):
        kept = [function for function in model.functions if (function.domain, function.name) in called]
        model.ClearField("functions")
        model.functions.extend(kept)


def _calls(found: Iterable[Body]) -> set[tuple[str, str]]:
    return {(node.domain, node.op_type) for body in found for node in body.node}


def _drop_imports(model: ModelProto) -> None:
    """Drop imports of domains that nothing belongs to; the standard one always stays."""
    used = {"", "ai.onnx", *(node.domain for body in bodies(model) for node in body.node)}
    used.update(domain for f in model.functions for domain in (f.domain, *(e.domain for e in f.opset_import)))
    kept = [entry for entry in model.opset_import if entry.domain in used]
    if len(kept) < len(model.opset_import):
        model.ClearField("opset_import")
        model.opset_import.extend(kept)
