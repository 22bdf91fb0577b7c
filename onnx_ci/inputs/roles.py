"""What an input is used for: the table its values index, a mask, a shape; found by following it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onnx_ci.inputs.graph import Op, Wiring, element_count
from onnx_ci.verify.constants import constant_shape
from onnx_ci.verify.lines import Line, after
from onnx_ci.verify.operands import INTEGER_WISHES, WISHES
from onnx_ci.verify.vocabulary import known_to

_STEPS = 100_000  # for all inputs together: a hostile graph must not keep us here
_FIRST = {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Transpose", "Slice", "Clip", "Expand"}
_FIRST |= {"Flatten", "Tile", "Split", "Dropout", "Pad", "CastLike", "Div", "Neg", "Floor", "Round", "Ceil"}
_FIRST |= {"Gather", "GatherElements", "ScatterElements", "ScatterND", "ReduceMax", "ReduceMin", "Compress"}
_ANY = {"Concat", "Add", "Sub", "Mul", "Max", "Min", "Optional", "OptionalGetElement"}
_ANY |= {"SequenceConstruct", "SequenceInsert", "SequenceAt", "ConcatFromSequence", "SplitToSequence"}
_ALPHABET = 16  # shorter lists are special tokens
_INDEXED = {"Gather": 1, "GatherElements": 1, "GatherBlockQuantized": 1}
_SCATTERED = {("ScatterElements", 1), ("ScatterND", 1), ("Scatter", 1), ("GatherND", 1)}
_SCATTERED |= {("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 1), ("RoiAlign", 2)}
_MASK = {("Where", 0), ("Not", 0), ("And", 0), ("And", 1), ("Or", 0), ("Or", 1), ("If", 0)}
_SHAPE = {("Reshape", 1), ("Expand", 1), ("ConstantOfShape", 0), ("Tile", 1), ("TopK", 1), ("Resize", 3)}
_SHAPE |= {("Range", 1), ("Range", 2), ("Slice", 2), ("Loop", 0)}
_ENOUGH = 8  # uses of one input that are remembered


class Use(NamedTuple):
    """An operand that says what its values have to be, and how the input becomes that operand."""

    op: Op
    operand: int
    line: Line


@dataclass
class Role:
    """How the graph uses an input. `below` is the first value that is too large for a table."""

    low: int = 0
    below: int | None = None
    indexes: bool = False  # into something that is computed, so of unknown length
    alphabet: int = 0  # how many values it is compared with
    mask: bool = False
    shape: bool = False
    uses: list[Use] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)  # words or codes that are looked up

    def limit(self, low: int, below: int) -> None:
        self.low = max(self.low, low) if self.below is not None else low
        self.below = max(self.low + 1, below if self.below is None else min(self.below, below))


def roles_of(wiring: Wiring, names: Sequence[str]) -> dict[str, Role]:
    return {name: _role(wiring, name, _STEPS // len(names)) for name in names}


def _role(wiring: Wiring, name: str, steps: int) -> Role:
    """Follow an input through everything that keeps its values, and note where it ends up."""
    role = Role()
    start = (name, Line())
    seen, waiting = {start}, [start]
    while waiting and steps > 0:
        value, line = waiting.pop()
        uses = wiring.uses.get(value, [])[:steps]
        reached = [(alias, line) for alias in wiring.aliases.get(value, [])[:steps]]
        steps -= 1 + len(uses) + len(reached)
        for op, index in uses:
            _note(wiring, role, op, index, line)
            reached += [(out, after(wiring, op, index, line)) for out in _passed_on(op, index)]
        waiting += [item for item in dict.fromkeys(reached) if item not in seen]
        seen.update(reached)
    return role


def _note(wiring: Wiring, role: Role, op: Op, index: int, line: Line) -> None:
    role.mask |= (op.type, index) in _MASK or (op.type == "Sub" and index == 1 and line == Line())
    role.shape |= (op.type, index) in _SHAPE
    role.indexes |= (op.type, index) in _SCATTERED
    if ((op.type, index) in WISHES or (op.type, index) in INTEGER_WISHES) and len(role.uses) < _ENOUGH:
        role.uses.append(Use(op, index, line))
    role.known = role.known or (known_to(op) if index == 0 else [])
    if op.type == "OneHot" and index == 0:
        depth = wiring.integers(op.inputs[1]) if len(op.inputs) > 1 else None
        if depth:
            role.limit(*line.within(0, depth[0]))
    elif op.type == "EmbedLayerNormalization" and index in (0, 1):
        _note_table(wiring, role, op.inputs, 2 if index == 0 else 4, 0, line)
    elif op.type == "Equal" and len(op.inputs) == 2:
        role.alphabet = max(role.alphabet, _compared(wiring, op.inputs[1 - index]))
    elif op.type == "Clip" and index == 0:
        _note_clip(wiring, role, op, line)
    elif _INDEXED.get(op.type) == index:
        axis = op.attribute("gather_axis" if op.type == "GatherBlockQuantized" else "axis", 0)
        _note_table(wiring, role, op.inputs, 0, axis, line)


def _note_clip(wiring: Wiring, role: Role, op: Op, line: Line) -> None:
    """What is clipped comes out the same everywhere beyond the bounds: stay inside of them."""
    bounds = [wiring.integers(name) for name in op.inputs[1:3] if name]
    if len(bounds) == 2 and bounds[0] and bounds[1] and bounds[0][0] < bounds[1][0]:
        role.limit(*line.within(bounds[0][0], bounds[1][0] + 1))


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
    wiring: Wiring, role: Role, inputs: tuple[str, ...], table: int, axis: int, line: Line
) -> None:
    shape = constant_shape(wiring, inputs[table]) if table < len(inputs) else None
    if shape is None:
        role.indexes = True
    elif -len(shape) <= axis < len(shape):
        role.limit(*line.within(0, shape[axis]))


def _passed_on(op: Op, index: int) -> tuple[str, ...]:
    if op.type in _ANY or (index == 0 and op.type in _FIRST) or (op.type == "Where" and index > 0):
        return op.outputs
    return ()
