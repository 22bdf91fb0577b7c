"""What an input is used for: the table its values index, a mask, a shape; found by following it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_ci.verify.constants import constant_shape
from onnx_ci.verify.wiring import Op, Wiring, element_count

_STEPS = 200_000  # for all inputs together: a hostile graph must not keep us here
_FIRST = {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Transpose", "Slice", "Clip", "Expand"}
_FIRST |= {"Flatten", "Tile", "Split", "Dropout", "Pad", "Sub"}
_FIRST |= {"Gather", "GatherElements", "ScatterElements", "ScatterND"}
_ANY = {"Concat", "Add", "Max", "Min", "Optional", "OptionalGetElement"}
_ALPHABET = 16  # shorter lists are special tokens
_INDEXED = {"Gather": 1, "GatherElements": 1, "GatherBlockQuantized": 1}
_SCATTERED = {("ScatterElements", 1), ("ScatterND", 1), ("Scatter", 1), ("GatherND", 1)}
_MASK = {("Where", 0), ("Not", 0), ("Sub", 1), ("And", 0), ("And", 1), ("Or", 0), ("Or", 1), ("If", 0)}
_SHAPE = {("Reshape", 1), ("Expand", 1), ("ConstantOfShape", 0), ("Tile", 1), ("TopK", 1), ("Resize", 3)}
_SHAPE |= {("Range", 1), ("Range", 2), ("Slice", 2), ("Loop", 0)}


@dataclass
class Role:
    """How the graph uses an input. `below` is the first value that is too large for a table."""

    below: int | None = None
    indexes: bool = False  # into something that is computed, so of unknown length
    alphabet: int = 0  # how many values it is compared with
    mask: bool = False
    shape: bool = False

    def limit(self, below: int) -> None:
        self.below = below if self.below is None else min(self.below, below)


def roles_of(wiring: Wiring, names: Sequence[str]) -> dict[str, Role]:
    return {name: _role(wiring, name, _STEPS // len(names)) for name in names}


def _role(wiring: Wiring, name: str, steps: int) -> Role:
    """Follow an input through everything that keeps its values, and note where it ends up."""
    role = Role()
    seen = {(name, 0)}
    waiting = [(name, 0)]
    while waiting and steps > 0:
        value, offset = waiting.pop()
        uses = wiring.uses.get(value, [])[:steps]
        reached = [(alias, offset) for alias in wiring.aliases.get(value, [])[:steps]]
        steps -= 1 + len(uses) + len(reached)
        for op, index in uses:
            _note(wiring, role, op, index, offset)
            reached += [(out, _shifted(wiring, op, index, offset)) for out in _passed_on(op, index)]
        waiting += [item for item in dict.fromkeys(reached) if item not in seen]
        seen.update(reached)
    return role


def _note(wiring: Wiring, role: Role, op: Op, index: int, offset: int) -> None:
    role.mask |= (op.type, index) in _MASK
    role.shape |= (op.type, index) in _SHAPE
    role.indexes |= (op.type, index) in _SCATTERED
    if op.type == "OneHot" and index == 0:
        depth = wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None
        if depth:
            role.limit(max(1, depth[0] - offset))
    elif op.type == "EmbedLayerNormalization" and index in (0, 1):
        _note_table(wiring, role, op.inputs, 2 if index == 0 else 4, 0, offset)
    elif op.type == "Equal" and len(op.inputs) == 2:
        role.alphabet = max(role.alphabet, _compared(wiring, op.inputs[1 - index]))
    elif _INDEXED.get(op.type) == index:
        axis = op.attribute("gather_axis" if op.type == "GatherBlockQuantized" else "axis", 0)
        _note_table(wiring, role, op.inputs, 0, axis, offset)


def _compared(wiring: Wiring, name: str, depth: int = 6) -> int:
    """The number of values that an input is compared with: `x == [0, 1, …, 255]` is a one-hot."""
    if name in wiring.tensors:
        count = element_count(wiring.tensors[name].dims)
        return count if count >= _ALPHABET else 0
    op = wiring.producer.get(name)
    if op is None or depth == 0 or not op.inputs or op.type not in {"Expand", "Cast", "Reshape", "Identity"}:
        return 0
    return _compared(wiring, op.inputs[0], depth - 1)


def _note_table(
    wiring: Wiring, role: Role, inputs: tuple[str, ...], table: int, axis: int, offset: int
) -> None:
    shape = constant_shape(wiring, inputs[table]) if table < len(inputs) else None
    if shape is None:
        role.indexes = True
    elif -len(shape) <= axis < len(shape):
        role.limit(max(1, shape[axis] - offset))


def _passed_on(op: Op, index: int) -> tuple[str, ...]:
    if op.type in _ANY or (index == 0 and op.type in _FIRST) or (op.type == "Where" and index > 0):
        return op.outputs
    return ()


def _shifted(wiring: Wiring, op: Op, index: int, offset: int) -> int:
    """An offset that is added before the lookup leaves that much less room below the table's end."""
    if op.type != "Add" or len(op.inputs) != 2:
        return offset
    added = wiring.integers(op.inputs[1 - index])
    # A loop can add for ever; past any real table's height the exact sum no longer matters.
    return min(offset + max(0, added[0]), 2**40) if added and len(added) == 1 else offset
