"""Sizes for dimensions that the model leaves open, and the shapes that follow from them.

A size is the user's, what the weights require, equal to that of another input, or a usual one for what the
dimension most likely is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import onnx

from onnx_ci.inputs.graph import Dim, Dims, Input, Op, Shape, UseDef
from onnx_ci.inputs.names import DimKind, dim_kind
from onnx_ci.inputs.operators import (
    EQUAL_SIZES,
    KEEPS_AXES,
    UNPACKS,
    NodeShapes,
    broadcast_shape,
    complete,
    operator,
    same_shape,
    transposed,
    unsqueezed,
)

Axis = tuple[str, int]  # an axis of an input
Axes = tuple[int | None, ...]  # for each axis of a value, the axis of the input it came from


@dataclass(frozen=True, kw_only=True)
class SizeChoice:
    """The inputs of one sample, and choices for their open sizes. `step` picks from the lists below."""

    inputs: Sequence[Input]  # each with a rank, guessed where the model does not say
    step: int
    past: int
    scale: int  # of batches and sequences: later samples are larger, to show that the size is free
    fixed: Mapping[str, int]  # the user's `inputs.dims`
    required: Mapping[Axis, int]  # by the weights


_SEQUENCE = (16, 8, 64, 128, 1, 512)
# Tried in turn. 16000 samples are a second of speech; 48x320 is a line of text; other pictures divide by 32.
_SIZES: Mapping[DimKind, tuple[int, ...]] = {
    "sequence": _SEQUENCE,
    "total": _SEQUENCE,
    "frames": (100, 64, 3000, 16, 1),
    "samples": (16000, 512, 256, 576, 1024, 32000, 160, 80000, 480000),
    "height": (224, 48, 64, 32, 256, 640, 28, 384, 336, 299, 112, 518),
    "width": (224, 320, 64, 320, 256, 640, 28, 384, 336, 299, 112, 518),
    "channels": (3, 1, 4),
    "count": (16, 4, 1),
    "groups": (4, 2, 1),  # fewer than what they are groups of: with one member each, none has a neighbour
    "feature": (16, 64, 80, 128, 1, 2),
    "volume": (32, 16, 64),
}
STEPS = max(len(sizes) for sizes in _SIZES.values())
_UNKNOWN_RANK: Sequence[tuple[Dim, ...]] = ((None,) * 2, (None,), (None, 3, None, None), (None,) * 3, ())
_TERM = re.compile(r"\s*([+*-])\s*")
_TRACKING_STEPS = 50_000  # for all inputs together


def with_ranks(inputs: Sequence[Input], step: int) -> list[Input]:
    """Return the inputs with a guess where not even the rank is known."""
    guess = _UNKNOWN_RANK[min(step, len(_UNKNOWN_RANK) - 1)]
    return [i if i.ranked else replace(i, dims=guess) for i in inputs]


def shapes_for(choice: SizeChoice) -> dict[str, Shape]:
    """Return a shape for every input; a symbol stands for the same size wherever it appears."""
    sizes: dict[str, int] = dict(choice.fixed)
    places = [(i, axis, dim) for i in choice.inputs for axis, dim in enumerate(i.dims)]
    for model_input, axis, dim in places:
        if isinstance(dim, str) and (model_input.name, axis) in choice.required:
            sizes.setdefault(dim, choice.required[model_input.name, axis])
    for model_input, axis, dim in places:
        if isinstance(dim, str) and not _TERM.search(dim):
            sizes.setdefault(dim, _usual_size(model_input, axis, choice))
    shapes: dict[str, Shape] = {model_input.name: () for model_input in choice.inputs}
    for model_input, axis, dim in places:
        size = _evaluate(dim, sizes) if isinstance(dim, str) else dim
        shapes[model_input.name] += (_usual_size(model_input, axis, choice) if size is None else size,)
    return shapes


def guessed(inputs: Sequence[Input], required: Mapping[Axis, int], fixed: Mapping[str, int]) -> list[Axis]:
    """Return the axes whose sizes neither the model nor the user says: the first of each symbol."""
    settled = set(fixed)
    for model_input in inputs:
        named = enumerate(model_input.dims)
        settled |= {
            dim for axis, dim in named if isinstance(dim, str) and (model_input.name, axis) in required
        }
    axes = []
    for model_input in inputs:
        for axis, dim in enumerate(model_input.dims):
            place = (model_input.name, axis)
            if isinstance(dim, int) or place in required or dim in settled or _TERM.search(dim or ""):
                continue
            axes.append(place)
            if dim is not None:
                settled.add(dim)
    return axes


def _evaluate(expression: str, sizes: Mapping[str, int]) -> int | None:
    """Evaluate `past_sequence_length + 1` and the like: +, - and * from left to right."""
    if expression in sizes:
        return sizes[expression]
    first, *rest = _TERM.split(expression)
    total = _operand(first, sizes)
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        value = _operand(operand, sizes)
        if value is None or total is None:
            return None
        total = {"+": total + value, "-": total - value, "*": total * value}[sign]
    return None if total is None or total < 0 else total


def _operand(text: str, sizes: Mapping[str, int]) -> int | None:
    text = text.strip(" ()")
    return int(text) if text.isdecimal() and len(text) < 19 else sizes.get(text)


def _usual_size(model_input: Input, axis: int, choice: SizeChoice) -> int:
    """Return what the weights require, or the usual size for what the dimension most likely is."""
    required = choice.required.get((model_input.name, axis))
    if required is not None:
        return required
    kind = dim_kind(model_input, axis)
    if kind == "batch":
        return choice.scale
    if kind == "past":
        return choice.past
    sizes = _SIZES[kind]
    size = sizes[min(choice.step, len(sizes) - 1)]
    if kind == "sequence":
        return size * choice.scale
    if kind == "total":
        return size * choice.scale + choice.past
    return size


# Sizes that the weights require: the channels of a convolution, the rows of a matrix.


def required_sizes(graph: UseDef, inputs: Sequence[Input]) -> dict[Axis, int]:
    """Return what the weights require of the inputs, also where a size is said."""
    required: dict[Axis, int] = {}
    for model_input in inputs:
        required |= _sizes_required_of(graph, model_input, len(inputs))
    return required


def _sizes_required_of(graph: UseDef, model_input: Input, among: int) -> dict[Axis, int]:
    required: dict[Axis, int] = {}
    name = model_input.name
    for value, axes in _tracked(graph, name, len(model_input.dims), among).items():
        for op, index in graph.uses.get(value, [])[:_TRACKING_STEPS]:
            for axis, size in _required_by(graph, op, index, len(axes)).items():
                source = axes[axis] if -len(axes) <= axis < len(axes) else None
                if source is not None and size > 0:
                    required.setdefault((name, source), size)
    return required


def _required_by(graph: UseDef, op: Op, index: int, rank: int) -> Mapping[int, int]:
    """Return the sizes by axis that an operator's weights require of an operand."""
    row = operator(op)
    if row.weight is not None and index == 0:
        name = op.input(row.weight_operand)
        weight = constant_shape(graph, name) if name else None
        return {} if weight is None else row.weight(op, weight)
    other = _arithmetic_constant(graph, op, index, rank)
    if other is None:
        return {}
    return {place - len(other): size for place, size in enumerate(other) if size > 1}


def _arithmetic_constant(graph: UseDef, op: Op, index: int, rank: int) -> Shape | None:
    """Return the shape of what is added, multiplied and so on, where it does not add axes."""
    row = operator(op)
    if row.shape is not broadcast_shape or KEEPS_AXES not in row.traits or len(op.inputs) != 2:
        return None
    shape = constant_shape(graph, op.inputs[1 - index])
    return shape if shape is not None and len(shape) <= rank else None


def _tracked(graph: UseDef, name: str, rank: int, among: int) -> dict[str, Axes]:
    """Return the values that an input goes through, each with the axes of the input that its axes are."""
    tracked: dict[str, Axes] = {name: tuple(range(rank))}
    waiting, steps = [name], _TRACKING_STEPS // max(1, among)
    while waiting and steps > 0:
        value = waiting.pop()
        uses = graph.uses.get(value, [])[:steps]
        reached = [(alias, tracked[value]) for alias in graph.aliases.get(value, [])[:steps]]
        steps -= 1 + len(uses) + len(reached)
        for op, index in uses:
            axes = _axes_after(graph, op, index, tracked[value])
            if axes is not None and op.outputs:
                reached.append((op.outputs[0], axes))
        for other, axes in reached:
            if other not in tracked:
                tracked[other] = axes
                waiting.append(other)
    return tracked


def _axes_after(graph: UseDef, op: Op, index: int, axes: Axes) -> Axes | None:
    row = operator(op)
    if KEEPS_AXES in row.traits and row.shape is not broadcast_shape:
        return axes if index == 0 else None
    if op.type == "Transpose" and index == 0:
        return transposed(op, axes)
    if op.type == "Unsqueeze" and index == 0:
        return unsqueezed(graph, op, axes, None)
    return None if _arithmetic_constant(graph, op, index, len(axes)) is None else axes


# Sizes that operators need to be equal although the model gives them different names, or none.


def with_equal_dims(graph: UseDef, inputs: Sequence[Input], named: Collection[str]) -> list[Input]:
    """Return the inputs with one name for sizes that have to be equal: one of the `named`, if any."""
    dims_of = {i.name: i.dims for i in inputs if i.ranked and not i.wraps}
    common: dict[Axis, Dim] = {}
    for number, group in enumerate(_groups(_equal_pairs(graph, dims_of))):
        dims = [dims_of[name][axis] for name, axis in group]
        chosen = _common_dim(dims, named) or f"={number}"
        common |= {place: chosen for place, dim in zip(group, dims, strict=True) if not isinstance(dim, int)}
    renamed = []
    for model_input in inputs:
        places = [((model_input.name, axis), dim) for axis, dim in enumerate(model_input.dims)]
        renamed.append(replace(model_input, dims=tuple(common.get(place, dim) for place, dim in places)))
    return renamed


def _common_dim(dims: Sequence[Dim], named: Collection[str]) -> Dim:
    """Return a name that the user gave a size for, else a size, else any name."""
    symbols: list[Dim] = [dim for dim in dims if isinstance(dim, str)]
    given = [dim for dim in symbols if dim in named]
    sizes = [dim for dim in dims if isinstance(dim, int) and dim != 1]
    return next(iter([*given, *sizes, *symbols]), None)


def _groups(pairs: Iterator[tuple[Axis, Axis]]) -> list[list[Axis]]:
    """Join pairs to groups: axes that are equal by way of others are equal."""
    group_of: dict[Axis, list[Axis]] = {}
    for left, right in pairs:
        mine, theirs = group_of.setdefault(left, [left]), group_of.setdefault(right, [right])
        if mine is not theirs:
            mine += theirs
            group_of |= dict.fromkeys(theirs, mine)
    return list({id(group): group for group in group_of.values()}.values())


def _equal_pairs(graph: UseDef, dims_of: Mapping[str, tuple[Dim, ...]]) -> Iterator[tuple[Axis, Axis]]:
    origin: dict[str, tuple[str, Axes]] = {}  # of a value: the input it came from, and its axes there
    for name, dims in dims_of.items():
        for value, axes in _tracked(graph, name, len(dims), len(dims_of)).items():
            origin[value] = (name, axes)
    ops = {id(op): op for value in origin for op, _ in graph.uses.get(value, [])}
    for op in ops.values():
        for left, right in pairwise(origin.get(name) for name in op.inputs):
            if left is None or right is None or left[0] == right[0]:
                continue
            for mine, theirs in _equal_axes(op, left[1], right[1]):
                if mine is not None and theirs is not None:
                    yield (left[0], mine), (right[0], theirs)


def _equal_axes(op: Op, left: Axes, right: Axes) -> Iterator[tuple[int | None, int | None]]:
    if EQUAL_SIZES in operator(op).traits:
        yield from zip(left[::-1], right[::-1], strict=False)
    elif op.type == "MatMul" and left and right:
        yield left[-1], right[max(0, len(right) - 2)]
        yield from zip(left[:-2][::-1], right[:-2][::-1], strict=False)
    elif op.type == "Concat" and len(left) == len(right):
        joined = int(op.attribute("axis", 0)) % max(1, len(left))
        for axis, pair in enumerate(zip(left, right, strict=True)):
            if axis != joined:
                yield pair


_ENCODING_DEPTH = 8  # weight encodings are short chains; a long one is not a weight
_DEPTH = 64


def constant_shape(graph: UseDef, name: str, depth: int = _ENCODING_DEPTH) -> Shape | None:
    """Return the shape of a weight, also where a few nodes unpack it from a smaller form."""
    name = graph.source(name)
    if name in graph.tensors:
        return tuple(graph.tensors[name].dims)
    op = graph.producer.get(name)
    if op is None or depth == 0 or UNPACKS not in operator(op).traits:
        return None
    rule = operator(op).shape or same_shape
    node = NodeShapes(graph=graph, op=op, shape_of=lambda operand: constant_shape(graph, operand, depth - 1))
    return complete(rule(node))


class SampleShapes:
    """The shapes of one sample: those of its inputs, of weights, what is declared, and what follows."""

    def __init__(self, graph: UseDef, inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> None:
        self.graph = graph
        self._inputs = shapes
        self._symbols: dict[str, int] = {}
        self._known: dict[str, Dims | None] = {}
        for model_input in inputs:
            for dim, size in zip(model_input.dims, shapes[model_input.name], strict=False):
                if isinstance(dim, str):
                    self._symbols.setdefault(dim, size)

    def of(self, name: str, depth: int = _DEPTH) -> Dims | None:
        """Return what is known of a value's shape."""
        name = self.graph.source(name)
        if name not in self._known:
            self._known[name] = None  # what goes round in a circle has no shape
            self._known[name] = self._direct(name) or self._inferred(name, depth)
        return self._known[name]

    def around(self, op: Op, *, count: int = 0, integer: bool = False, depth: int = _DEPTH) -> NodeShapes:
        """Return a node with its shapes; `count` values of one of its operands are wanted."""
        shape_of = partial(self.of, depth=depth)
        return NodeShapes(graph=self.graph, op=op, shape_of=shape_of, count=count, integer=integer)

    def _direct(self, name: str) -> Dims | None:
        if name in self._inputs:
            return self._inputs[name]
        constant = constant_shape(self.graph, name)
        if constant is not None:
            return constant
        declared = self.graph.declared.get(name)
        if declared is None or not declared.tensor_type.HasField("shape"):
            return None
        return tuple(self._size(dim) for dim in declared.tensor_type.shape.dim)

    def _size(self, dim: onnx.TensorShapeProto.Dimension) -> int | None:
        if dim.HasField("dim_value"):
            return int(dim.dim_value) if dim.dim_value >= 0 else None
        return self._symbols.get(dim.dim_param)

    def _inferred(self, name: str, depth: int) -> Dims | None:
        op = self.graph.producer.get(name)
        rule = None if op is None else operator(op).shape
        if op is None or rule is None or depth == 0:
            return None
        return rule(self.around(op, depth=depth - 1))
