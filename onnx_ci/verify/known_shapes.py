"""The shapes that are known once the inputs of a sample have theirs: inputs, weights, what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from onnx_ci.verify.asked import Dims
from onnx_ci.verify.constants import constant_shape
from onnx_ci.verify.dims import Input
from onnx_ci.verify.wiring import Shape, Wiring

_SAME_SHAPE = {"Cast", "Identity", "Relu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Neg", "Abs", "Clip"}
_SAME_SHAPE |= {"Exp", "Log", "Sqrt", "Floor", "Erf", "LeakyRelu", "LayerNormalization", "BatchNormalization"}
_DEPTH = 12


class KnownShapes:
    """Of one sample."""

    def __init__(self, wiring: Wiring, inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> None:
        self.wiring = wiring
        self.shapes = shapes
        self.symbols: dict[str, int] = {}
        for one in inputs:
            for dim, size in zip(one.dims or (), shapes[one.name], strict=False):
                if isinstance(dim, str):
                    self.symbols.setdefault(dim, size)

    def integers(self, name: str) -> list[int] | None:
        return self.wiring.integers(name)

    def shape(self, name: str) -> Dims | None:
        for _ in range(_DEPTH):
            name = self.wiring.source(name)
            found = self._direct(name)
            if found is not None:
                return found
            op = self.wiring.producer.get(name)
            if op is None or op.type not in _SAME_SHAPE or not op.inputs:
                return None
            name = op.inputs[0]
        return None

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
