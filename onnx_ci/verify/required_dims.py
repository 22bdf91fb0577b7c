"""Sizes that the weights ask of an input: the channels of a convolution, the rows of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx_ci.inputs.dims import Input
from onnx_ci.inputs.graph import Op, Shape, Wiring
from onnx_ci.verify.constants import constant_shape

Axes = tuple[int | None, ...]  # for each axis of a value, the axis of the input it came from
Wanted = Mapping[int, int]  # axis of the value -> size; negative axes count from the end

_STEPS = 50_000  # for all inputs together
_UNARY = {
    "Identity",
    "Cast",
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "Abs",
    "Neg",
    "Exp",
    "Log",
    "Sqrt",
    "Clip",
}
_UNARY |= {
    "Dropout",
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "Softmax",
    "Floor",
    "Erf",
}
_BINARY = {"Add", "Sub", "Mul", "Div", "Pow"}


def required_dims(wiring: Wiring, inputs: Sequence[Input]) -> dict[tuple[str, int], int]:
    """Sizes by (input, axis), for the inputs of known rank that leave something open."""
    found: dict[tuple[str, int], int] = {}
    for one in inputs:
        if one.dims is not None and not all(isinstance(dim, int) for dim in one.dims):
            found |= required_of(wiring, one.name, len(one.dims), len(inputs))
    return found


def required_of(wiring: Wiring, name: str, rank: int, among: int) -> dict[tuple[str, int], int]:
    """What the weights ask of one of several inputs, if it has this rank."""
    found: dict[tuple[str, int], int] = {}
    for value, axes in tracked(wiring, name, rank, among).items():
        for op, index in wiring.uses.get(value, [])[:_STEPS]:
            for axis, size in _wanted(wiring, op, index, len(axes)).items():
                if -len(axes) <= axis < len(axes) and (source := axes[axis]) is not None and size > 0:
                    found.setdefault((name, source), size)
    return found


def tracked(wiring: Wiring, name: str, rank: int, among: int) -> dict[str, Axes]:
    """The values that an input goes through, each with the axes of the input that its axes are."""
    found: dict[str, Axes] = {name: tuple(range(rank))}
    waiting, steps = [name], _STEPS // max(1, among)
    while waiting and steps > 0:
        value = waiting.pop()
        uses = wiring.uses.get(value, [])[:steps]
        reached = [(alias, found[value]) for alias in wiring.aliases.get(value, [])[:steps]]
        steps -= 1 + len(uses) + len(reached)
        for op, index in uses:
            reached += _passed_on(wiring, op, index, found[value])
        for other, axes in reached:
            if other not in found:
                found[other] = axes
                waiting.append(other)
    return found


def _passed_on(wiring: Wiring, op: Op, index: int, axes: Axes) -> list[tuple[str, Axes]]:
    if not op.outputs:
        return []
    if index == 0 and op.type in _UNARY:
        return [(op.outputs[0], axes)]
    if op.type in _BINARY and len(op.inputs) == 2:
        other = constant_shape(wiring, op.inputs[1 - index])
        return [(op.outputs[0], axes)] if other is not None and len(other) <= len(axes) else []
    moved = _moved(wiring, op, axes) if index == 0 else None
    return [] if moved is None else [(op.outputs[0], moved)]


def _moved(wiring: Wiring, op: Op, axes: Axes) -> Axes | None:
    if op.type == "Transpose":
        perm = op.attribute("perm", list(range(len(axes)))[::-1])
        return tuple(axes[i] for i in perm) if sorted(perm) == list(range(len(axes))) else None
    if op.type == "Unsqueeze":
        added = op.attribute("axes", None) or (wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None)
        return _unsqueezed(axes, added) if added else None
    return None


def _unsqueezed(axes: Axes, added: Sequence[int]) -> Axes:
    rank = len(axes) + len(added)
    places = {axis % rank for axis in added}
    left = iter(axes)
    return tuple(None if i in places else next(left, None) for i in range(rank))


def _wanted(wiring: Wiring, op: Op, index: int, rank: int) -> Wanted:
    rule = _RULES.get(op.type)
    if rule is not None and index == 0:
        operand = {"QLinearConv": 3, "QLinearMatMul": 3}.get(op.type, 1)
        weight = constant_shape(wiring, op.inputs[operand]) if operand < len(op.inputs) else None
        return {} if weight is None else rule(op, weight)
    if op.type in _BINARY and len(op.inputs) == 2:
        other = constant_shape(wiring, op.inputs[1 - index])
        if other is not None and len(other) <= rank:
            return {place - len(other): size for place, size in enumerate(other) if size > 1}
    return {}


def _matmul(_: Op, weight: Shape) -> Wanted:
    return {-1: weight[-2]} if len(weight) >= 2 else {-1: weight[0]} if weight else {}


def _gemm(op: Op, weight: Shape) -> Wanted:
    if len(weight) != 2:
        return {}
    return {0 if op.attribute("transA", 0) else 1: weight[1 if op.attribute("transB", 0) else 0]}


def _conv(op: Op, weight: Shape) -> Wanted:
    return {1: weight[1] * max(1, op.attribute("group", 1))} if len(weight) >= 3 else {}


def _conv_transpose(_: Op, weight: Shape) -> Wanted:
    return {1: weight[0]} if len(weight) >= 3 else {}


def _recurrent(_: Op, weight: Shape) -> Wanted:
    return {2: weight[2]} if len(weight) == 3 else {}


def _channels(_: Op, weight: Shape) -> Wanted:
    return {1: weight[0]} if len(weight) == 1 else {}


def _last(_: Op, weight: Shape) -> Wanted:
    return {-1: weight[-1]} if weight else {}


def _nbits(op: Op, _: Shape) -> Wanted:
    return {-1: op.attribute("K", 0)}


_RULES: Mapping[str, Callable[[Op, Shape], Wanted]] = {
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "MatMulNBits": _nbits,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": _conv,
    "ConvTranspose": _conv_transpose,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "BatchNormalization": _channels,
    "InstanceNormalization": _channels,
    "LayerNormalization": _last,
    "SimplifiedLayerNormalization": _last,
}
