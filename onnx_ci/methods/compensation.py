"""Rounds a weight so that the errors of its numbers make up for each other, on inputs as the model has them.

A product with a weight errs by E·x. Over many x that is E·H·Eᵀ, where H is the second moment of x: the
numbers that follow can take back most of what one was rounded by, as far as their inputs go together (LDLQ,
which finds the same as GPTQ). The form stays as it is, and takes the same bytes. Plain rounding is kept where
it does better on inputs that had no part in it.

What a weight is multiplied with is found here too: which value meets it, and how its numbers lie for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import xxhash

from onnx_ci.methods.rounding import Array, nearest_values
from onnx_ci.model.graph import STANDARD_DOMAINS, Scope, defined_twice, nested
from onnx_ci.model.model import Model
from onnx_ci.model.proto import NodeProto

DAMPING = 0.1  # of the mean of the diagonal: what holds for inputs that were never seen
STRIDE = 32  # columns after which errors are passed on to all that follow
SLAB = 1 << 20  # numbers at a time
TRIED, FEW_BITS = 32, 5  # rows, and bits, that tell what it is worth
JUDGED = 64  # rows that tell whether it was worth it


@dataclass(frozen=True)
class Moments:
    """Second moments of what a weight is multiplied with, in groups and in chunks of columns: what `fit`
    has is for rounding, what `held_out` has for judging it."""

    shape: tuple[int, int, int]  # of the weight, so that one turn makes it groups, rows and columns
    turned: bool  # whether rows are the last axis there
    fit: Array
    held_out: Array
    found: dict[bytes, Array] = field(
        default_factory=dict, compare=False, repr=False
    )  # what was asked before

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """Of each moment the factor above the diagonal, by which errors are passed on, with the columns in
        the order of what they weigh; and that order. What weighs most comes first: others can make up for it.

        In float64, where the order in which a library adds moves no code.
        """
        fit = self.fit.reshape(-1, *self.fit.shape[-2:])
        weight = np.diagonal(fit, axis1=1, axis2=2).astype(np.float64)
        order = np.argsort(-weight, axis=1, kind="stable")
        damping = DAMPING * weight.mean(axis=1)
        damping[damping == 0] = 1.0  # nothing ever came here
        upper = np.empty(fit.shape)
        for part in _slices(len(fit), SLAB // fit[0].size):
            places, number = order[part], np.arange(len(order[part]))[:, None, None]
            moments = fit[part][number, places[:, :, None], places[:, None, :]].astype(np.float64)
            np.einsum("bcc->bc", moments)[:] += damping[part, None]
            lower = np.linalg.cholesky(moments[:, ::-1, ::-1])
            lower /= np.diagonal(lower, axis1=1, axis2=2)[:, None, :]
            upper[part] = lower[:, ::-1, ::-1]
        return upper, order

    @cached_property
    def digest(self) -> str:
        digest = xxhash.xxh3_64(np.ascontiguousarray(self.fit).data)
        digest.update(np.ascontiguousarray(self.held_out).data)
        return digest.hexdigest()

    def matrix(self, values: Array) -> Array:
        """A tensor as (groups and chunks, columns, rows); what fills up the last chunk is zero."""
        grouped: Array = values.reshape(self.shape)
        return self._chunked(grouped if self.turned else grouped.swapaxes(1, 2))

    def some_rows(self, values: Array) -> tuple[Array, int]:
        """A few rows of a tensor, as `matrix` gives all of them, and how many each stands for."""
        grouped = values.reshape(self.shape)
        rows = self.shape[2 if self.turned else 1]
        step = -(-rows // JUDGED)
        some = grouped[:, :, ::step] if self.turned else grouped[:, ::step].swapaxes(1, 2)
        return self._chunked(some), step

    def _chunked(self, grouped: Array) -> Array:
        """(groups, columns, rows) with the columns in chunks; what fills up the last one is zero."""
        groups, columns, rows = grouped.shape
        chunks, width = self.fit.shape[1:3]
        if chunks * width > columns:
            grouped = np.pad(grouped, ((0, 0), (0, chunks * width - columns), (0, 0)))
        return np.ascontiguousarray(grouped.reshape(groups * chunks, width, rows))

    def tensor(self, matrix: Array, shape: tuple[int, ...]) -> Array:
        """What was a tensor of this shape, back from a matrix."""
        groups = self.shape[0]
        columns = self.shape[1 if self.turned else 2]
        grouped = matrix.reshape(groups, -1, matrix.shape[-1])[:, :columns]
        if not self.turned:
            grouped = grouped.swapaxes(1, 2)
        return np.ascontiguousarray(grouped.reshape(shape))


@dataclass(frozen=True)
class Steps:
    """How the numbers of a tensor are rounded: to what `snap` makes of each over its scale, plus its zero."""

    scale: Array  # scale and zero have the shape of the tensor
    zero: Array | None
    snap: Callable[[Array], Array]


def compensated(values: Array, plain: Array, steps: Steps, moments: Moments) -> Array:
    """What `snap` gives for each number of a tensor; as in `plain` where that is better."""
    key = xxhash.xxh3_128(np.ascontiguousarray(plain).data)
    key.update(np.ascontiguousarray(steps.scale).data)
    if key.digest() not in moments.found:
        moments.found[key.digest()] = _compensated(values, plain, steps, moments)
    return moments.found[key.digest()]


def _compensated(values: Array, plain: Array, steps: Steps, moments: Moments) -> Array:
    weight, before, scale = map(moments.matrix, (values, plain, steps.scale))
    scale[scale == 0] = 1.0  # what fills up the last chunk
    zero = None if steps.zero is None else moments.matrix(steps.zero)
    result = _passed_on(weight, scale, zero, steps.snap, moments).astype(plain.dtype, copy=False)
    some = (slice(None), slice(None), slice(None, None, -(-weight.shape[2] // JUDGED)))
    middle = 0.0 if zero is None else zero[some]
    was, now = (
        _harm(weight[some] - (found[some] - middle) * scale[some], moments) for found in (before, result)
    )
    return moments.tensor(result, values.shape) if now < was else plain


def harm_left(values: Array, moments: Moments) -> float:
    """What is left of the harm that rounding does, about, where errors make up for each other: from 0 to 1,
    by some rows of a weight in few bits."""
    weight = moments.matrix(values)
    weight = weight[:, :, :: -(-weight.shape[2] // TRIED)]
    reach = np.abs(weight).max(axis=1, keepdims=True)
    scale = np.broadcast_to(np.where(reach > 0, reach, 1.0), weight.shape)
    found = _passed_on(weight, scale, None, _in_few_bits, moments)
    was, now = (_harm(weight - part * scale, moments) for part in (_in_few_bits(weight / scale), found))
    return min(1.0, now / was) if was > 0 else 1.0


def gain(values: Array, moments: Moments) -> float:
    """How much of a product's power an error of this weight makes, for each unit of the error's own power,
    about: as if errors had nothing to do with what they meet."""
    some, step = moments.some_rows(values)
    fit = moments.fit.reshape(-1, *moments.fit.shape[-2:])
    power = step * _power(some, fit)
    rows = moments.shape[2 if moments.turned else 1]
    met = float(np.trace(fit, axis1=1, axis2=2, dtype=np.float64).sum()) * rows / values.size
    return met / power if power > 0 else 0.0


def harm_of(error: Array, values: Array, moments: Moments) -> float:
    """How much of a product's power an error of its weight makes, on inputs that had no part in it."""
    made, power = (_harm(moments.some_rows(part)[0], moments) for part in (error, values))
    return made / power if power > 0 else 0.0


def _in_few_bits(over: Array) -> Array:
    return nearest_values(over, FEW_BITS)


def _passed_on(
    weight: Array, scale: Array, zero: Array | None, snap: Callable[[Array], Array], moments: Moments
) -> Array:
    """Round column after column, each with what those before it left; a part at a time."""
    upper, order = moments.factors
    groups, count, rows = weight.shape
    result = np.empty(weight.shape)
    for part in _slices(groups, SLAB // (count * rows)):
        for some in _slices(rows, SLAB // count):
            at = (part, slice(None), some)
            middle = None if zero is None else _in_order(zero[at], order[part])
            given, steps = (_in_order(values[at], order[part]) for values in (weight, scale))
            found = _rounded(given, steps, middle, snap, upper[part])
            for one, columns, places in zip(result[at], found, order[part], strict=True):
                one[places] = columns
    return result


def _slices(length: int, step: int) -> Iterator[slice]:
    step = max(1, step)
    return (slice(start, start + step) for start in range(0, length, step))


def _rounded(
    weight: Array, scale: Array, zero: Array | None, snap: Callable[[Array], Array], upper: Array
) -> Array:
    wanted, found, count = weight.copy(), np.empty_like(weight), weight.shape[1]
    over = 1.0 / scale
    for start in range(0, count, STRIDE):
        end = min(start + STRIDE, count)
        errors = np.empty((weight.shape[0], end - start, weight.shape[2]))
        for at in range(start, end):
            left = np.matmul(upper[:, None, start:at, at], errors[:, : at - start])[:, 0]
            # In float32, where another order of adding up moves no code.
            rounded = ((wanted[:, at] + left) * over[:, at]).astype(np.float32)
            rounded = found[:, at] = snap(rounded if zero is None else rounded + zero[:, at])
            made = (rounded if zero is None else rounded - zero[:, at]) * scale[:, at]
            np.subtract(weight[:, at], made, out=errors[:, at - start])
        wanted[:, end:] += upper[:, start:end, end:].swapaxes(1, 2) @ errors
    return found


def _in_order(parts: Array, order: Array) -> Array:
    """The columns of each group in an order of its own, as float64."""
    turned = [columns[places] for columns, places in zip(parts, order, strict=True)]
    return np.stack(turned).astype(np.float64)


def _harm(error: Array, moments: Moments) -> float:
    """What an error does to outputs, on inputs that had no part in the rounding."""
    return _power(error, moments.held_out.reshape(-1, *moments.held_out.shape[-2:]))


def _power(weight: Array, moments: Array) -> float:
    """Of what comes of a weight, by second moments of what it is multiplied with."""
    weight = weight.astype(np.float32, copy=False)
    return float(np.einsum("bcn,bcn->", weight, np.matmul(moments, weight), dtype=np.float64))


Shape = tuple[int, ...]
SAME_NUMBERS = ("Cast", "Identity")  # between a weight and what it is multiplied with
GEOMETRY = ("kernel_shape", "strides", "dilations", "pads", "auto_pad")


@dataclass(frozen=True)
class Product:
    """A weight that meets a value. Reshaped to `shape` it has groups, rows and columns, or groups, columns
    and rows where it is `turned`. The value has the axes of groups and columns last once `axes` are moved
    there; of a convolution it is what `geometry` cuts out of it."""

    weight: str
    value: str
    shape: tuple[int, int, int]
    turned: bool = False
    axes: Shape = (-1,)
    geometry: Mapping[str, Any] | None = None

    @property
    def layout(self) -> tuple[tuple[int, int, int], bool]:
        """How the numbers of the weight lie; the same for all products that are added up."""
        return self.shape, self.turned

    def asked(self, number: int, output: str) -> dict[str, Any]:
        """What the worker has to know to collect moments of an output, under a number."""
        columns = self.shape[1 if self.turned else 2]
        where = {"groups": self.shape[0], "columns": columns, "axes": self.axes, "geometry": self.geometry}
        return {"number": number, "value": output, "elements": prod(self.shape), **where}


class Products:
    """Finds what weights, of which the shapes are given, are multiplied with: in the main graph, and in the
    branches and loops inside it."""

    def __init__(self, model: Model, weights: Mapping[str, Shape]) -> None:
        unclear = defined_twice(Scope(model.proto.graph))
        self.weights = {name: shape for name, shape in weights.items() if name not in unclear}
        self.stands_for = {name: name for name in self.weights}
        for body in nested(model.proto.graph):
            for node in body.node:
                if node.op_type in SAME_NUMBERS and node.input[0] in self.stands_for:
                    self.stands_for[node.output[0]] = self.stands_for[node.input[0]]

    def of(self, node: NodeProto) -> Iterator[Product]:
        """Yield the products that a node computes."""
        if node.op_type not in _READ or node.domain not in STANDARD_DOMAINS:
            return
        for position, name in enumerate(node.input):
            if name in self.stands_for:
                weight = self.stands_for[name]
                for one in _READ[node.op_type](node, position, weight, self.weights[weight]):
                    if one.value and one.value not in self.stands_for:
                        yield one


def _matmul(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    if len(shape) == 2 and len(node.input) == 2:
        other = node.input[1 - position]
        yield Product(weight, other, (1, *shape), turned=position == 1, axes=(-1,) if position else (-2,))


def _gemm(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    if len(shape) == 2 and position < 2:
        given = _attributes(node)
        flipped = [bool(given.get(name, 0)) for name in ("transA", "transB")]
        turned = flipped[0] if position == 0 else not flipped[1]
        axis = (-2 if flipped[0] else -1) if position == 1 else (-1 if flipped[1] else -2)
        yield Product(weight, node.input[1 - position], (1, *shape), turned=turned, axes=(axis,))


def _conv(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    given = _attributes(node)
    groups = given.get("group", 1)
    if position == 1 and len(shape) > 2 and groups > 0 and shape[0] % groups == 0:
        geometry = {name: given[name] for name in GEOMETRY if name in given}
        whole = (groups, shape[0] // groups, prod(shape[1:]))
        yield Product(weight, node.input[0], whole, geometry={**geometry, "kernel_shape": shape[2:]})


def _conv_transpose(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    groups = _attributes(node).get("group", 1)
    if position == 1 and len(shape) > 2 and groups > 0 and shape[0] % groups == 0:
        whole = (groups, shape[0] // groups, prod(shape[1:]))
        yield Product(weight, node.input[0], whole, turned=True, axes=(1 - len(shape),))


def _recurrent(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    if len(shape) == 3 and position == 1:
        yield Product(weight, node.input[0], (1, shape[0] * shape[1], shape[2]))
    elif len(shape) == 3 and position == 2:
        # What goes round is what comes out, a step later.
        axes = (-2, -1) if _attributes(node).get("layout", 0) else (-3, -1)
        yield Product(weight, node.output[0], (shape[0], shape[1], shape[2]), axes=axes)


_READ = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
}


def _attributes(node: NodeProto) -> dict[str, Any]:
    given = node.attribute
    return {one.name: list(one.ints) or one.s.decode(errors="replace") or one.i for one in given}
