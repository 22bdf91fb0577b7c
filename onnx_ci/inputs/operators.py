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

WHOLE_AXIS = 2.0**30  # as the end of a slice: whatever there is
_LARGEST_BLOCK = 4096


@dataclass(frozen=True, kw_only=True)
class NodeShapes:
    """A node with what is known of its values' shapes; `count` values are wanted for one of its operands."""

    graph: UseDef
    op: Op
    shape_of: Callable[[str], Dims | None]
    count: int = 0
    integer: bool = False  # the type of those values

    @property
    def shapes(self) -> list[Dims | None]:
        """The shapes of all operands."""
        return [self.shape_of(name) for name in self.op.inputs]

    def shape(self, index: int) -> Dims | None:
        """Return the shape of an operand."""
        name = self.op.input(index)
        return self.shape_of(name) if name else None

    @property
    def data(self) -> Dims | None:
        """The shape of the first operand."""
        return self.shape(0)

    @property
    def out(self) -> Dims | None:
        """The shape of the first output."""
        return self.shape_of(self.op.outputs[0]) if self.op.outputs else None

    @property
    def changes(self) -> list[tuple[int, int]]:
        """The sizes of each axis before and after; none where a size is not known, or the rank changes."""
        data, out = complete(self.data), complete(self.out)
        if data is None or out is None or len(data) != len(out):
            return []
        return list(zip(data, out, strict=True))

    def integers(self, index: int) -> list[int] | None:
        return self.graph.integers(self.op.input(index))

    def along(self, dims: Dims | None, default: int) -> int | None:
        """Return the size along the operator's own axis."""
        return _size(dims, int(self.op.attribute("axis", default)))


def complete(dims: Sequence[int | None] | None) -> Shape | None:
    """Return the shape if all its sizes are known."""
    if dims is None:
        return None
    sizes = tuple(dim for dim in dims if dim is not None)
    return sizes if len(sizes) == len(dims) else None


def _size(dims: Dims | None, axis: int) -> int | None:
    """Return the size of an axis, if there is one and it is known."""
    return dims[axis] if dims and -len(dims) <= axis < len(dims) else None


# Shapes: what an operator's first output has.

ShapeRule = Callable[[NodeShapes], Dims | None]


def same_shape(node: NodeShapes) -> Dims | None:
    return node.data


def broadcast_shape(node: NodeShapes) -> Dims | None:
    shapes = node.shapes[:2]
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(_wider(sizes) for sizes in zip(*padded, strict=True))


def _wider(sizes: Sequence[int | None]) -> int | None:
    stretched = [size for size in sizes if size != 1]
    if not stretched:
        return 1
    return next((size for size in stretched if size is not None), None)


def _transpose_shape(node: NodeShapes) -> Dims | None:
    return None if node.data is None else transposed(node.op, node.data)


def transposed(op: Op, dims: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return what belongs to each axis after a Transpose."""
    order = list(range(len(dims)))
    perm = op.attribute("perm", order[::-1])
    return tuple(dims[axis] for axis in perm) if sorted(perm) == order else None


def _reshape_shape(node: NodeShapes) -> Dims | None:
    shape, target = node.data, node.integers(1)
    if shape is None or target is None:
        return None
    dims = [shape[i] if dim == 0 and i < len(shape) else dim for i, dim in enumerate(target)]
    total, rest = _product(shape), _product([dim for dim in dims if dim != -1])
    open_size = total // rest if total is not None and rest else None
    return tuple(open_size if dim == -1 else dim for dim in dims)


def _product(dims: Sequence[int | None]) -> int | None:
    sizes = complete(dims)
    return None if sizes is None else math.prod(sizes)


def _target_shape(node: NodeShapes) -> Dims | None:
    """Return the shape that the last operand names."""
    target = node.integers(len(node.op.inputs) - 1) if node.op.inputs else None
    return None if target is None else tuple(target)


def _matmul_shape(node: NodeShapes) -> Dims | None:
    left, right = node.data, node.shape(1)
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    longer = left if len(left) >= len(right) else right
    return (*longer[:-2], left[-2], right[-1])


def _gather_shape(node: NodeShapes) -> Dims | None:
    data, indices = node.data, node.shape(1)
    axis = node.op.attribute("axis", 0)
    if data is None or indices is None or not -len(data) <= axis < len(data):
        return None
    axis %= len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


def _conv_shape(node: NodeShapes) -> Dims | None:
    data, weight = node.data, node.shape(1)
    if not data or not weight:
        return None
    return (data[0], weight[0], *([None] * (len(data) - 2)))


def _concat_shape(node: NodeShapes) -> Dims | None:
    shapes = node.shapes
    known = [shape for shape in shapes if shape is not None]
    axis = node.op.attribute("axis", 0)
    if not known or len(known) < len(shapes) or any(not -len(dims) <= axis < len(dims) for dims in known):
        return None
    dims = list(known[0])
    sizes = complete([shape[axis] for shape in known])
    dims[axis] = None if sizes is None else sum(sizes)
    return tuple(dims)


def _unsqueeze_shape(node: NodeShapes) -> Dims | None:
    return None if node.data is None else unsqueezed(node.graph, node.op, node.data, 1)


def unsqueezed(graph: UseDef, op: Op, dims: Sequence[Any], new: Any) -> tuple[Any, ...] | None:
    """Return what belongs to each axis after an Unsqueeze, `new` to those that it adds."""
    axes = _axes(graph, op)
    if axes is None:
        return None
    rank = len(dims) + len(axes)
    places = {axis % rank for axis in axes}
    rest = iter(dims)
    return tuple(new if axis in places else next(rest, None) for axis in range(rank))


def _squeeze_shape(node: NodeShapes) -> Dims | None:
    shape, axes = node.data, _axes(node.graph, node.op)
    if axes is None or not shape:
        return None
    places = {axis % len(shape) for axis in axes}
    return tuple(dim for axis, dim in enumerate(shape) if axis not in places)


def _axes(graph: UseDef, op: Op) -> list[int] | None:
    """Return the axes that an operator names, in an attribute or as its second operand."""
    axes: list[int] | None = op.attribute("axes", None)
    return axes or graph.integers(op.input(1))


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


Wants = Range | float | Callable[[NodeShapes], Wanted]


def _integers(wanted: Wanted, other: Wanted = None) -> Wants:
    """Return what is wanted of integers, where values of other types are free or others."""
    return lambda node: wanted if node.integer else other


def _count_up(node: NodeShapes) -> Wanted:
    return range(node.count)


def _reshape_target(node: NodeShapes) -> Wanted:
    out, data, count = node.out, node.data, node.count
    if out is not None and len(out) == count and out.count(None) <= 1:
        return [-1 if dim is None else dim for dim in out]
    kept = 0 if data is not None and len(data) == count else 1
    return [*([kept] * (count - 1)), -1][:count]


def _output_shape(node: NodeShapes) -> Wanted:
    """Return the output's own shape, or small sizes."""
    out = complete(node.out)
    if out is not None and len(out) == node.count:
        return out
    return 2.0 if node.op.type == "ConstantOfShape" else 1.0


def _repeats(node: NodeShapes) -> Wanted:
    if len(node.changes) != node.count:
        return 2.0
    return [after // before if before else 1 for before, after in node.changes]


def _top_k(node: NodeShapes) -> Wanted:
    return node.along(node.out, -1) or min(3, node.along(node.data, -1) or 3)


def _range_limit(node: NodeShapes) -> Wanted:
    start, step = node.integers(0) or [0], node.integers(2) or [1]
    return start[0] + step[0] * (_size(node.out, 0) or 16)


def _split_sizes(node: NodeShapes) -> Wanted:
    count = node.count
    if node.op.type == "Split":
        parts = complete([node.along(node.shape_of(name), 0) for name in node.op.outputs])
        if parts is not None and len(parts) == count:
            return parts
    total = node.along(node.data, 0)
    if total is None or count <= 1:  # a single number is the size of each part
        return total or 1
    ends = [total * i // count for i in range(count + 1)]
    return [end - start for start, end in pairwise(ends)]


def _slice_ends(node: NodeShapes) -> Wanted:
    out, data = node.out, node.data
    sizes = out if out is not None and (data is None or len(out) == len(data)) else data
    known = [_size(sizes, axis) for axis in _slice_axes(node)]
    return [WHOLE_AXIS if size is None else size for size in known]


def _slice_axes(node: NodeShapes) -> list[int]:
    """Return the axes that a slice most likely is about: those that it changes, and then the first ones."""
    count, given = node.count, node.integers(3)
    if given is not None and len(given) == count:
        return given
    data, out = node.data or (), node.out or ()
    axes = list(range(len(data)))
    if len(node.op.inputs) < 4 or len(axes) < count:
        return list(range(count))
    if len(data) == len(out):
        axes.sort(key=lambda axis: data[axis] == out[axis])
    return sorted(axes[:count])


def _squeezed_axes(node: NodeShapes) -> Wanted:
    data = node.data or ()
    squeezed = 1 if 1 in data else None
    axes = [axis for axis, dim in enumerate(data) if dim == squeezed]
    return axes[: node.count] if len(axes) >= node.count else range(node.count)


def _unsqueezed_axes(node: NodeShapes) -> Wanted:
    data, out = node.data, node.out
    if data is None or out is None or len(out) != len(data) + node.count:
        return range(node.count)
    rest, added = list(data), []
    for axis, dim in enumerate(out):
        must_match = len(out) - axis <= len(rest)
        if rest and (must_match or (rest[0] == dim and dim != 1)):
            rest.pop(0)
        else:
            added.append(axis)
    return added


def _reduced_axes(node: NodeShapes) -> Wanted:
    data, out, count = complete(node.data), complete(node.out), node.count
    if data is None:
        return range(-count, 0)
    axes: list[int] = []
    if node.op.attribute("keepdims", 1) and node.changes:
        axes = [axis for axis, (before, after) in enumerate(node.changes) if before != after]
    elif out is not None:
        axes = _missing_axes(data, out)
    axes += [axis for axis in reversed(range(len(data))) if axis not in axes]
    return sorted(axes[:count])


def _missing_axes(data: Shape, out: Shape) -> list[int]:
    rest, missing = list(out), []
    for axis, dim in enumerate(data):
        if rest and rest[0] == dim:
            rest.pop(0)
        else:
            missing.append(axis)
    return missing


def _pads(node: NodeShapes) -> Wanted:
    half = node.count // 2
    if not node.changes or half > len(node.changes):
        return _crop_region(node)
    more = [after - before for before, after in node.changes]
    axes = node.integers(3) or list(range(len(more)))
    if len(axes) != half:
        axes = sorted(axes, key=lambda axis: not more[axis])[:half]  # those that grow first
    padded = [more[axis] for axis in axes]
    return [extra - extra // 2 for extra in padded] + [extra // 2 for extra in padded]


def _crop_region(node: NodeShapes) -> Wanted:
    half = node.count // 2
    return [0] * half + [1] * (node.count - half)


def _resize_scales(node: NodeShapes) -> Wanted:
    changes, count = node.changes, node.count
    axes = node.op.attribute("axes", None) or list(range(count))
    if not changes or len(axes) != count or not all(before for before, _ in changes):
        return [1, 1, *([2] * (count - 2))][:count]
    scales = []
    for before, after in (changes[axis] for axis in axes):
        # A little more where it is no whole number: sizes are rounded down.
        scales.append(after / before + (0.001 if after % before else 0.0))
    return scales


def _resize_sizes(node: NodeShapes) -> Wanted:
    """Return what is known of each axis: most modes stretch neither samples nor channels."""
    out, data, count = node.out, node.data, node.count
    rank = len(out or data or ())
    axes = node.op.attribute("axes", None) or list(range(rank))[-count:]
    if len(axes) != count or any(not -rank <= axis < rank for axis in axes):
        return 16.0
    sizes = []
    for axis in (axis % rank for axis in axes):
        before = _size(data, axis) if data is not None and len(data) == rank else None
        usual = 16 if before is None else before * (2 if axis > 1 else 1)
        after = _size(out, axis)
        sizes.append(usual if after is None else after)
    return sizes


def _window_length(node: NodeShapes) -> Wanted:
    return _size(node.out, 0) or 10


def _index(node: NodeShapes) -> Wanted:
    """Return the indices into the first operand, along the axis that the operator names."""
    return _below(node.along(node.data, 0))


def _index_tuple(node: NodeShapes) -> Wanted:
    """Return indices below the least of the sizes that a tuple of them is about."""
    indices = node.shape(1)
    start = int(node.op.attribute("batch_dims", 0))
    sizes = [dim for dim in (node.data or ())[start:][: indices[-1] if indices else None] if dim]
    return _below(min(sizes, default=None))


def _class_index(node: NodeShapes) -> Wanted:
    return _below(_size(node.data, 1))


def _below(size: int | None) -> Wanted:
    return Range(0.0, size - 1.0) if size else None


def _sequence_length(node: NodeShapes) -> Wanted:
    """Return the whole length of the sequences that a recurrent network is fed."""
    return (node.data[0] or 1) if node.data else None


def _picture_size(node: NodeShapes) -> Wanted:
    """Return N, C, H, W of a picture, for a grid of N, H, W, 2."""
    out, count = complete(node.out), node.count
    if out is not None and len(out) == count:
        return [out[0], 3, *out[1:-1]]
    return [_size(node.data, 0) or 1, 3, *([8] * (count - 2))][:count]


def _image_size(node: NodeShapes) -> Wanted:
    out = complete(node.out)
    return out[2:] if out is not None and len(out) == node.count + 2 else None


def _image_block(node: NodeShapes) -> Wanted:
    """Return the block of Col2Im that fits the number of columns and of blocks."""
    out, data, count = complete(node.out), complete(node.data), node.count
    if out is None or data is None or len(out) != count + 2 or len(data) != 3 or not out[1]:
        return None
    dilations = node.op.attribute("dilations", None) or [1] * count
    strides = node.op.attribute("strides", None) or [1] * count
    pads = node.op.attribute("pads", None) or [0] * 2 * count
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


def _dft_length(node: NodeShapes) -> Wanted:
    one_sided = node.op.attribute("onesided", 0) and not node.op.attribute("inverse", 0)
    return _size(node.data if one_sided else node.out, -2) or 16


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
_CLIP: Mapping[int, Wants] = {1: _integers(2.0, -0.5), 2: _integers(12.0, 0.75)}
_QUANTIZED = {1: _SCALE, 4: _SCALE, 6: _SCALE}

OPERATORS: Mapping[str, Operator] = {
    # One tensor in, one of its shape out.
    **_rows("Identity Cast", Operator(same_shape, _ARRANGES | _AXES_AND_SIZES, _FIRST)),
    "CastLike": Operator(None, KEEPS_NUMBER, _FIRST),
    "Dropout": Operator(same_shape, UNPACKS | KEEPS_NUMBER | _AXES_AND_SIZES, _FIRST, wants={1: 0.25}),
    "Clip": Operator(same_shape, _AXES_AND_SIZES, _FIRST, wants=_CLIP),
    "Abs": Operator(same_shape, _AXES_AND_SIZES | KEEPS_NUMBER),
    "Neg": Operator(same_shape, _AXES_AND_SIZES, _FIRST),
    "Floor": Operator(same_shape, KEEPS_AXES | KEEPS_NUMBER, _FIRST),
    **_rows("Ceil Round", Operator(same_shape, KEEPS_NUMBER, _FIRST)),
    "Not": Operator(same_shape, means={0: "mask"}),
    "CumSum": Operator(same_shape, wants={1: -1.0}),
    "CumProd": Operator(wants={1: -1.0}),
    **_rows("Relu Sigmoid Tanh Softmax", Operator(same_shape, _AXES_AND_SIZES)),
    **_rows("Exp Erf LeakyRelu", Operator(same_shape, KEEPS_AXES)),
    **_rows("Log Sqrt", Operator(same_shape, KEEPS_AXES, wants={0: _POSITIVE})),
    **_rows("LogSoftmax Elu Selu HardSigmoid HardSwish Gelu Sign Mish", Operator(same_shape)),
    **_rows("Acos Asin Atanh", Operator(wants={0: _UNIT})),
    "Acosh": Operator(wants={0: Range(1.1, 3.0)}),
    "Bernoulli": Operator(wants={0: Range(0.05, 0.95)}),
    "Trilu": Operator(wants={1: 0.0}),
    "QuantizeLinear": Operator(None, KEEPS_AXES, wants={1: _SCALE}),
    "DequantizeLinear": Operator(None, UNPACKS | KEEPS_AXES, wants={1: _SCALE}),
    "DynamicQuantizeLinear": Operator(None, KEEPS_AXES),
    # Tensors that are broadcast.
    **_rows("Add Sub Mul", Operator(broadcast_shape, _ARITHMETIC, _ANY)),
    "Div": Operator(broadcast_shape, _ARITHMETIC, _FIRST, wants={1: _integers(_DIVISOR)}),
    "Pow": Operator(broadcast_shape, KEEPS_AXES | EQUAL_SIZES),
    "Mod": Operator(broadcast_shape, wants={1: _integers(_DIVISOR)}),
    "BitShift": Operator(wants={1: _integers(Range(0.0, 4.0))}),
    **_rows("Max Min", Operator(broadcast_shape, KEEPS_NUMBER | EQUAL_SIZES, _ANY)),
    "Sum": Operator(None, EQUAL_SIZES),
    **_rows("Equal Greater Less", Operator(broadcast_shape, EQUAL_SIZES)),
    **_rows("And Or", Operator(broadcast_shape, means={0: "mask", 1: "mask"})),
    "Where": Operator(None, EQUAL_SIZES, _CHOICES, {0: "mask"}),
    # The same values in another shape.
    "Transpose": Operator(_transpose_shape, UNPACKS | KEEPS_NUMBER, _FIRST),
    "Reshape": Operator(_reshape_shape, _ARRANGES, _FIRST, {1: "size"}, {1: _reshape_target}),
    "Squeeze": Operator(_squeeze_shape, _ARRANGES, _FIRST, wants={1: _squeezed_axes}),
    "Unsqueeze": Operator(_unsqueeze_shape, _ARRANGES, _FIRST, wants={1: _unsqueezed_axes}),
    "Flatten": Operator(None, KEEPS_NUMBER, _FIRST),
    "Expand": Operator(_target_shape, _ARRANGES, _FIRST, {1: "size"}, {1: _output_shape}),
    "Tile": Operator(None, KEEPS_NUMBER, _FIRST, {1: "size"}, {1: _repeats}),
    "Pad": Operator(None, TAKES_PART, _FIRST, wants={1: _pads, 3: _count_up}),
    "CenterCropPad": Operator(wants={1: _output_shape}),
    "Resize": Operator(means={3: "size"}, wants={1: _crop_region, 2: _resize_scales, 3: _resize_sizes}),
    "Upsample": Operator(wants={1: _resize_scales}),
    # Some of the values.
    "Concat": Operator(_concat_shape, UNPACKS | TAKES_PART, _ANY),
    "Split": Operator(None, TAKES_PART, _FIRST, wants={1: _split_sizes}),
    "Slice": Operator(None, KEEPS_NUMBER | KEEPS_COUNT | TAKES_PART, _FIRST, {2: "size"}, _SLICE),
    "Gather": Operator(_gather_shape, _PICKS, _FIRST, {1: "row"}, {1: _index}),
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
    "RoiAlign": Operator(means={2: "index"}, wants={2: lambda node: _below(_size(node.data, 0))}),
    "GridSample": Operator(wants={1: Range(-1.0, 1.0)}),
    "AffineGrid": Operator(wants={1: _picture_size}),
    "Col2Im": Operator(wants={1: _image_size, 2: _image_block}),
    # New values.
    "ConstantOfShape": Operator(_target_shape, UNPACKS, means={0: "size"}, wants={0: _output_shape}),
    "Range": Operator(means={1: "size", 2: "size"}, wants={0: 0.0, 1: _range_limit, 2: 1.0}),
    "OneHot": Operator(wants={1: lambda node: node.along(node.out, -1) or 16}),
    **_rows("HannWindow HammingWindow BlackmanWindow", Operator(wants={0: _window_length})),
    "MelWeightMatrix": Operator(wants={0: 8.0, 1: 64.0, 2: 8000.0, 3: 100.0, 4: 3800.0}),
    "DFT": Operator(wants={1: _dft_length, 2: -2.0}),
    "STFT": Operator(wants={1: 8.0}),
    # Weights.
    "MatMul": Operator(_matmul_shape, weight=_matmul_weight),
    "MatMulInteger": Operator(weight=_matmul_weight),
    "QLinearMatMul": Operator(wants=_QUANTIZED, weight=_matmul_weight, weight_operand=3),
    "MatMulNBits": Operator(weight=lambda op, _: {-1: op.attribute("K", 0)}),
    "Gemm": Operator(weight=_gemm_weight),
    "Conv": Operator(_conv_shape, weight=_conv_weight),
    "ConvInteger": Operator(weight=_conv_weight),
    "QLinearConv": Operator(wants=_QUANTIZED, weight=_conv_weight, weight_operand=3),
    "ConvTranspose": Operator(weight=_conv_transpose_weight),
    "BatchNormalization": Operator(same_shape, wants={4: _POSITIVE}, weight=_channel_weight),
    "InstanceNormalization": Operator(weight=_channel_weight),
    "LayerNormalization": Operator(same_shape, weight=_last_axis_weight),
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
