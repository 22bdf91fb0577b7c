"""What is known of each operator where inputs are made up: one row an operator, in `OPERATORS`.

A row says which shape comes out, which operands' values come out again, what an operand is used for, which
values it may take, and which sizes the weights require. Whoever follows values through a graph looks here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from onnx_ci.inputs.graph import Dims, Op, Shape, UseDef

_WHOLE_AXIS = 2.0**30  # as the end of a slice: whatever there is
_LARGEST_BLOCK = 4096

# Shapes: what an operator's first output has.


class ShapeRule(NamedTuple):
    """How to tell the shape of the first output from those of the first `operands` (None: all of them)."""

    operands: int | None
    infer: Callable[[UseDef, Op, Sequence[Dims | None]], Dims | None]


def _same_shape(_: UseDef, __: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    return shapes[0]


def _broadcast_shape(_: UseDef, __: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(_wider(sizes) for sizes in zip(*padded, strict=True))


def _wider(sizes: Sequence[int | None]) -> int | None:
    stretched = [size for size in sizes if size != 1]
    if not stretched:
        return 1
    return next((size for size in stretched if size is not None), None)


def _transpose_shape(_: UseDef, op: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    return transposed(op, shapes[0] or ())


def transposed(op: Op, dims: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return what belongs to each axis after a Transpose."""
    order = list(range(len(dims)))
    perm = op.attribute("perm", order[::-1])
    return tuple(dims[axis] for axis in perm) if sorted(perm) == order else None


def _reshape_shape(graph: UseDef, op: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    target = graph.integers(op.input(1))
    shape = shapes[0] or ()
    if target is None:
        return None
    dims = [shape[i] if dim == 0 and i < len(shape) else dim for i, dim in enumerate(target)]
    if -1 not in dims:
        return tuple(dims)
    total, rest = _product(shape), _product([dim for dim in dims if dim != -1])
    open_size = total // rest if total is not None and rest else None
    return tuple(open_size if dim == -1 else dim for dim in dims)


def _product(dims: Sequence[int | None]) -> int | None:
    sizes = complete(dims)
    return None if sizes is None else math.prod(sizes)


def complete(dims: Sequence[int | None] | None) -> Shape | None:
    """Return the shape if all its sizes are known."""
    if dims is None:
        return None
    sizes = tuple(dim for dim in dims if dim is not None)
    return sizes if len(sizes) == len(dims) else None


def _target_shape(graph: UseDef, op: Op, _: Sequence[Dims | None]) -> Dims | None:
    """Return the shape that the last operand names."""
    target = graph.integers(op.inputs[-1]) if op.inputs else None
    return None if target is None else tuple(target)


def _matmul_shape(_: UseDef, __: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    left, right = _two(shapes)
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    longer = left if len(left) >= len(right) else right
    return (*longer[:-2], left[-2], right[-1])


def _gather_shape(_: UseDef, op: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    data, indices = _two(shapes)
    axis = op.attribute("axis", 0)
    if data is None or indices is None or not -len(data) <= axis < len(data):
        return None
    axis %= len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def _conv_shape(_: UseDef, __: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    data, weight = _two(shapes)
    if not data or not weight:
        return None
    return (data[0], weight[0], *([None] * (len(data) - 2)))


def _two(shapes: Sequence[Dims | None]) -> tuple[Dims | None, Dims | None]:
    return shapes[0], shapes[1] if len(shapes) > 1 else None


def _concat_shape(_: UseDef, op: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    known = [shape for shape in shapes if shape is not None]
    axis = op.attribute("axis", 0)
    if len(known) < len(shapes) or any(not -len(shape) <= axis < len(shape) for shape in known):
        return None
    dims = list(known[0])
    sizes = complete([shape[axis] for shape in known])
    dims[axis] = None if sizes is None else sum(sizes)
    return tuple(dims)


def _unsqueeze_shape(graph: UseDef, op: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    return unsqueezed(graph, op, shapes[0] or (), 1)


def unsqueezed(graph: UseDef, op: Op, dims: Sequence[Any], new: Any) -> tuple[Any, ...] | None:
    """Return what belongs to each axis after an Unsqueeze, `new` to those that it adds."""
    axes = _axes(graph, op)
    if axes is None:
        return None
    rank = len(dims) + len(axes)
    places = {axis % rank for axis in axes}
    rest = iter(dims)
    return tuple(new if axis in places else next(rest, None) for axis in range(rank))


def _squeeze_shape(graph: UseDef, op: Op, shapes: Sequence[Dims | None]) -> Dims | None:
    shape, axes = shapes[0], _axes(graph, op)
    if axes is None or not shape:
        return None
    places = {axis % len(shape) for axis in axes}
    return tuple(dim for axis, dim in enumerate(shape) if axis not in places)


def _axes(graph: UseDef, op: Op) -> list[int] | None:
    """Return the axes that an operator names, in an attribute or as its second operand."""
    axes: list[int] | None = op.attribute("axes", None)
    return axes or graph.integers(op.input(1))


SAME = ShapeRule(1, _same_shape)
BROADCAST = ShapeRule(2, _broadcast_shape)
_TARGET = ShapeRule(0, _target_shape)

# Weights: the sizes that an operator's weight requires of its first operand, by axis.

WeightRule = Callable[[Op, Shape], Mapping[int, int]]


def _matmul_weight(_: Op, weight: Shape) -> Mapping[int, int]:
    return {-1: weight[max(0, len(weight) - 2)]} if weight else {}


def _gemm_weight(op: Op, weight: Shape) -> Mapping[int, int]:
    if len(weight) != 2:
        return {}
    axis = 0 if op.attribute("transA", 0) else 1
    return {axis: weight[1 if op.attribute("transB", 0) else 0]}


def _conv_weight(op: Op, weight: Shape) -> Mapping[int, int]:
    return {1: weight[1] * max(1, op.attribute("group", 1))} if len(weight) >= 3 else {}


def _conv_transpose_weight(_: Op, weight: Shape) -> Mapping[int, int]:
    return {1: weight[0]} if len(weight) >= 3 else {}


def _recurrent_weight(_: Op, weight: Shape) -> Mapping[int, int]:
    return {2: weight[2]} if len(weight) == 3 else {}


def _channel_weight(_: Op, weight: Shape) -> Mapping[int, int]:
    return {1: weight[0]} if len(weight) == 1 else {}


def _last_axis_weight(_: Op, weight: Shape) -> Mapping[int, int]:
    return {-1: weight[-1]} if weight else {}


# Values: what an operand may be.


class Range(NamedTuple):
    """Any values from `low` to `high`."""

    low: float
    high: float


Wanted = Range | Sequence[float] | float | None  # any of these, exactly these, this everywhere, or no idea


@dataclass(frozen=True, kw_only=True)
class SampleOperand:
    """An operand of `op` that `count` values are wanted for, with the shapes of one sample."""

    op: Op
    count: int
    graph: UseDef
    shape_of: Callable[[str], Dims | None]

    @property
    def data(self) -> Dims | None:
        """The shape of the operator's first operand."""
        return self.shape_of(self.op.input(0))

    @property
    def out(self) -> Dims | None:
        """The shape of the operator's first output."""
        return self.shape_of(self.op.outputs[0]) if self.op.outputs else None

    def integers(self, index: int) -> list[int] | None:
        name = self.op.input(index)
        return self.graph.integers(name) if name else None

    def along(self, dims: Dims | None, default: int) -> int | None:
        """Return the size along the operator's own axis."""
        axis = int(self.op.attribute("axis", default))
        return dims[axis] if dims and -len(dims) <= axis < len(dims) else None


Wants = Range | float | Callable[[SampleOperand], Wanted]


def _count_up(operand: SampleOperand) -> Wanted:
    return range(operand.count)


def _reshape_target(operand: SampleOperand) -> Wanted:
    out, data, count = operand.out, operand.data, operand.count
    if out is not None and len(out) == count and out.count(None) <= 1:
        return [-1 if dim is None else dim for dim in out]
    kept = 0 if data is not None and len(data) == count else 1
    return [*([kept] * (count - 1)), -1][:count]


def _output_shape(operand: SampleOperand) -> Wanted:
    """Return the output's own shape, or small sizes."""
    out = complete(operand.out)
    if out is not None and len(out) == operand.count:
        return out
    return 2.0 if operand.op.type == "ConstantOfShape" else 1.0


def _repeats(operand: SampleOperand) -> Wanted:
    data, out = complete(operand.data), complete(operand.out)
    if data is None or out is None or not len(data) == len(out) == operand.count:
        return 2.0
    return [after // before if before else 1 for before, after in zip(data, out, strict=True)]


def _top_k(operand: SampleOperand) -> Wanted:
    return operand.along(operand.out, -1) or min(3, operand.along(operand.data, -1) or 3)


def _depth(operand: SampleOperand) -> Wanted:
    return operand.along(operand.out, -1) or 16


def _range_limit(operand: SampleOperand) -> Wanted:
    start, step = operand.integers(0) or [0], operand.integers(2) or [1]
    length = (operand.out or (None,))[0] or 16
    return start[0] + step[0] * length


def _split_sizes(operand: SampleOperand) -> Wanted:
    count = operand.count
    if operand.op.type == "Split":
        parts = complete([operand.along(operand.shape_of(name), 0) for name in operand.op.outputs])
        if parts is not None and len(parts) == count:
            return parts
    total = operand.along(operand.data, 0)
    if total is None or count <= 1:  # a single number is the size of each part
        return total or 1
    ends = [total * i // count for i in range(count + 1)]
    return [end - start for start, end in pairwise(ends)]


def _slice_ends(operand: SampleOperand) -> Wanted:
    out, data = operand.out, operand.data
    sizes = out if out is not None and (data is None or len(out) == len(data)) else data
    ends = []
    for axis in _slice_axes(operand):
        size = sizes[axis] if sizes and -len(sizes) <= axis < len(sizes) else None
        ends.append(_WHOLE_AXIS if size is None else size)
    return ends


def _slice_axes(operand: SampleOperand) -> list[int]:
    """Return the axes that a slice most likely is about: those that it changes, and then the first ones."""
    count, given = operand.count, operand.integers(3)
    if given is not None and len(given) == count:
        return given
    if len(operand.op.inputs) < 4:
        return list(range(count))
    data, out = operand.data or (), operand.out or ()
    changed = [i for i in range(len(data)) if data[i] != out[i]] if len(data) == len(out) else []
    axes = [*changed, *(i for i in range(len(data)) if i not in changed)][:count]
    return sorted(axes) if len(axes) == count else list(range(count))


def _squeezed_axes(operand: SampleOperand) -> Wanted:
    data = operand.data or ()
    for size in (1, None):
        axes = [axis for axis, dim in enumerate(data) if dim == size]
        if axes:
            return axes[: operand.count] if len(axes) >= operand.count else _count_up(operand)
    return _count_up(operand)


def _unsqueezed_axes(operand: SampleOperand) -> Wanted:
    data, out = operand.data, operand.out
    if data is None or out is None or len(out) != len(data) + operand.count:
        return _count_up(operand)
    rest, added = list(data), []
    for axis, dim in enumerate(out):
        must_match = len(out) - axis <= len(rest)
        if rest and (must_match or (rest[0] == dim and dim != 1)):
            rest.pop(0)
        else:
            added.append(axis)
    return added


def _reduced_axes(operand: SampleOperand) -> Wanted:
    data, out, count = complete(operand.data), complete(operand.out), operand.count
    if data is None:
        return range(-count, 0)
    axes: list[int] = []
    if out is not None:
        axes = _missing_axes(data, out, kept=bool(operand.op.attribute("keepdims", 1)))
    axes += [axis for axis in reversed(range(len(data))) if axis not in axes]
    return sorted(axes[:count])


def _missing_axes(data: Shape, out: Shape, *, kept: bool) -> list[int]:
    if kept and len(data) == len(out):
        return [axis for axis in range(len(data)) if data[axis] != out[axis]]
    rest, missing = list(out), []
    for axis, dim in enumerate(data):
        if rest and rest[0] == dim:
            rest.pop(0)
        else:
            missing.append(axis)
    return missing


def _pads(operand: SampleOperand) -> Wanted:
    data, out = complete(operand.data), complete(operand.out)
    half = operand.count // 2
    if data is None or out is None or len(data) != len(out) or half > len(data):
        return _crop_region(operand)
    more = [after - before for before, after in zip(data, out, strict=True)]
    axes = operand.integers(3) or list(range(len(data)))
    if len(axes) != half:
        axes = sorted(axes, key=lambda axis: not more[axis])[:half]  # those that grow first
    padded = [more[axis] for axis in axes]
    return [extra - extra // 2 for extra in padded] + [extra // 2 for extra in padded]


def _resize_scales(operand: SampleOperand) -> Wanted:
    data, out, count = complete(operand.data), complete(operand.out), operand.count
    axes = operand.op.attribute("axes", None) or list(range(count))
    if data is None or out is None or len(data) != len(out) or len(axes) != count or not all(data):
        return [1, 1, *([2] * (count - 2))][:count]
    # A little more where it is no whole number: sizes are rounded down.
    return [out[axis] / data[axis] + (0.001 if out[axis] % data[axis] else 0.0) for axis in axes]


def _resize_sizes(operand: SampleOperand) -> Wanted:
    """Return what is known of each axis: most modes stretch neither samples nor channels."""
    out, data, count = operand.out, operand.data, operand.count
    rank = len(out or data or ())
    if data is not None and len(data) != rank:
        data = None
    axes = operand.op.attribute("axes", None) or list(range(rank))[-count:]
    if len(axes) != count or any(not -rank <= axis < rank for axis in axes):
        return 16.0
    return [_resized(out, data, axis % rank) for axis in axes]


def _resized(out: Dims | None, data: Dims | None, axis: int) -> int:
    after, before = out[axis] if out else None, data[axis] if data else None
    if after is not None:
        return after
    if before is None:
        return 16
    return before * 2 if axis > 1 else before


def _window_length(operand: SampleOperand) -> Wanted:
    return (operand.out or (None,))[0] or 10


def _index(operand: SampleOperand) -> Wanted:
    """Return the indices into the first operand, along the axis that the operator names."""
    return _below(operand.along(operand.data, 0))


def _index_tuple(operand: SampleOperand) -> Wanted:
    """Return indices below the least of the sizes that a tuple of them is about."""
    indices = operand.shape_of(operand.op.inputs[1])
    start = int(operand.op.attribute("batch_dims", 0))
    sizes = [dim for dim in (operand.data or ())[start:][: indices[-1] if indices else None] if dim]
    return _below(min(sizes, default=None))


def _class_index(operand: SampleOperand) -> Wanted:
    data = operand.data or ()
    return _below(data[1] if len(data) > 1 else None)


def _batch_index(operand: SampleOperand) -> Wanted:
    return _below(operand.data[0] if operand.data else None)


def _below(size: int | None) -> Wanted:
    return Range(0.0, size - 1.0) if size else None


def _sequence_length(operand: SampleOperand) -> Wanted:
    """Return the whole length of the sequences that a recurrent network is fed."""
    return (operand.data[0] or 1) if operand.data else None


def _crop_region(operand: SampleOperand) -> Wanted:
    half = operand.count // 2
    return [0] * half + [1] * (operand.count - half)


def _picture_size(operand: SampleOperand) -> Wanted:
    """Return N, C, H, W of a picture, for a grid of N, H, W, 2."""
    out, theta, count = complete(operand.out), operand.data, operand.count
    if out is not None and len(out) == count:
        return [out[0], 3, *out[1:-1]]
    batch = (theta[0] if theta else None) or 1
    return [batch, 3, *([8] * (count - 2))][:count]


def _image_size(operand: SampleOperand) -> Wanted:
    out = complete(operand.out)
    return out[2:] if out is not None and len(out) == operand.count + 2 else None


def _image_block(operand: SampleOperand) -> Wanted:
    """Return the block of Col2Im that fits the number of columns and of blocks."""
    out, data, count = complete(operand.out), complete(operand.data), operand.count
    if out is None or data is None or len(out) != count + 2 or len(data) != 3 or not out[1]:
        return None
    dilations = operand.op.attribute("dilations", None) or [1] * count
    strides = operand.op.attribute("strides", None) or [1] * count
    pads = operand.op.attribute("pads", None) or [0] * 2 * count
    for block in _factorings(data[1] // out[1], count):
        steps = 1
        for axis, size in enumerate(block):
            room = out[axis + 2] + pads[axis] + pads[axis + count] - dilations[axis] * (size - 1) - 1
            steps *= room // strides[axis] + 1
        if steps == data[2]:
            return block
    return None


def _factorings(product: int, count: int) -> list[tuple[int, ...]]:
    if count == 1:
        return [(product,)]
    if not 0 < product <= _LARGEST_BLOCK:
        return []
    firsts = [size for size in range(1, product + 1) if product % size == 0]
    return [(size, *rest) for size in firsts for rest in _factorings(product // size, count - 1)]


def _dft_length(operand: SampleOperand) -> Wanted:
    one_sided = operand.op.attribute("onesided", 0) and not operand.op.attribute("inverse", 0)
    dims = operand.data if one_sided else operand.out
    length = dims[-2] if dims and len(dims) > 1 else None
    return length or 16


# The table.


class Trait(Flag):
    """What a value can be followed through an operator for."""

    UNPACKS = auto()  # a weight may be stored in a smaller form before it
    KEEPS_AXES = auto()  # sizes required after it are required before it
    KEEPS_SIZES = auto()  # a size read after it is that of its first operand
    KEEPS_NUMBER = auto()  # a number is reached after it by reaching it before
    KEEPS_COUNT = auto()  # what counts up from 0 before it does so after
    TAKES_PART = auto()  # some values go on and others do not, or are joined by others
    EQUAL_SIZES = auto()  # its operands' sizes are equal, from the last axis on


UNPACKS, EQUAL_SIZES, TAKES_PART = Trait.UNPACKS, Trait.EQUAL_SIZES, Trait.TAKES_PART
KEEPS_AXES, KEEPS_SIZES, KEEPS_NUMBER = Trait.KEEPS_AXES, Trait.KEEPS_SIZES, Trait.KEEPS_NUMBER
KEEPS_COUNT = Trait.KEEPS_COUNT

# What an operand is used for: "index" is one into something computed, "row" one into a table.
Meaning = Literal["mask", "size", "index", "row"]
_FIRST, _ANY, _CHOICES = range(1), range(1 << 30), range(1, 3)  # operands


class Operator(NamedTuple):
    """One row of the table."""

    shape: ShapeRule | None = None
    traits: Trait = Trait(0)
    passes: range = range(0)  # the operands whose values come out again
    means: Mapping[int, Meaning] = {}  # by operand
    wants: Mapping[int, Wants] = {}  # by operand
    wants_integers: Mapping[int, Wants] = {}  # by operand, for those of an integer type, before `wants`
    weight: WeightRule | None = None
    weight_operand: int = 1
    vocabulary: tuple[str, ...] = ()  # the attributes that hold what the first operand is looked up in


def operator(op: Op) -> Operator:
    """Return what is known of an operator."""
    return OPERATORS.get(op.type, _UNKNOWN)


def _rows(names: str, row: Operator) -> dict[str, Operator]:
    return dict.fromkeys(names.split(), row)


_UNKNOWN = Operator()
_POSITIVE, _SCALE, _UNIT, _DIVISOR = Range(0.1, 2.0), Range(0.05, 0.2), Range(-0.95, 0.95), Range(1.0, 9.0)
_AXES_AND_SIZES = KEEPS_AXES | KEEPS_SIZES
_ARITHMETIC = UNPACKS | KEEPS_AXES | EQUAL_SIZES
_ARRANGES = UNPACKS | KEEPS_NUMBER | KEEPS_COUNT
_PICKS = UNPACKS | KEEPS_NUMBER | TAKES_PART
_SLICE: Mapping[int, Wants] = {1: 0.0, 2: _slice_ends, 3: _slice_axes, 4: 1.0}
_QUANTIZED = {1: _SCALE, 4: _SCALE, 6: _SCALE}

OPERATORS: Mapping[str, Operator] = {
    # One tensor in, one of its shape out.
    **_rows("Identity Cast", Operator(SAME, _ARRANGES | _AXES_AND_SIZES, _FIRST)),
    "CastLike": Operator(None, KEEPS_NUMBER, _FIRST),
    "Dropout": Operator(SAME, UNPACKS | KEEPS_NUMBER | _AXES_AND_SIZES, _FIRST, wants={1: 0.25}),
    "Clip": Operator(SAME, _AXES_AND_SIZES, _FIRST, {}, {1: -0.5, 2: 0.75}, {1: 2.0, 2: 12.0}),
    "Abs": Operator(SAME, _AXES_AND_SIZES | KEEPS_NUMBER),
    "Neg": Operator(SAME, _AXES_AND_SIZES, _FIRST),
    "Floor": Operator(SAME, KEEPS_AXES | KEEPS_NUMBER, _FIRST),
    **_rows("Ceil Round", Operator(SAME, KEEPS_NUMBER, _FIRST)),
    "Not": Operator(SAME, means={0: "mask"}),
    "CumSum": Operator(SAME, wants={1: -1.0}),
    "CumProd": Operator(wants={1: -1.0}),
    **_rows("Relu Sigmoid Tanh Softmax", Operator(SAME, _AXES_AND_SIZES)),
    **_rows("Exp Erf LeakyRelu", Operator(SAME, KEEPS_AXES)),
    **_rows("Log Sqrt", Operator(SAME, KEEPS_AXES, wants={0: _POSITIVE})),
    **_rows("LogSoftmax Elu Selu HardSigmoid HardSwish Gelu Sign Mish", Operator(SAME)),
    **_rows("Acos Asin Atanh", Operator(wants={0: _UNIT})),
    "Acosh": Operator(wants={0: Range(1.1, 3.0)}),
    "Bernoulli": Operator(wants={0: Range(0.05, 0.95)}),
    "Trilu": Operator(wants={1: 0.0}),
    "QuantizeLinear": Operator(None, KEEPS_AXES, wants={1: _SCALE}),
    "DequantizeLinear": Operator(None, UNPACKS | KEEPS_AXES, wants={1: _SCALE}),
    "DynamicQuantizeLinear": Operator(None, KEEPS_AXES),
    # Tensors that are broadcast.
    **_rows("Add Sub Mul", Operator(BROADCAST, _ARITHMETIC, _ANY)),
    "Div": Operator(BROADCAST, _ARITHMETIC, _FIRST, wants_integers={1: _DIVISOR}),
    "Pow": Operator(BROADCAST, KEEPS_AXES | EQUAL_SIZES),
    "Mod": Operator(BROADCAST, wants_integers={1: _DIVISOR}),
    "BitShift": Operator(wants_integers={1: Range(0.0, 4.0)}),
    **_rows("Max Min", Operator(BROADCAST, KEEPS_NUMBER | EQUAL_SIZES, _ANY)),
    "Sum": Operator(None, EQUAL_SIZES),
    **_rows("Equal Greater Less", Operator(BROADCAST, EQUAL_SIZES)),
    **_rows("And Or", Operator(BROADCAST, means={0: "mask", 1: "mask"})),
    "Where": Operator(None, EQUAL_SIZES, _CHOICES, {0: "mask"}),
    # The same values in another shape.
    "Transpose": Operator(ShapeRule(1, _transpose_shape), UNPACKS | KEEPS_NUMBER, _FIRST),
    "Reshape": Operator(ShapeRule(1, _reshape_shape), _ARRANGES, _FIRST, {1: "size"}, {1: _reshape_target}),
    "Squeeze": Operator(ShapeRule(1, _squeeze_shape), _ARRANGES, _FIRST, wants={1: _squeezed_axes}),
    "Unsqueeze": Operator(ShapeRule(1, _unsqueeze_shape), _ARRANGES, _FIRST, wants={1: _unsqueezed_axes}),
    "Flatten": Operator(None, KEEPS_NUMBER, _FIRST),
    "Expand": Operator(_TARGET, _ARRANGES, _FIRST, {1: "size"}, {1: _output_shape}),
    "Tile": Operator(None, KEEPS_NUMBER, _FIRST, {1: "size"}, {1: _repeats}),
    "Pad": Operator(None, TAKES_PART, _FIRST, wants={1: _pads, 3: _count_up}),
    "CenterCropPad": Operator(wants={1: _output_shape}),
    "Resize": Operator(means={3: "size"}, wants={1: _crop_region, 2: _resize_scales, 3: _resize_sizes}),
    "Upsample": Operator(wants={1: _resize_scales}),
    # Some of the values.
    "Concat": Operator(ShapeRule(None, _concat_shape), UNPACKS | TAKES_PART, _ANY),
    "Split": Operator(None, TAKES_PART, _FIRST, wants={1: _split_sizes}),
    "Slice": Operator(None, KEEPS_NUMBER | KEEPS_COUNT | TAKES_PART, _FIRST, {2: "size"}, _SLICE),
    "Gather": Operator(ShapeRule(2, _gather_shape), _PICKS, _FIRST, {1: "row"}, {1: _index}),
    "GatherElements": Operator(None, passes=_FIRST, means={1: "row"}, wants={1: _index}),
    "GatherBlockQuantized": Operator(means={1: "row"}),
    "GatherND": Operator(means={1: "index"}, wants={1: _index_tuple}),
    "Scatter": Operator(means={1: "index"}, wants={1: _index}),
    "ScatterElements": Operator(None, TAKES_PART, _FIRST, {1: "index"}, {1: _index}),
    "ScatterND": Operator(None, TAKES_PART, _FIRST, {1: "index"}, {1: _index_tuple}),
    "Compress": Operator(passes=_FIRST),
    "TopK": Operator(means={1: "size"}, wants={1: _top_k}),
    **_rows("ReduceMax ReduceMin", Operator(None, KEEPS_NUMBER, _FIRST, wants={1: _reduced_axes})),
    **_rows("ReduceMean ReduceSum ReduceProd", Operator(None, KEEPS_NUMBER, wants={1: _reduced_axes})),
    **_rows("ReduceL1 ReduceL2 ReduceSumSquare", Operator(wants={1: _reduced_axes})),
    **_rows("ReduceLogSum ReduceLogSumExp", Operator(wants={1: _reduced_axes})),
    "NonMaxSuppression": Operator(wants={2: 3.0, 3: 0.5, 4: 0.0}),
    "MaxUnpool": Operator(wants={1: _count_up, 2: _output_shape}),
    "RoiAlign": Operator(means={2: "index"}, wants={2: _batch_index}),
    "GridSample": Operator(wants={1: Range(-1.0, 1.0)}),
    "AffineGrid": Operator(wants={1: _picture_size}),
    "Col2Im": Operator(wants={1: _image_size, 2: _image_block}),
    # New values.
    "ConstantOfShape": Operator(_TARGET, UNPACKS, means={0: "size"}, wants={0: _output_shape}),
    "Range": Operator(means={1: "size", 2: "size"}, wants={0: 0.0, 1: _range_limit, 2: 1.0}),
    "OneHot": Operator(wants={1: _depth}),
    **_rows("HannWindow HammingWindow BlackmanWindow", Operator(wants={0: _window_length})),
    "MelWeightMatrix": Operator(wants={0: 8.0, 1: 64.0, 2: 8000.0, 3: 100.0, 4: 3800.0}),
    "DFT": Operator(wants={1: _dft_length, 2: -2.0}),
    "STFT": Operator(wants={1: 8.0}),
    # Weights.
    "MatMul": Operator(ShapeRule(2, _matmul_shape), weight=_matmul_weight),
    "MatMulInteger": Operator(weight=_matmul_weight),
    "QLinearMatMul": Operator(wants=_QUANTIZED, weight=_matmul_weight, weight_operand=3),
    "MatMulNBits": Operator(weight=lambda op, _: {-1: op.attribute("K", 0)}),
    "Gemm": Operator(weight=_gemm_weight),
    "Conv": Operator(ShapeRule(2, _conv_shape), weight=_conv_weight),
    "ConvInteger": Operator(weight=_conv_weight),
    "QLinearConv": Operator(wants=_QUANTIZED, weight=_conv_weight, weight_operand=3),
    "ConvTranspose": Operator(weight=_conv_transpose_weight),
    "BatchNormalization": Operator(SAME, wants={4: _POSITIVE}, weight=_channel_weight),
    "InstanceNormalization": Operator(weight=_channel_weight),
    "LayerNormalization": Operator(SAME, weight=_last_axis_weight),
    "SimplifiedLayerNormalization": Operator(weight=_last_axis_weight),
    "LSTM": Operator(wants={4: _sequence_length, 5: _UNIT, 6: _UNIT}, weight=_recurrent_weight),
    **_rows("GRU RNN", Operator(wants={4: _sequence_length, 5: _UNIT}, weight=_recurrent_weight)),
    "NegativeLogLikelihoodLoss": Operator(means={1: "index"}, wants={1: _class_index}),
    "SoftmaxCrossEntropyLoss": Operator(means={1: "index"}, wants={1: _class_index}),
    # Control flow, sequences and optionals.
    "If": Operator(means={0: "mask"}),
    "Loop": Operator(means={0: "size"}, wants={0: 3.0}),
    **_rows("Optional SequenceConstruct ConcatFromSequence", Operator(passes=_ANY)),
    "OptionalGetElement": Operator(None, KEEPS_NUMBER, _ANY),
    "SplitToSequence": Operator(passes=_ANY, wants={1: _split_sizes}),
    "SequenceAt": Operator(passes=_ANY, wants={1: 0.0}),
    "SequenceErase": Operator(wants={1: 0.0}),
    "SequenceInsert": Operator(passes=_ANY, wants={2: 0.0}),
    # Words and codes.
    "LabelEncoder": Operator(vocabulary=("keys_strings", "keys_int64s", "classes_strings")),
    **_rows("CategoryMapper OneHotEncoder", Operator(vocabulary=("cats_strings", "cats_int64s"))),
    "DictVectorizer": Operator(vocabulary=("string_vocabulary", "int64_vocabulary")),
    "TfIdfVectorizer": Operator(vocabulary=("pool_strings", "pool_int64s")),
    "StringNormalizer": Operator(vocabulary=("stopwords",)),
}
