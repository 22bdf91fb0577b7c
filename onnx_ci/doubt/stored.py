"""Every tensor that a model stores and may read when it runs, each with the body it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.drop_unused import drop_unused
from onnx_ci.methods.options import NoOptions
from onnx_ci.model.container import Model
from onnx_ci.model.graph import Body, attribute_tensors, nested
from onnx_ci.model.proto import AttributeProto, GraphProto, NodeProto, TensorProto

_FORMS = {  # how a Constant may hold plain numbers, and what type they have
    "value_float": ("f", np.float32),
    "value_floats": ("floats", np.float32),
    "value_int": ("i", np.int64),
    "value_ints": ("ints", np.int64),
}


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor by the number of its body, counted from outside in, and its name there. It may be read in a
    branch only, though it is stored in the graph around that."""

    body: int
    name: str
    tensor: TensorProto
    read_in: int = 0

    @property
    def key(self) -> tuple[int, str]:
        return self.body, self.name


def plainly(model: Model) -> Model:
    """A copy that holds every constant as a tensor, and nothing that no output needs."""
    copy = model.copy()
    drop_unused(copy, NoOptions())
    for body in _bodies(copy):
        for node in body.node:
            _as_tensor(copy, node)
    return copy


def stored(model: Model) -> Iterator[Stored]:
    """In a fixed order, which a copy of the model shares. Training graphs are not run, so not among them."""
    read = [{name for node in body.node for name in node.input} for body in _bodies(model)]
    for number, body in enumerate(_bodies(model)):
        for name, tensor in _of_body(body):
            readers = (inner for inner in range(number, len(read)) if name in read[inner])
            yield Stored(number, name, tensor, next(readers, number))


def _of_body(body: Body) -> Iterator[tuple[str, TensorProto]]:
    if isinstance(body, GraphProto):
        yield from ((tensor.name, tensor) for tensor in body.initializer)
        yield from ((sparse.values.name, sparse.values) for sparse in body.sparse_initializer)
    for place, node in enumerate(body.node):
        yield from _of_node(node, place)


def _bodies(model: Model) -> Iterator[Body]:
    yield from nested(model.proto.graph)
    for function in model.proto.functions:
        yield from nested(function)


def _of_node(node: NodeProto, place: int) -> Iterator[tuple[str, TensorProto]]:
    """A Constant goes by the name of its value; what other nodes hold by the node and the attribute."""
    plain = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
    for attribute in node.attribute:
        for number, tensor in enumerate(attribute_tensors(attribute)):
            owner = node.output[0] if node.output else node.name or f"{node.op_type} {place}"
            yield owner if plain and not number else f"{owner}.{attribute.name}.{number}", tensor


def _as_tensor(model: Model, node: NodeProto) -> None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return
    for attribute in node.attribute:
        if attribute.name in _FORMS and not attribute.ref_attr_name:
            field, kind = _FORMS[attribute.name]
            values = np.array(getattr(attribute, field), kind)
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            model.set_array(attribute.t, values)
