"""Damage done to a model on purpose, and differences between models, tensor by tensor: what is stored, what
of it another model no longer holds, and what that one computes anew from other bytes."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import prod
from pathlib import Path

import numpy as np
from onnx import numpy_helper, shape_inference

from onnx_ci.methods.downcast import without_values
from onnx_ci.methods.drop_unused import drop_unused
from onnx_ci.methods.fold_constants import UNREAD
from onnx_ci.methods.options import NoOptions
from onnx_ci.model.dtypes import BITS
from onnx_ci.model.graph import (
    STANDARD_DOMAINS,
    Body,
    Scope,
    all_names,
    attribute_tensors,
    constant_value,
    defined_twice,
    nested,
    output_names,
    short_constant,
    stored_in,
    tensors,
)
from onnx_ci.model.model import Model, element_count
from onnx_ci.model.proto import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx_ci.model.receipt import tensor_key
from onnx_ci.model.save import write_runnable
from onnx_ci.model.wire import Span
from onnx_ci.sandbox.exchange import Array, integer_limits, is_float
from onnx_ci.sandbox.runner import RunFailed
from onnx_ci.verify.compare import distance, identical
from onnx_ci.verify.reference import Reference

_FLOATS = {
    *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE),
    *(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ),
    *(TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ),
}
_CODES = {
    *(TensorProto.INT4, TensorProto.INT8, TensorProto.INT16),
    *(TensorProto.UINT4, TensorProto.UINT8, TensorProto.UINT16),
}
WEIGHT_TYPES = _FLOATS | _CODES
FEW = 8  # elements; what has fewer is often a shape, an axis or a bound: damage there may stop the model
BYTE = 8  # bits
_CODE = 2  # bytes that a code has at most
_STRONG = 4.0
_WIDEST, _WIDEST_BYTE = 3e4, 240.0  # fit into every float type, and into those of 8 bits
_OFF = 0.3  # of its value: how far a blurred weight is off
PART = 0.9  # of its elements: what differs in more than these differs as a whole
TensorContent = tuple[int, bytes]  # the type of a tensor, and a digest of its bytes
TensorKey = tuple[int, str]  # the number of a body, and the name in it
Damage = Callable[[Array], Array]
# What weights are rebuilt with: each gives the same for the same, in every session.
STEADY_OPERATORS = {
    *("Cast", "Identity", "Constant", "ConstantOfShape", "DequantizeLinear"),
    *("Add", "Sub", "Mul", "Div", "BitShift", "BitwiseAnd", "Where"),
    *("Gather", "Slice", "Concat", "Tile", "Expand", "Reshape", "Transpose", "Squeeze", "Unsqueeze"),
}


def reverse_order(values: Array) -> Array:
    """Put the same values from last to first."""
    return np.asarray(values.reshape(-1)[::-1].reshape(values.shape))


def scramble(values: Array) -> Array:
    """Leave nothing of it: change order, signs, size and offset. Works for one number, for zeros and for what
    is the same all over."""
    if not is_float(values.dtype):
        return _other_integers(values)
    result = np.abs(_finite(values)[::-1])
    result *= _STRONG
    result += 1.0
    np.negative(result[::2], out=result[::2])
    return _typed(result, values)


def randomize(values: Array) -> Array:
    """Return other numbers altogether, of the size that these have; the same ones each time."""
    if not is_float(values.dtype):
        return _other_integers(values, share=4)
    size = float(np.abs(_finite(values)).max(initial=0.0)) or 1.0
    return _typed(np.random.default_rng(0).standard_normal(values.size, np.float32) * (2 * size), values)


def negate(values: Array) -> Array:
    """Turn the signs of floats; leave other types as they are."""
    return np.asarray(-values) if is_float(values.dtype) else values


def blur(values: Array) -> Array:
    """Move floats by a third, now up and now down: signs, zeros and masks stay what they were."""
    if not is_float(values.dtype):
        return values
    plain = _finite(values)
    factors = np.where(np.random.default_rng(0).random(plain.size, np.float32) < 0.5, 1 - _OFF, 1 + _OFF)
    result = _typed(plain * factors.astype(plain.dtype), values)
    return np.where(plain.reshape(values.shape) == values, result, values)


# Each may run, or show, where the one before does not: codes that are indices, sizes and roots that are
# floats, weights that read the same from either end.
DAMAGES: tuple[Damage, ...] = (reverse_order, negate, blur, scramble)


def damaged(model: Model, how: Damage = reverse_order) -> Model | None:
    """Return a copy with every weight damaged; None where there is nothing to damage. What has only a
    few elements is left alone, unless there is nothing else."""
    for least in (FEW, 1):
        copy = model.copy()
        touched = [_damage(copy, tensor, how, least) for tensor in (*tensors(copy.proto), *copy.beside)]
        if any(touched):
            return copy
    return None


def _damage(model: Model, tensor: TensorProto, how: Damage, least: int) -> bool:
    kinds = WEIGHT_TYPES if least >= FEW else _FLOATS
    if tensor.data_type not in kinds or element_count(tensor) < least:
        return False
    values = model.array(tensor)
    other = how(values)
    if identical(other, values):
        return False
    put(model, tensor, other)
    return True


def put(model: Model, tensor: TensorProto, values: Array) -> None:
    """Give a tensor other values of the type and shape it has."""
    packed = BITS.get(tensor.data_type, 8) < BYTE  # several elements share one
    model.set_raw(tensor, bytes(numpy_helper.from_array(values).raw_data) if packed else values.tobytes())


def _other_integers(values: Array, *, share: int = 2) -> Array:
    """In the other order. Codes are moved by a share of their range, and stay codes; larger integers, which
    may be sizes or indices, by one."""
    turned = values.reshape(-1)[::-1]
    if values.dtype == np.bool_:
        result: Array = ~values
    elif values.itemsize > _CODE:
        result = turned + turned.dtype.type(1 if share == 2 else 2)
    else:
        low, high = integer_limits(values.dtype)
        count = high - low + 1
        result = low + (turned.astype(np.int64) - low + count // share) % count
    return np.asarray(result.astype(values.dtype).reshape(values.shape))


def _finite(values: Array) -> Array:
    """All in one row, in a type to compute with; a mask's extremes are cut to what every type holds."""
    plain = values.reshape(-1).astype(np.float64 if values.dtype == np.float64 else np.float32)
    np.nan_to_num(plain, copy=False, posinf=_WIDEST, neginf=-_WIDEST)
    return np.clip(plain, -_WIDEST, _WIDEST, out=plain)


def _typed(result: Array, like: Array) -> Array:
    limit = _WIDEST_BYTE if like.itemsize == 1 else _WIDEST
    kept = np.clip(result, -limit, limit, out=result)
    return np.asarray(kept.astype(like.dtype, copy=False).reshape(like.shape))


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor by the number of its body, counted from outside in, and its name there. It may be read in a
    branch only, though it is stored in the graph around that."""

    body: int
    name: str
    tensor: TensorProto
    read_in: int = 0
    part: Array | None = None  # the elements that changed, where not all of it did

    @property
    def key(self) -> TensorKey:
        return self.body, self.name


def plain_copy(model: Model) -> Model:
    """Copy a model so that every constant is a tensor, and nothing is left that no output needs."""
    copy = model.copy()
    drop_unused(copy, NoOptions())
    for body in _bodies(copy):
        for node in body.node:
            numbers = short_constant(node)
            if numbers is not None:
                del node.attribute[:]
                copy.set_array(node.attribute.add(name="value", type=AttributeProto.TENSOR).t, numbers)
    return copy


def stored_tensors(model: Model) -> Iterator[StoredTensor]:
    """Yield every tensor that a model stores and may read when it runs, in a fixed order, which a copy of the
    model shares. Training graphs are not run, so not among them."""
    read = [{name for node in body.node for name in node.input} for body in _bodies(model)]
    for number, body in enumerate(_bodies(model)):
        for name, tensor in _of_body(body):
            readers = (inner for inner in range(number, len(read)) if name in read[inner])
            yield StoredTensor(number, name, tensor, next(readers, number))


def _of_body(body: Body) -> Iterator[tuple[str, TensorProto]]:
    """A Constant goes by the name of its value; what other nodes hold by the node and the attribute."""
    if isinstance(body, GraphProto):
        yield from ((tensor.name, tensor) for tensor in body.initializer)
        yield from ((sparse.values.name, sparse.values) for sparse in body.sparse_initializer)
    for place, node in enumerate(body.node):
        plain = node.op_type == "Constant" and node.domain in STANDARD_DOMAINS
        owner = node.output[0] if node.output else node.name or f"{node.op_type} {place}"
        for attribute in node.attribute:
            for number, tensor in enumerate(attribute_tensors(attribute)):
                yield owner if plain and not number else f"{owner}.{attribute.name}.{number}", tensor


def _bodies(model: Model) -> Iterator[Body]:
    yield from nested(model.proto.graph)
    for function in model.proto.functions:
        yield from nested(function)


def changed_tensors(before: Model, after: Model) -> list[StoredTensor]:
    """Return what `before` stores and `after` does not: other values under the same name, or no longer there.

    Numbers that are no weights (shapes, axes, indices) are never rounded, only computed with in advance or
    stored in another type: they count where their name stands for other values. So do tensors of a few
    numbers, unless their name is gone for good: they were part of the graph, an epsilon or a bound. What was
    only measured, and is gone, is such a number too: its shape.
    """
    held, measured = _Held(after), _only_measured(before)
    changed = [
        item
        for item in stored_tensors(before)
        if not held.holds(before, item) and (item.name in held.names or item.name not in measured)
    ]
    return [replace(item, part=held.changed_part(before, item)) for item in changed]


def _differing(one: Array, two: Array) -> Array | None:
    if one.shape != two.shape or one.dtype != two.dtype:
        return None
    both_nan = (one != one) & (two != two)
    where = np.asarray((one != two) & ~both_nan)
    return where if 0 < np.count_nonzero(where) <= PART * where.size else None


class _Held:
    """What a model stores, by name and altogether; read only as far as it takes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.by_name: dict[str, list[TensorProto]] = defaultdict(list)
        for item in stored_tensors(model):
            self.by_name[item.name].append(item.tensor)
        self.names = all_names(model.proto)

    def holds(self, other: Model, item: StoredTensor) -> bool:
        tensor = item.tensor
        if element_count(tensor) == 0 or tensor.data_type == TensorProto.STRING:
            return True
        namesakes = [*self.by_name[item.name], *(one for one in self.model.beside if one.name == item.name)]
        if namesakes:
            return any(self._same(other, tensor, namesake) for namesake in namesakes)
        weight = tensor.data_type in WEIGHT_TYPES
        if not weight or (element_count(tensor) < FEW and item.name not in self.names):
            return True
        # The same bytes may be stored under any name.
        return self._shared_span(other, tensor) in self._spans or _content(other, tensor) in self._contents

    def changed_part(self, other: Model, item: StoredTensor) -> Array | None:
        """Where a tensor differs that does so only in part: damage elsewhere in it would show nothing."""
        part = None
        for namesake in self.by_name[item.name]:
            where = _differing(other.array(item.tensor), self.model.array(namesake))
            part = part if where is None else where
        return part

    def _same(self, other: Model, one: TensorProto, two: TensorProto) -> bool:
        if one.data_type == two.data_type:
            span = self._shared_span(other, one)
            shared = span is not None and span == self.model.span(two)
            return shared or _content(other, one) == _content(self.model, two)
        if one.data_type in WEIGHT_TYPES or two.data_type == TensorProto.STRING:
            return False
        return np.array_equal(other.array(one), self.model.array(two))

    def _shared_span(self, other: Model, tensor: TensorProto) -> Span | None:
        """Where a tensor is in the store of both models, if they share one: nothing has to be read then."""
        return other.span(tensor) if other.store is self.model.store else None

    @property
    def _stored(self) -> Iterator[TensorProto]:
        return chain(*self.by_name.values(), self.model.beside)

    @cached_property
    def _spans(self) -> set[Span | None]:
        return {self.model.span(tensor) for tensor in self._stored} - {None}

    @cached_property
    def _contents(self) -> set[TensorContent]:
        return {_content(self.model, one) for one in self._stored if one.data_type in WEIGHT_TYPES}


def _content(model: Model, tensor: TensorProto) -> TensorContent:
    return tensor.data_type, tensor_key(model, tensor)


@dataclass(frozen=True)
class Rebuilt:
    """Tensors of one model that another computes, bit for bit, and what it stores to compute them from."""

    keys: set[TensorKey] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    far: set[TensorKey] = field(default_factory=set)  # not the same, nor as much like it as was asked for


def rebuilt_tensors(
    before: Model,
    items: Sequence[StoredTensor],
    after: Model,
    *,
    reference: Reference,
    folder: Path,
    least_sqnr: float,
) -> Rebuilt:
    """Return which of these tensors of `before` the other model computes from what it stores, or holds. Of a
    tensor that is only measured, the shape is all that has to be kept.

    onnxruntime computes them, as it does when a session starts; no input has to reach them for that."""
    rebuilt = Rebuilt()
    measured = _only_measured(before)
    root = Scope(after.proto.graph)
    unclear = defined_twice(root)
    for scope in root.nested():
        for item in items:
            if item.name not in scope.defined or item.name in unclear:
                continue
            graph = GraphProto(name="decoded")
            if not _collect(scope, item.name, graph, set()):
                continue
            graph.output.add(name=item.name).type.tensor_type.elem_type = item.tensor.data_type
            values = _computed(after, graph, reference, folder)
            if values is None:
                continue
            own = before.array(item.tensor)
            if identical(own, values) or (item.name in measured and own.shape == values.shape):
                rebuilt.keys.add(item.key)
                rebuilt.parts.update(site.name for site in stored_in(Scope(graph)))
            elif not _is_near(own, values, least_sqnr):
                rebuilt.far.add(item.key)
    return rebuilt


def multiplications(proto: ModelProto, shapes: Mapping[str, Sequence[int]]) -> int:
    """Return how many numbers a run multiplies, about, on inputs of these shapes; 0 where onnx can't infer
    what comes of them."""
    copy = without_values(proto)
    for value in copy.graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            dims = value.type.tensor_type.shape.dim
            del dims[:]
            for size in shapes[value.name]:
                dims.add(dim_value=size)
    copy.graph.ClearField("value_info")
    try:
        done = shape_inference.infer_shapes(copy, data_prop=True)
    except (shape_inference.InferenceError, ValueError):
        return 0
    shape_of: dict[str, list[int]] = {}
    total = 0
    for body in nested(done.graph):
        shape_of.update((tensor.name, list(tensor.dims)) for tensor in body.initializer)
        for value in (*body.input, *body.value_info, *body.output):
            shape_of[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        total += sum(_products(node, shape_of) for node in body.node)
    return total


def _products(node: NodeProto, shape_of: Mapping[str, Sequence[int]]) -> int:
    shapes = [shape_of.get(name, ()) for name in (*node.input[:2], *node.output[:1])]
    if len(shapes) < 3 or not all(shapes):
        return 0
    one, other, made = shapes
    if node.op_type == "Conv":
        return made[0] * prod(made[2:]) * prod(other)
    if node.op_type == "ConvTranspose":
        return one[0] * prod(one[2:]) * prod(other)
    if node.op_type == "MatMul":
        return prod(made) * one[-1]
    if node.op_type == "Gemm":
        return made[-1] * prod(one)
    return 2 * prod(one[:2]) * prod(other) if node.op_type in ("LSTM", "GRU", "RNN") else 0


def _only_measured(model: Model) -> set[str]:
    """Return the names that nothing but `Shape` and `Size` reads: no output depends on what numbers these
    are."""
    measured: set[str] = set()
    read: set[str] = set()
    for body in _bodies(model):
        read.update(output_names(body))
        for node in body.node:
            is_measure = node.op_type in UNREAD and node.domain in STANDARD_DOMAINS
            (measured if is_measure else read).update(node.input)
    return measured - read


def _is_near(one: Array, two: Array, least_sqnr: float) -> bool:
    if one.shape != two.shape or not is_float(one.dtype) or not is_float(two.dtype):
        return False
    return distance(one, two).sqnr >= least_sqnr


def _computed(after: Model, graph: GraphProto, reference: Reference, folder: Path) -> Array | None:
    """Return the only output of a graph of stored tensors; None where it does not run."""
    proto = ModelProto(ir_version=after.proto.ir_version, opset_import=after.proto.opset_import, graph=graph)
    folder.mkdir(parents=True)
    try:
        write_runnable(Model(after.path, proto, after.store), folder / "decoded.onnx")
        outputs = reference.runner.run(folder / "decoded.onnx", [{}], limits=reference.limits)
        return outputs[0].get(graph.output[0].name)
    except RunFailed:
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _collect(scope: Scope, name: str, graph: GraphProto, done: set[str]) -> bool:
    """Add all that a value is computed from, each after what it needs; False where that is not only what is
    stored."""
    if name in done or not name:
        return True
    done.add(name)
    home = scope.home(name)
    if any(value.name == name for value in home.body.input):
        return False
    for tensor in home.body.initializer:
        if tensor.name == name:
            graph.initializer.append(tensor)
            return True
    node = next((node for node in home.body.node if name in node.output), None)
    if node is None or not _is_steady(node):
        return False
    if not all(_collect(home, given, graph, done) for given in node.input):
        return False
    done.update(node.output)
    graph.node.append(node)
    return True


def _is_steady(node: NodeProto) -> bool:
    standard = node.domain in STANDARD_DOMAINS and node.op_type in STEADY_OPERATORS
    return standard and (node.op_type != "Constant" or constant_value(node) is not None)
