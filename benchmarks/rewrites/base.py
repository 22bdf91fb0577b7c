"""What a harmless rewrite is, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from onnx_ci.model.graph import bodies


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """`write` puts the rewritten model at a path; False where there is nothing to rewrite."""

    name: str
    write: Callable[[Path, ModelProto, Path], bool]


def edited(edit: Callable[[ModelProto], bool]) -> Callable[[Path, ModelProto, Path], bool]:
    """A rewrite that edits the model in memory."""

    def write(_: Path, model: ModelProto, target: Path) -> bool:
        copy = ModelProto()
        copy.CopyFrom(model)
        if not edit(copy):
            return False
        onnx.save(copy, target)
        return True

    return write


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The main graph and those inside it; functions are left as they are."""
    return (body for body in bodies(model) if isinstance(body, GraphProto))


def float_values(graph: GraphProto, model: ModelProto) -> list[str]:
    """Float values that nodes of this graph make and others of it read: something can be put between."""
    inferred = onnx.shape_inference.infer_shapes(_without_weights(model)).graph.value_info
    known: dict[str, ValueInfoProto] = {value.name: value for value in (*graph.value_info, *inferred)}
    made = [name for node in graph.node for name in node.output]
    read = {name for node in graph.node for name in node.input}
    return [
        name
        for name in made
        if name in read and name in known and known[name].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    ]


def _without_weights(model: ModelProto) -> ModelProto:
    """A copy that fits what shape inference takes, with weights as inputs."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in model.graph.initializer:
        copy.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    del copy.graph.initializer[:]
    return copy


def put_between(graph: GraphProto, name: str, make: Callable[[str, str], list[NodeProto]]) -> None:
    """Nodes after the one that makes `name`, for all nodes of this graph that read it."""
    at = next(at for at, node in enumerate(graph.node) if name in node.output)
    between = make(name, f"{name}/between")
    for node in graph.node:
        for place, read in enumerate(node.input):
            if read == name:
                node.input[place] = f"{name}/between"
    rest = list(graph.node)[at + 1 :]
    del graph.node[at + 1 :]
    graph.node.extend([*between, *rest])
