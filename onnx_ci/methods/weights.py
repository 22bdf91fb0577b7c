"""Stores a weight in a smaller form: nodes at the head of its graph turn it back into what it was.

onnxruntime runs `Cast` and `Mul` of stored tensors once, when a session starts, and keeps the
result: the session then runs the original float graph, at its speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.compensation import Moments
from onnx_ci.methods.edit import Attribute, Edits, constant_node, make_node, takes_initializers
from onnx_ci.methods.options import WeightOptions
from onnx_ci.methods.rounding import BLOCK, Array, Levels, codes
from onnx_ci.methods.selection import encoding_parts, matches
from onnx_ci.model.graph import Site, all_names, fixed_names, fresh_name, opset_in, roots
from onnx_ci.model.model import Model, element_count
from onnx_ci.model.proto import GraphProto, NodeProto, TensorProto

SMALLEST, LARGEST = 1e-6, 1e30  # the largest magnitude of a weight is between these
EXTREMES = {"float16": 65504.0}  # of a type, if that is below what a weight may be
FLT_MIN = np.finfo(np.float32).tiny
CAST_BYTES = 64  # that a node takes, about
WHOLE = 8  # bits of a plane whose bytes hold one code each
SLICE_TAKES_INPUTS = 10  # the opset from which what to cut is an input, not an attribute
# What a weight becomes: stored parts, and the nodes that rebuild it. None leaves the weight alone.
Encode = Callable[["Encoder", Array], list[NodeProto] | None]
Shape = tuple[int, ...]
# What the weights of one graph share, by what it is for: under what name it is stored, and its values.
Tables = dict[str, tuple[str, Array]]


class Encoder:
    """Collects the parts of one encoded weight, and the nodes that rebuild it, under names that are free. The
    model is not touched, so several may be at work at once.

    Each step gives the name of its result. `output` is what the rebuilt weight is called: as before, unless
    another graph uses that name too.
    """

    def __init__(
        self, model: Model, site: Site, taken: set[str], tables: Tables, *, rename: bool = False
    ) -> None:
        self.model = model
        self.site = site
        self.taken = taken
        self.tables = tables
        self.output = fresh_name(site.name, taken) if rename else site.name
        self.moments: Moments | None = None  # of what the weight is multiplied with
        self.packs = True  # whether it is to be stored: if not, nodes or the decoded values will do
        self.decoded: Array | None = None
        self.arrays: dict[str, Array] = {}  # the parts to be stored
        self.types: dict[str, int] = {}  # of those whose type numpy does not have
        self.nodes: list[NodeProto] = []

    def store(self, suffix: str, values: Array, data_type: int = 0) -> str:
        """A part to be stored. `data_type` is given where the values are codes, or the bits, of a type that
        numpy does not have."""
        name = self.name(suffix)
        self.arrays[name] = values
        if data_type:
            self.types[name] = data_type
        return name

    def table(self, name: str, values: Array) -> str:
        """A tensor that many weights are decoded with: stored once, where all of them see it."""
        if name not in self.tables:
            self.tables[name] = fresh_name(f"onnx_ci.{name}", self.taken), values
        return self.tables[name][0]

    def parts(self) -> Iterator[TensorProto]:
        """Store the parts where the weight was: in the same external file, if it had one."""
        for name, values in self.arrays.items():
            tensor, data_type = TensorProto(name=name), self.types.get(name)
            tensor.external_data.extend(self.site.tensor.external_data)
            self.model.set_array(tensor, packed(values) if data_type == TensorProto.UINT4 else values)
            tensor.data_type = data_type or tensor.data_type
            tensor.dims[:] = values.shape
            yield tensor

    def name(self, suffix: str) -> str:
        return fresh_name(f"{self.site.name}.{suffix}", self.taken)

    def sizes(self, *sizes: int) -> str:
        """A shape, or a place in one, which all weights that need the same share."""
        return self.table(f"at{'x'.join(map(str, sizes))}", np.array(sizes, np.int64))

    def cast(self, stored: str, to: int = TensorProto.FLOAT, *, output: str = "") -> str:
        return self.node("Cast", [stored], output=output, to=to)

    def node(self, op: str, inputs: Sequence[str], *, output: str = "", **attributes: Attribute) -> str:
        """Add a node without a name, which would take bytes and tell nothing that its output does not. Values
        on the way to the weight have short names: they are written down twice, in up to twenty nodes."""
        output = output or fresh_name(f"oci.{len(self.taken):x}", self.taken)
        self.nodes.append(make_node(op, inputs, output, **attributes))
        return output

    def scaled(self, value: str, scale: Array, unit: np.float32 | None = None) -> str:
        """Times the scales, which are stored as what they come as: float32, fp16, or as numbers of a unit."""
        factor = self.store("scale", scale)
        if scale.dtype != np.float32:
            factor = self.cast(factor)
        if unit is not None:
            factor = self.node("Mul", [factor, self.store("unit", np.array(unit))])
        return self.node("Mul", [value, factor])

    def from_blocks(self, value: str, shape: Shape, axis: int, *, stored: int) -> None:
        """Put blocks that were taken with an axis moved to the end back in shape."""
        value = self._shaped(value, (*shape[:axis], *shape[axis + 1 :], *shape[axis : axis + 1]), stored)
        last = len(shape) - 1
        if axis < last:
            self.node("Transpose", [value], perm=[*range(axis), last, *range(axis, last)])

    def _shaped(self, value: str, shape: Shape, stored: int) -> str:
        """In this shape; of more elements than it has, which filled up the last block, only the first."""
        length = math.prod(shape)
        if stored != length:
            flat = self.node("Reshape", [value, self.sizes(-1)])
            value = self._cut(flat, length)
            if len(shape) == 1:
                return value
        return self.node("Reshape", [value, self.sizes(*shape)])

    def _cut(self, value: str, length: int) -> str:
        if opset_in(self.site.scope, self.model.proto) < SLICE_TAKES_INPUTS:
            return self.node("Slice", [value], starts=[0], ends=[length])
        return self.node("Slice", [value, self.sizes(0), self.sizes(length)])

    def done(self) -> list[NodeProto]:
        """The nodes; the last one gives the weight, as fp16 where it was and something computes with that."""
        if self.site.tensor.data_type == TensorProto.FLOAT16 and not _only_cast(self.site):
            self.cast(self.nodes[-1].output[0], TensorProto.FLOAT16)
        self.nodes[-1].output[0] = self.output
        return self.nodes


def encode_weights(
    model: Model, options: WeightOptions, encode: Encode | None, *, kept: str, note: str = ""
) -> Applied:
    """Encode every weight that the options choose; `kept` says why some are left as they are."""
    if encode is None:
        return Applied(0, note)
    left_alone = fixed_names(model.proto) | encoding_parts(model.proto)
    encoded, left = encode_tensors(model, left_alone, lambda site: is_chosen(site, options), encode)
    return Applied(len(encoded), "; ".join(filter(None, [note, kept_note(left, kept)])))


def encode_named(
    model: Model, encodings: Mapping[str, Encode], moments: Mapping[str, Moments] | None = None
) -> set[str]:
    """Encode the weights of these names, each in its own way; the names of those that were."""

    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        encoder.moments = (moments or {}).get(encoder.site.name)
        return encodings[encoder.site.name](encoder, values)

    fixed = fixed_names(model.proto)
    encoded, _ = encode_tensors(model, fixed, lambda site: site.name in encodings, encode)
    return set(encoded)


def encode_tensors(
    model: Model, left_alone: set[str], wanted: Callable[[Site], bool], encode: Encode
) -> tuple[list[str], list[str]]:
    """Encode every wanted tensor that only nodes read; the names of those that were, and were not."""
    taken: set[str] = set()
    encoded: list[str] = []
    kept: list[str] = []
    for root in roots(model.proto):
        edits = Edits(root)
        tables: Tables = {}
        for site in filter(wanted, list(root.nested_sites(left_alone))):
            taken = taken or all_names(model.proto)
            encoder = Encoder(model, site, taken, tables, rename=site.name in edits.shadowed)
            nodes = encode(encoder, model.array(site.tensor))
            if nodes is None:
                kept.append(site.name)
            else:
                encoded.append(site.name)
                _place(encoder, nodes, edits)
        casts: list[NodeProto] = []
        shared: list[TensorProto] = []
        for name, values in tables.values():
            small = in_bytes(values)
            shared.append(TensorProto(name=name if small is values else fresh_name(f"{name}.bytes", taken)))
            model.set_array(shared[-1], small)
            if small is not values:
                casts.append(make_node("Cast", [shared[-1].name], name, to=TensorProto.INT32))
        if isinstance(root.body, GraphProto):
            root.body.initializer.extend(shared)
        else:
            casts[:0] = [constant_node(table.name, table) for table in shared]
        edits.front[root][:0] = casts
        edits.make()
    return encoded, kept


def in_bytes(table: Array) -> Array:
    """A table as it is stored: whole numbers that bytes hold as bytes, if that is worth a Cast."""
    fits = table.dtype == np.int32 and table.size > CAST_BYTES and 0 <= table.min() <= table.max() < 256
    return table.astype(np.uint8) if fits else table


def _place(encoder: Encoder, nodes: list[NodeProto], edits: Edits) -> None:
    """Stored parts are initializers, which take fewer bytes than Constants, where a graph may have them."""
    site = encoder.site
    if site.node is None or takes_initializers(site.scope.body, encoder.model.proto.ir_version):
        site.scope.body.initializer.extend(encoder.parts())
    else:
        edits.front[site.scope] += [constant_node(part.name, part) for part in encoder.parts()]
    edits.front[site.scope] += nodes
    edits.replace(site, encoder.output)


def plain_weight(values: Array) -> bool:
    """Whether values are what training leaves behind, and not a mask, codes or indices stored as floats.

    Masks hold the extremes of the type, or nothing but denormals; indices are whole numbers. Rounding
    either changes what the model does, however small the error is next to the largest value.
    """
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not SMALLEST <= largest <= LARGEST or largest == EXTREMES.get(values.dtype.name):  # NaN is in no range
        return False
    flat = values.reshape(-1)
    blocks = [flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK)]
    if any((np.abs(block) == FLT_MIN).any() for block in blocks):
        return False
    return not all(np.array_equal(block, np.rint(block)) for block in blocks)


def is_chosen(site: Site, options: WeightOptions) -> bool:
    """Whether a stored tensor is one of the weights that the options choose."""
    large = bool(site.tensor.dims) and element_count(site.tensor) >= options.min_elements
    named = not options.only or matches(site.name, options.only)
    plain = site.tensor.data_type in options.element_types
    return plain and large and named and not matches(site.name, options.skip)


def kept_note(kept: list[str], why: str) -> str:
    """What a step says of the weights it left alone."""
    return f"{len(kept)} left alone ({why}): {', '.join(kept[:3])}" if kept else ""


@dataclass(frozen=True)
class Rounded:
    """Codes in the shape they are stored in, with scale and zero of a shape that broadcasts to it."""

    codes: Array
    scale: Array
    zero: Array | None


def rounded(
    grid: Array, levels: Levels, shape: Shape, stored: Shape, better: Callable[[Array], Array] | None = None
) -> Rounded:
    """`stored` is the shape of the codes, `shape` that of the scales; `better` may find other codes."""
    found = codes(grid, levels)
    found = better(found) if better else found
    zero = None if levels.zero is None else levels.zero.astype(found.dtype).reshape(shape)
    return Rounded(found.reshape(stored), levels.scale.reshape(shape), zero)


def decoded(encoder: Encoder, parts: Rounded) -> str:
    """What codes stand for: Cast, Sub and Mul of stored tensors, which onnxruntime runs once, when a session
    starts."""
    value = encoder.cast(encoder.store("q", parts.codes))
    if parts.zero is not None:
        zero = encoder.cast(encoder.store("zero", parts.zero))
        value = encoder.node("Sub", [value, zero])
    return encoder.scaled(value, parts.scale)


def dequantize(
    encoder: Encoder, parts: Rounded, axis: int | None, block: int | None = None, data_type: int = 0
) -> list[NodeProto]:
    """One DequantizeLinear, which onnxruntime keeps and runs (or fuses) at every inference.

    With a zero point always: some runtimes take its type from there.
    """
    zero = np.zeros(parts.scale.shape, parts.codes.dtype) if parts.zero is None else parts.zero
    codes = encoder.store("q", parts.codes, data_type)
    scale = encoder.store("scale", parts.scale.astype(np.float32))
    inputs = [codes, scale, encoder.store("zero", zero, data_type)]
    encoder.node("DequantizeLinear", inputs, axis=axis, block_size=block)
    return encoder.done()


def packed(codes: Array, width: int = 4, shift: int = 0) -> Array:
    """Some bits of each code, as many codes a byte as fit, the first in the low bits as ONNX packs them."""
    bits = ((codes.reshape(-1) >> shift) & ((1 << width) - 1)).astype(np.uint8)
    bits = np.pad(bits, (0, -bits.size % (8 // width)))
    joined: Array = bits[:: 8 // width].copy()
    for position in range(1, 8 // width):
        joined |= bits[position :: 8 // width] << np.uint8(width * position)
    return joined


def planes(bits: int) -> list[tuple[int, int]]:
    """The planes of a code as (bits, shift), the lowest first."""
    found, shift = [], 0
    for width in (4, 2, 1, WHOLE):
        if bits & width:
            found.append((width, shift))
            shift += width
    return found


def plane_table(width: int, shift: int) -> Array:
    """What a byte of a plane adds to each of its codes."""
    byte = np.arange(256, dtype=np.int32)
    columns = [((byte >> (width * at)) & ((1 << width) - 1)) << shift for at in range(8 // width)]
    return np.stack(columns, axis=1)


def along_axis(grid: Array, levels: Levels, shape: Shape, axis: int) -> Rounded:
    """Codes in blocks of an axis that was moved to the end, with the axis back in its place."""
    others = (*shape[:axis], *shape[axis + 1 :])
    parts = rounded(grid, levels, (*others, -1), (*others, -1))
    zero = None if parts.zero is None else _moved(parts.zero, axis)
    return Rounded(_moved(parts.codes[..., : shape[axis]], axis), _moved(parts.scale, axis), zero)


def _moved(values: Array, axis: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(values, -1, axis))


def summed_axis(site: Site, ndim: int) -> int:
    """The axis along which a weight is multiplied and summed, where runtimes expect blocks to lie."""
    return ndim - 2 if ndim > 1 and "MatMul" in _readers(site, position=1) else ndim - 1


def stands_first(site: Site) -> bool:
    """Whether a product has the weight on its left, where onnxruntime's kernels take one scale only."""
    return not _readers(site, position=0).isdisjoint(("MatMul", "Gemm"))


def _only_cast(site: Site) -> bool:
    """Whether nothing but Casts read a weight: they take float32 as well."""
    readers = site.scope.chain()[-1].readers.get((site.scope, site.name), ())
    return bool(readers) and all(reader.node.op_type == "Cast" for reader in readers)


def _readers(site: Site, position: int) -> set[str]:
    """The ops that read a weight as this input of theirs, or another value of its name in an inner graph."""
    nodes = (node for scope in site.scope.nested() for node in scope.body.node)
    return {node.op_type for node in nodes if site.name in node.input[position : position + 1]}
