"""What the nodes that rebuild a weight give, computed with numpy: onnxruntime does the same at load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from onnx_ci.methods.slices import Array
from onnx_ci.model.container import NUMPY_TYPES
from onnx_ci.model.proto import NodeProto

Values = dict[str, Array]


def decoded(nodes: Iterable[NodeProto], stored: Mapping[str, Array]) -> Array:
    """The value of the last node, from stored parts by name."""
    values: Values = dict(stored)
    name = ""
    for node in nodes:
        name = node.output[0]
        values[name] = OPS[node.op_type](node, [values[item] for item in node.input])
    return values[name]


def _cast(node: NodeProto, given: list[Array]) -> Array:
    return given[0].astype(NUMPY_TYPES[_number(node, "to", 1)])


def _dequantize(node: NodeProto, given: list[Array]) -> Array:
    codes, scale, zero = (part.astype(np.float32) for part in given)
    axis, block = _number(node, "axis", 1), _number(node, "block_size", 0)
    if block:
        scale, zero = (_spread(part, axis, block, codes.shape[axis]) for part in (scale, zero))
    elif scale.ndim:
        shape = [-1 if at == axis else 1 for at in range(codes.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    made: Array = (codes - zero) * scale
    return made


def _spread(part: Array, axis: int, block: int, length: int) -> Array:
    """One value a block, as one value an element."""
    return np.repeat(part, block, axis=axis).take(range(length), axis=axis)


def _slice(node: NodeProto, given: list[Array]) -> Array:
    """Only ever from the start of something flat."""
    end = int(given[2][0]) if len(given) > 1 else _numbers(node, "ends")[0]
    return given[0][:end]


def _transpose(node: NodeProto, given: list[Array]) -> Array:
    return np.transpose(given[0], _numbers(node, "perm"))


def _reshape(_: NodeProto, given: list[Array]) -> Array:
    return given[0].reshape(given[1])


def _gather(_: NodeProto, given: list[Array]) -> Array:
    return given[0][given[1]]


def _number(node: NodeProto, name: str, default: int) -> int:
    return next((int(entry.i) for entry in node.attribute if entry.name == name), default)


def _numbers(node: NodeProto, name: str) -> list[int]:
    return next(list(entry.ints) for entry in node.attribute if entry.name == name)


OPS: dict[str, Callable[[NodeProto, list[Array]], Array]] = {
    "Cast": _cast,
    "Mul": lambda _, given: given[0] * given[1],
    "Add": lambda _, given: given[0] + given[1],
    "Sub": lambda _, given: given[0] - given[1],
    "Gather": _gather,
    "Reshape": _reshape,
    "Slice": _slice,
    "Transpose": _transpose,
    "DequantizeLinear": _dequantize,
}
