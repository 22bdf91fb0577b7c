"""The shapes that are known once the inputs of a sample have theirs: inputs, weights, what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from onnx_ci.inputs.dims import Input
from onnx_ci.inputs.graph import Shape, Wiring
from onnx_ci.verify.asked import Dims
from onnx_ci.verify.constants import constant_shape
from onnx_ci.verify.shape_rules import shape_after, takes

_DEPTH = 64


class KnownShapes:
    """Of one sample."""

    def __init__(self, wiring: Wiring, inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> None:
        self.wiring = wiring
        self.shapes = shapes
        self.symbols: dict[str, int] = {}
        self._found: dict[str, Dims | None] = {}
        for one in inputs:
            for dim, size in zip(one.dims or (), shapes[one.name], strict=False):
                if isinstance(dim, str):
                    self.symbols.setdefault(dim, size)

    def integers(self, name: str) -> list[int] | None:
        return self.wiring.integers(name)

    def shape(self, name: str, depth: int = _DEPTH) -> Dims | None:
        name = self.wiring.source(name)
        if name not in self._found:
            self._found[name] = None  # what goes round in a circle has no shape
            self._found[name] = self._direct(name) or self._computed(name, depth)
        return self._found[name]

    def _computed(self, name: str, depth: int) -> Dims | None:
        op = self.wiring.producer.get(name)
        if op is None or depth == 0:
            return None
        shapes = [self.shape(other, depth - 1) for other in op.inputs[: takes(op)]]
        return shape_after(self.wiring, op, shapes)

    def _direct(self, name: str) -> Dims | None:
        if name in self.shapes:
            return self.shapes[name]
        fixed = constant_shape(self.wiring, name)
        if fixed is not None:
            return fixed
        declared = self.wiring.declared.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return None
        return tuple(map(self._size, declared.tensor_type.shape.dim))

    def _size(self, dim: onnx.TensorShapeProto.Dimension) -> int | None:
        if dim.HasField("dim_value"):
            return int(dim.dim_value) if dim.dim_value >= 0 else None
        return self.symbols.get(dim.dim_param)
