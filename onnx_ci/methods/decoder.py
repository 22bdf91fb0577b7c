"""Builds the nodes that turn stored parts back into a weight, when a session starts."""

from __future__ import annotations

import math

import numpy as np

from onnx_ci.methods.edit import cast_node
from onnx_ci.methods.slices import Array
from onnx_ci.methods.weights import Encoder
from onnx_ci.model.graphs import opset
from onnx_ci.model.proto import AttributeProto, NodeProto, TensorProto

SLICE_TAKES_INPUTS = 10  # the opset from which what to cut is an input, not an attribute


class Decoder:
    """Collects nodes; each step gives the name of its result, and the last one becomes the weight."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.nodes: list[NodeProto] = []

    def done(self) -> list[NodeProto]:
        self.nodes[-1].output[0] = self.encoder.output
        return self.nodes

    def cast(self, stored: str, suffix: str, to: int = TensorProto.FLOAT) -> str:
        name = self.encoder.name(suffix)
        self.nodes.append(cast_node(stored, name, name, to))
        return name

    def node(self, op: str, inputs: list[str]) -> str:
        name = self.encoder.name(op.lower())
        self.nodes.append(NodeProto(op_type=op, input=inputs, output=[name], name=name))
        return name

    def scaled(self, value: str, scale: Array) -> str:
        """Times the scales, which are stored as what they come as: float32 or fp16."""
        factor = self.encoder.store("scale", scale)
        if scale.dtype == np.float16:
            factor = self.cast(factor, "scale_cast")
        return self.node("Mul", [value, factor])

    def shaped(self, value: str, shape: tuple[int, ...], *, stored: int) -> str:
        """In this shape; of more elements than it has, which filled up the last block, only the first."""
        length = math.prod(shape)
        if stored != length:
            flat = self.encoder.store("flat", np.array([-1], np.int64))
            value = self._cut(self.node("Reshape", [value, flat]), length)
            if len(shape) == 1:
                return value
        return self.node("Reshape", [value, self.encoder.store("shape", np.array(shape, np.int64))])

    def _cut(self, value: str, length: int) -> str:
        if opset(self.encoder.model.proto) >= SLICE_TAKES_INPUTS:
            ends = (("from", 0), ("to", length))
            return self.node(
                "Slice", [value, *(self.encoder.store(key, np.array([at], np.int64)) for key, at in ends)]
            )
        cut = self.node("Slice", [value])
        self._attribute("starts", [0])
        self._attribute("ends", [length])
        return cut

    def last_axis_to(self, value: str, axis: int, ndim: int) -> str:
        """With the last axis moved to where it belongs."""
        turned = self.node("Transpose", [value])
        self._attribute("perm", [*range(axis), ndim - 1, *range(axis, ndim - 1)])
        return turned

    def _attribute(self, name: str, values: list[int]) -> None:
        self.nodes[-1].attribute.add(name=name, type=AttributeProto.INTS, ints=values)
