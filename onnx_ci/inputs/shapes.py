"""The shapes of values: of constants, and of all that is known once a sample's inputs have their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import onnx

from onnx_ci.inputs.graph import Dims, Input, Op, Shape, UseDef
from onnx_ci.inputs.operators import UNPACKS, NodeShapes, complete, operator, same_shape

_ENCODING_DEPTH = 8  # weight encodings are short chains; a long one is not a weight
_DEPTH = 64


def constant_shape(graph: UseDef, name: str, depth: int = _ENCODING_DEPTH) -> Shape | None:
    """Return the shape of a weight, also where a few nodes unpack it from a smaller form."""
    name = graph.source(name)
    if name in graph.tensors:
        return tuple(graph.tensors[name].dims)
    op = graph.producer.get(name)
    if op is None or depth == 0 or UNPACKS not in operator(op).traits:
        return None
    rule = operator(op).shape or same_shape
    node = NodeShapes(graph=graph, op=op, shape_of=lambda operand: constant_shape(graph, operand, depth - 1))
    return complete(rule(node))


class SampleShapes:
    """The shapes of one sample: those of its inputs, of weights, what is declared, and what follows."""

    def __init__(self, graph: UseDef, inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> None:
        self.graph = graph
        self._inputs = shapes
        self._symbols: dict[str, int] = {}
        self._known: dict[str, Dims | None] = {}
        for model_input in inputs:
            for dim, size in zip(model_input.dims, shapes[model_input.name], strict=False):
                if isinstance(dim, str):
                    self._symbols.setdefault(dim, size)

    def of(self, name: str, depth: int = _DEPTH) -> Dims | None:
        """Return what is known of a value's shape."""
        name = self.graph.source(name)
        if name not in self._known:
            self._known[name] = None  # what goes round in a circle has no shape
            self._known[name] = self._direct(name) or self._inferred(name, depth)
        return self._known[name]

    def around(self, op: Op, *, count: int = 0, integer: bool = False, depth: int = _DEPTH) -> NodeShapes:
        """Return a node with its shapes; `count` values of one of its operands are wanted."""
        shape_of = partial(self.of, depth=depth)
        return NodeShapes(graph=self.graph, op=op, shape_of=shape_of, count=count, integer=integer)

    def _direct(self, name: str) -> Dims | None:
        if name in self._inputs:
            return self._inputs[name]
        constant = constant_shape(self.graph, name)
        if constant is not None:
            return constant
        declared = self.graph.declared.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return None
        return tuple(self._size(dim) for dim in declared.tensor_type.shape.dim)

    def _size(self, dim: onnx.TensorShapeProto.Dimension) -> int | None:
        if dim.HasField("dim_value"):
            return int(dim.dim_value) if dim.dim_value >= 0 else None
        return self._symbols.get(dim.dim_param)

    def _inferred(self, name: str, depth: int) -> Dims | None:
        op = self.graph.producer.get(name)
        rule = None if op is None else operator(op).shape
        if op is None or rule is None or depth == 0:
            return None
        return rule(self.around(op, depth=depth - 1))
