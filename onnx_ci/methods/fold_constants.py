"""Replaces nodes that read only stored tensors by their result, where that takes no more bytes.

A result takes the place of its node and of the inputs that nothing else reads. So a weight that is stored
small and rebuilt at the head of its graph (int8, fp16, a table) stays as it is: its result is larger.
What is computed is what onnxruntime would compute when a session starts, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import constant_node, drop_named, replace_nodes
from onnx_ci.methods.folding.folder import Budget, Folder, takes
from onnx_ci.methods.options import NoOptions
from onnx_ci.methods.scopes import Scope, fixed_names, roots
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import tensors
from onnx_ci.model.proto import GraphProto, NodeProto, TensorProto

WORK = 4  # bytes that may be computed, in multiples of what the model stores, and some for small models
MORE_WORK = 1 << 26


def apply(model: Model, _: NoOptions) -> Applied:
    stored = sum(takes(model, tensor) for tensor in tensors(model.proto))
    budget = Budget(WORK * stored + MORE_WORK)
    fixed = fixed_names(model.proto)
    folded = 0
    for root in roots(model.proto):
        folder = Folder(model, root, fixed, budget)
        folder.run()
        folded += len(folder.folded)
        # Innermost first: rebuilding a list of nodes copies the graphs inside them.
        for scope in sorted(root.nested(), key=lambda scope: -len(scope.chain())):
            _rewrite(model, scope, folder)
    return Applied(folded)


def _rewrite(model: Model, scope: Scope, folder: Folder) -> None:
    """Take out what was folded or is no longer read, and store the results that are."""
    made = folder.results(scope)
    gone = {name for home, name in folder.died if home is scope}
    folded = {position for home, position in folder.folded if home is scope}
    if not folded and not gone:
        return
    graph = scope.body if isinstance(scope.body, GraphProto) and model.proto.ir_version >= 4 else None
    positions = iter(range(len(scope.body.node)))

    def change(node: NodeProto) -> list[NodeProto]:
        if next(positions) in folded:
            return [] if graph is not None else _constants(node, made)
        stored = node.op_type == "Constant" and node.output and node.output[0] in gone
        return [] if stored else [node]

    replace_nodes(scope.body, change)
    if isinstance(scope.body, GraphProto):
        drop_named(scope.body, gone, gone | made.keys())
    if graph is not None:
        graph.initializer.extend(made.values())


def _constants(node: NodeProto, made: Mapping[str, TensorProto]) -> list[NodeProto]:
    """Before IR 4 every initializer is an input as well, and a function has none: a Constant it is."""
    return [constant_node(name, made[name]) for name in node.output if name in made]
