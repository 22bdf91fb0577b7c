"""Models that another library must not be given: what it would lose, or take for something else."""

from __future__ import annotations

from onnx_ci.methods.scopes import constant_value, roots
from onnx_ci.model.container import element_count
from onnx_ci.model.dtypes import BITS
from onnx_ci.model.graphs import bodies
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto, TensorProto

FIRST_IR = 4  # before it, every weight is an input as well
STANDARD = ("", "ai.onnx")
ENOUGH = 1024  # elements from which an encoding matters


def unfit(model: ModelProto) -> str:
    """Why no tool may have the model; empty where one may."""
    if model.ir_version < FIRST_IR:
        return f"IR version {model.ir_version} makes every weight an input that a caller may override"
    shared = _overridable(model.graph)
    if shared:
        return f"a caller may override {shared[0]!r}, which is an input and has a value"
    if model.training_info:
        return "it has training graphs"
    if any(function.overload or function.domain in STANDARD for function in model.functions):
        return "it has functions that tools take for others: overloads, or named like a standard operator"
    if any(isinstance(body, GraphProto) and body.quantization_annotation for body in bodies(model)):
        return "it has quantization annotations"
    return "it has sparse tensors" if _sparse(model) else _shadowing(model)


def _overridable(graph: GraphProto) -> list[str]:
    stored = {tensor.name for tensor in graph.initializer}
    stored |= {sparse.values.name for sparse in graph.sparse_initializer}
    return [value.name for value in graph.input if value.name in stored]


def _sparse(model: ModelProto) -> bool:
    for body in bodies(model):
        if isinstance(body, GraphProto) and body.sparse_initializer:
            return True
        if any(a.HasField("sparse_tensor") or a.sparse_tensors for node in body.node for a in node.attribute):
            return True
    return False


def _shadowing(model: ModelProto) -> str:
    """Tools keep one table of names: where an inner graph uses an outer name again, they mix up values."""
    for root in roots(model):
        for scope in root.nested():
            around = {name for outer in scope.chain()[1:] for name in outer.defined}
            twice = sorted(around & scope.defined.keys())
            if twice:
                return f"the name {twice[0]!r} means one thing in a graph and another in a graph inside it"
    return ""


def unpackable(model: ModelProto) -> str:
    """Why no tool that computes what is constant may have the model: it would unpack encoded weights."""
    stored = _stored(model)
    for body in bodies(model):
        for node in body.node:
            tensor = stored.get(node.input[0]) if node.input else None
            if tensor is not None and _grows(node, tensor):
                return f"weights are stored encoded ({node.input[0]!r} and others), and would be unpacked"
    return ""


def _stored(model: ModelProto) -> dict[str, TensorProto]:
    found: dict[str, TensorProto] = {}
    for body in bodies(model):
        if isinstance(body, GraphProto):
            found.update((tensor.name, tensor) for tensor in body.initializer)
        values = ((node, constant_value(node)) for node in body.node)
        found.update((node.output[0], tensor) for node, tensor in values if tensor is not None)
    return found


def _grows(node: NodeProto, tensor: TensorProto) -> bool:
    if element_count(tensor) < ENOUGH:
        return False
    if node.op_type != "Cast":
        return node.op_type in ("CastLike", "DequantizeLinear")
    wanted = [BITS.get(attribute.i, 0) for attribute in node.attribute if attribute.name == "to"]
    return any(bits > BITS.get(tensor.data_type, 0) for bits in wanted)
