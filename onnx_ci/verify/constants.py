"""The shape of a weight, also where it is stored in a smaller form and unpacked by a few nodes."""

from __future__ import annotations

from onnx_ci.inputs.graph import Op, Shape, Wiring, element_count

_DEPTH = 8  # weight encodings are short chains; a long one is not a weight
_SAME_SHAPE = {"Cast", "Identity", "DequantizeLinear", "Dropout"}
_BROADCAST = {"Mul", "Add", "Sub", "Div"}


def constant_shape(wiring: Wiring, name: str, depth: int = _DEPTH) -> Shape | None:
    """The shape of a value that depends on constants only, or None."""
    name = wiring.source(name)
    if name in wiring.tensors:
        return tuple(wiring.tensors[name].dims)
    op = wiring.producer.get(name)
    if op is None or depth == 0:
        return None
    if op.type in {"ConstantOfShape", "Expand"} and op.inputs:
        target = wiring.integers(op.inputs[-1])
        return None if target is None else tuple(target)
    return _derived(wiring, op, depth - 1)


def _derived(wiring: Wiring, op: Op, depth: int) -> Shape | None:
    wanted = op.inputs if op.type == "Concat" else op.inputs[:2] if op.type in _BROADCAST else op.inputs[:1]
    shapes = [constant_shape(wiring, name, depth) for name in wanted]
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes):
        return None
    if op.type in _SAME_SHAPE or op.type in _BROADCAST:
        return _broadcast(known)
    if op.type == "Transpose":
        return _transposed(known[0], op.attribute("perm", list(range(len(known[0])))[::-1]))
    if op.type == "Reshape" and len(op.inputs) > 1:
        return _reshaped(known[0], wiring.integers(op.inputs[1]))
    if op.type == "Concat":
        return _joined(known, op.attribute("axis", 0))
    if op.type == "Gather" and len(op.inputs) > 1:
        picked = constant_shape(wiring, op.inputs[1], depth)
        return None if picked is None else _picked(known[0], picked, op.attribute("axis", 0))
    if op.type in ("Squeeze", "Unsqueeze"):
        axes = op.attribute("axes", None) or (wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None)
        return None if axes is None else _stretched(known[0], axes, added=op.type == "Unsqueeze")
    return None


def _broadcast(shapes: list[Shape]) -> Shape:
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(dims) for dims in zip(*padded, strict=True))


def _transposed(shape: Shape, perm: list[int]) -> Shape | None:
    if sorted(perm) != list(range(len(shape))):
        return None
    return tuple(shape[axis] for axis in perm)


def _reshaped(shape: Shape, target: list[int] | None) -> Shape | None:
    if target is None:
        return None
    dims = [shape[i] if dim == 0 and i < len(shape) else dim for i, dim in enumerate(target)]
    rest = element_count(dim for dim in dims if dim != -1)
    return tuple(element_count(shape) // max(rest, 1) if dim == -1 else dim for dim in dims)


def _joined(shapes: list[Shape], axis: int) -> Shape | None:
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes) or not -rank <= axis < rank:
        return None
    dims = list(shapes[0])
    dims[axis] = sum(shape[axis] for shape in shapes)
    return tuple(dims)


def _picked(shape: Shape, indices: Shape, axis: int) -> Shape | None:
    if not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    return shape[:axis] + indices + shape[axis + 1 :]


def _stretched(shape: Shape, axes: list[int], *, added: bool) -> Shape | None:
    rank = len(shape) + (len(axes) if added else 0)
    places = {axis % rank for axis in axes if -rank <= axis < rank}
    if len(places) != len(axes):
        return None
    if not added:
        return tuple(dim for axis, dim in enumerate(shape) if axis not in places)
    left = iter(shape)
    return tuple(1 if axis in places else next(left) for axis in range(rank))
