"""Graphs that compute something else: other operators, attributes, operands and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import AttributeProto, ModelProto, NodeProto

from damages.base import Damage, Place, attribute, constants, nodes, set_attribute

Strike = Callable[[ModelProto, Place], bool]


def _renamed(old: str, new: str) -> Strike:
    """Another operator with the same operands."""

    def strike(model: ModelProto, place: Place) -> bool:
        chosen = place.pick(nodes(model, old))
        if chosen is None:
            return False
        node = chosen[1]
        node.op_type = new
        if new in ("Identity", "HardSigmoid", "GlobalMaxPool", "Tanh"):
            del node.attribute[:]
            del node.input[1:]
        return True

    return strike


def _turned(ops: Sequence[str]) -> Strike:
    """The first two operands change places."""

    def strike(model: ModelProto, place: Place) -> bool:
        able = [
            node for _, node in nodes(model, *ops) if len(node.input) > 1 and len(set(node.input[:2])) > 1
        ]
        node = place.pick(able)
        if node is None:
            return False
        node.input[0], node.input[1] = node.input[1], node.input[0]
        return True

    return strike


def _changed(name: str, change: Callable[[NodeProto, AttributeProto], object], *ops: str) -> Strike:
    """An attribute with another value; nodes for which `change` has none are passed over."""

    def strike(model: ModelProto, place: Place) -> bool:
        found = []
        for _, node in nodes(model, *ops):
            old = attribute(node, name)
            new = change(node, old) if old is not None else None
            if new is not None:
                found.append((node, new))
        chosen = place.pick(found)
        if chosen is None:
            return False
        set_attribute(chosen[0], name, chosen[1])
        return True

    return strike


def _shifted_pads(_: NodeProto, old: AttributeProto) -> list[int] | None:
    """As much padding as before, one place further along the first axis."""
    pads = list(old.ints)
    half = len(pads) // 2
    if not half or not pads[0]:
        return None
    return [pads[0] - 1, *pads[1:half], pads[half] + 1, *pads[half + 1 :]]


def _other_axis(_: NodeProto, old: AttributeProto) -> int:
    return old.i - 1 if old.i > 0 else old.i + 1 if old.i == 0 else -2 if old.i == -1 else -1


def _other_axes(_: NodeProto, old: AttributeProto) -> list[int] | None:
    return [axis - 1 if axis else 1 for axis in old.ints] if len(old.ints) == 1 else None


def _flipped(_: NodeProto, old: AttributeProto) -> int:
    return 1 - old.i


def _turned_perm(_: NodeProto, old: AttributeProto) -> list[int] | None:
    perm = list(old.ints)
    return [*perm[:-2], perm[-1], perm[-2]] if len(perm) > 1 else None


def _other_rounding(_: NodeProto, old: AttributeProto) -> bytes:
    return b"floor" if old.s == b"ceil" else b"ceil"


def transposed_gemm(model: ModelProto, place: Place) -> bool:
    known = constants(model)
    square = [
        node
        for _, node in nodes(model, "Gemm")
        if node.input[1] in known and len(set(known[node.input[1]].dims)) == 1
    ]
    node = place.pick(square)
    if node is None:
        return False
    old = attribute(node, "transB")
    set_attribute(node, "transB", 1 - (old.i if old is not None else 0))
    return True


def residual_dropped(model: ModelProto, place: Place) -> bool:
    """A sum of two computed values gives the first alone."""
    known = constants(model)
    sums = [node for _, node in nodes(model, "Add") if not any(name in known for name in node.input)]
    node = place.pick(sums)
    if node is None:
        return False
    node.op_type = "Identity"
    del node.input[1:]
    return True


def branches_swapped(model: ModelProto, place: Place) -> bool:
    node = place.pick([node for _, node in nodes(model, "If")])
    if node is None:
        return False
    then, other = attribute(node, "then_branch"), attribute(node, "else_branch")
    if then is None or other is None:
        return False
    then.name, other.name = "else_branch", "then_branch"
    return True


def outputs_swapped(model: ModelProto, place: Place) -> bool:
    """Two outputs of one type under each other's name."""
    outputs = list(model.graph.output)
    pairs = [
        (one.name, other.name)
        for at, one in enumerate(outputs)
        for other in outputs[at + 1 :]
        if _kind(one) == _kind(other)
    ]
    pair = place.pick(pairs)
    if pair is None:
        return False
    other_name = {pair[0]: pair[1], pair[1]: pair[0]}
    for node in model.graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                names[at] = other_name.get(name, name)
    return True


def _kind(value: object) -> tuple[int, int]:
    tensor = value.type.tensor_type  # type: ignore[attr-defined]
    return tensor.elem_type, len(tensor.shape.dim)


GRAPH = (
    Damage(name="Relu gone", strike=_renamed("Relu", "Identity")),
    Damage(name="Add for Sub", strike=_renamed("Sub", "Add")),
    Damage(name="Sub for Add", strike=_renamed("Add", "Sub")),
    Damage(name="Div for Mul", strike=_renamed("Mul", "Div")),
    Damage(name="HardSigmoid for Sigmoid", strike=_renamed("Sigmoid", "HardSigmoid")),
    Damage(name="Tanh for Erf", strike=_renamed("Erf", "Tanh")),
    Damage(name="Tanh gone", strike=_renamed("Tanh", "Identity")),
    Damage(name="Clip gone", strike=_renamed("Clip", "Identity")),
    Damage(name="maximum for average", strike=_renamed("GlobalAveragePool", "GlobalMaxPool")),
    Damage(name="maximum for mean", strike=_renamed("ReduceMean", "ReduceMax")),
    Damage(name="Sub or Div turned round", strike=_turned(["Sub", "Div"])),
    Damage(name="Concat turned round", strike=_turned(["Concat"])),
    Damage(name="residual dropped", strike=residual_dropped),
    Damage(name="branches swapped", strike=branches_swapped),
    Damage(name="outputs swapped", strike=outputs_swapped),
    Damage(name="Gemm transposed", strike=transposed_gemm),
    Damage(name="epsilon times 10000", strike=_changed("epsilon", lambda _, old: old.f * 1e4)),
    Damage(name="alpha doubled", strike=_changed("alpha", lambda _, old: old.f * 2)),
    Damage(name="Softmax along another axis", strike=_changed("axis", _other_axis, "Softmax")),
    Damage(name="another axis", strike=_changed("axis", _other_axis, "Gather", "Concat", "Split")),
    Damage(name="reduced along another axis", strike=_changed("axes", _other_axes)),
    Damage(name="keepdims flipped", strike=_changed("keepdims", _flipped)),
    Damage(name="pads shifted", strike=_changed("pads", _shifted_pads, "Conv", "MaxPool", "AveragePool")),
    Damage(name="transposed otherwise", strike=_changed("perm", _turned_perm, "Transpose")),
    Damage(name="other nearest pixel", strike=_changed("nearest_mode", _other_rounding, "Resize")),
)
