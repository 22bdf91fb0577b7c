"""Element types of values: what onnx infers for a graph, and which types an operator's inputs may share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from onnx_ci.model.graphs import opset
from onnx_ci.model.proto import ModelProto, NodeProto, TensorProto, full_onnx

STANDARD = ("", "ai.onnx")


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
    graph = copy.graph
    known = {value.name for value in graph.input}
    outside = [tensor for tensor in graph.initializer if tensor.data_location == TensorProto.EXTERNAL]
    for tensor in outside:
        if tensor.name not in known:
            value = graph.input.add(name=tensor.name)
            value.type.tensor_type.elem_type = tensor.data_type
            for dim in tensor.dims:
                value.type.tensor_type.shape.dim.add(dim_value=dim)
    kept = [tensor for tensor in graph.initializer if tensor.data_location != TensorProto.EXTERNAL]
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
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
    if node.domain not in STANDARD or local:
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
