"""The shape of what an operator gives, from the shapes it takes: the few operators that indices lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx_ci.inputs.graph import Op, Wiring
from onnx_ci.verify.asked import Dims

Shapes = Sequence[Dims | None]
Rule = Callable[[Wiring, Op, Shapes], Dims | None]


def shape_after(wiring: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    """None where nothing is known."""
    rule = _RULES.get(op.type)
    return rule(wiring, op, shapes) if rule is not None and shapes and shapes[0] is not None else None


def takes(op: Op) -> int:
    """How many of its operands' shapes the result depends on."""
    if op.type not in _RULES:
        return 0
    return len(op.inputs) if op.type == "Concat" else 2 if op.type in _TWO else 1


def _same(_: Wiring, __: Op, shapes: Shapes) -> Dims | None:
    return shapes[0]


def _broadcast(_: Wiring, __: Op, shapes: Shapes) -> Dims | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in known]
    return tuple(_wider(sizes) for sizes in zip(*padded, strict=True))


def _wider(sizes: Sequence[int | None]) -> int | None:
    larger = [size for size in sizes if size != 1]
    return 1 if not larger else next((size for size in larger if size is not None), None)


def _transpose(_: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    shape = shapes[0] or ()
    perm = op.attribute("perm", list(range(len(shape)))[::-1])
    return tuple(shape[axis] for axis in perm) if sorted(perm) == list(range(len(shape))) else None


def _reshape(wiring: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    target = wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None
    shape = shapes[0] or ()
    if target is None:
        return None
    dims = [shape[i] if dim == 0 and i < len(shape) else dim for i, dim in enumerate(target)]
    if -1 not in dims:
        return tuple(dims)
    total, rest = _product(shape), _product([dim for dim in dims if dim != -1])
    filled = total // rest if total is not None and rest else None
    return tuple(filled if dim == -1 else dim for dim in dims)


def _product(dims: Sequence[int | None]) -> int | None:
    total = 1
    for dim in dims:
        if dim is None:
            return None
        total *= dim
    return total


def _matmul(_: Wiring, __: Op, shapes: Shapes) -> Dims | None:
    one, other = shapes[0], shapes[1] if len(shapes) > 1 else None
    if one is None or other is None or len(one) < 2 or len(other) < 2:
        return None
    longer = one[:-2] if len(one) >= len(other) else other[:-2]
    return (*longer, one[-2], other[-1])


def _gather(_: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    data, indices = shapes[0], shapes[1] if len(shapes) > 1 else None
    axis = op.attribute("axis", 0)
    if data is None or indices is None or not -len(data) <= axis < len(data):
        return None
    axis %= len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def _concat(_: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    known = [shape for shape in shapes if shape is not None]
    axis = op.attribute("axis", 0)
    if len(known) < len(shapes) or any(not -len(shape) <= axis < len(shape) for shape in known):
        return None
    dims = list(known[0])
    sizes = [shape[axis] for shape in known]
    dims[axis] = None if None in sizes else sum(size or 0 for size in sizes)
    return tuple(dims)


def _axes(wiring: Wiring, op: Op) -> list[int] | None:
    given = op.attribute("axes", None)
    return given or (wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None)


def _unsqueeze(wiring: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    shape, axes = shapes[0] or (), _axes(wiring, op)
    if axes is None:
        return None
    rank = len(shape) + len(axes)
    places = {axis % rank for axis in axes}
    left = iter(shape)
    return tuple(1 if axis in places else next(left, None) for axis in range(rank))


def _squeeze(wiring: Wiring, op: Op, shapes: Shapes) -> Dims | None:
    shape, axes = shapes[0] or (), _axes(wiring, op)
    if axes is None or not shape:
        return None
    places = {axis % len(shape) for axis in axes}
    return tuple(dim for axis, dim in enumerate(shape) if axis not in places)


def _conv(_: Wiring, __: Op, shapes: Shapes) -> Dims | None:
    data, weight = shapes[0], shapes[1] if len(shapes) > 1 else None
    return None if data is None or weight is None else (data[0], weight[0], *([None] * (len(data) - 2)))


_ONE = {"Cast", "Identity", "Relu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Neg", "Abs", "Clip", "Exp"}
_ONE |= {"Log", "Sqrt", "Floor", "Erf", "LeakyRelu", "LayerNormalization", "BatchNormalization", "Dropout"}
_ONE |= {"Elu", "Selu", "HardSigmoid", "HardSwish", "Gelu", "Ceil", "Round", "Sign", "Not", "CumSum", "Mish"}
_PAIR = {"Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less", "And", "Or", "Max", "Min", "Mod"}
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ONE, _same),
    **dict.fromkeys(_PAIR, _broadcast),
    "Transpose": _transpose,
    "Reshape": _reshape,
    "MatMul": _matmul,
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Conv": _conv,
}
_TWO = {*_PAIR, "MatMul", "Gather", "Conv"}
