"""Stores tensors in a smaller form that gives them back bit for bit when a session starts.

Only `Cast`, `Expand`, `Gather` and `Reshape` are used. Measured with onnxruntime 1.31: of stored tensors it
folds each of them, for every type in NUMPY_TYPES, from opset 6 (Expand 8) on, in branches and loop bodies
too, and whatever the size of the result (512 MiB tried), so that a session runs the graph as it was. `Tile`
would not do: of float16 it is not folded. The parts of a form are compacted in turn until nothing more is
gained, which is also why a second run finds nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.options import NoOptions
from onnx_ci.methods.rounding import BLOCK, Array
from onnx_ci.methods.selection import quantized_inputs
from onnx_ci.methods.weights import Encoder, encode_tensors
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.graph import Site, fixed_names, opset_in, outline
from onnx_ci.model.model import Model, stored_size
from onnx_ci.model.proto import NodeProto, TensorProto

MIN_OPSET = 6  # Cast takes its type as a number from here on
# Smaller tensors are shapes, axes and the like, which must be seen before anything is folded.
MIN_BYTES = 1024
OVERHEAD = 512  # bytes: more than what the nodes and names of a form take
WORTH = 0.75  # a form has to be this much smaller, or loading takes longer for next to nothing
EXPAND_OPSET = 8  # the first with Expand
BFLOAT16_OPSET = 13  # the first in which Cast knows bfloat16
# What each type may shrink to, smallest first; among equals what is most common in models.
INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "uint32")
SMALLER = {
    "float32": ("uint8", "int8", "float16", "int16", "uint16"),
    "float64": ("uint8", "int8", "float16", "int16", "uint16", "float32", "int32"),
    "float16": ("uint8", "int8"),
    **dict.fromkeys(("int32", "uint32"), INTEGERS[:4]),
    **dict.fromkeys(("int64", "uint64"), INTEGERS),
    **dict.fromkeys(("int16", "uint16"), INTEGERS[:2]),
}
MOST_ENTRIES = 1 << 16  # of a table: an index takes two bytes at most
LONGEST_STEP = 1 << 12  # neighbours joined at once; a dimension with a larger prime factor ends the search
DENSE = 1 << 20  # keys below this are marked in an array; larger ones are sorted

SmallerForm: TypeAlias = "Narrow | Repeat | LookupTable"


def compact(model: Model, _: NoOptions) -> Applied:
    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        version = opset_in(encoder.site.scope, model.proto)
        form = smaller_form(values, opset=version)
        if form is None:
            return None
        _rebuild(encoder, form, values, encoder.output, version)
        return encoder.nodes

    def wanted(site: Site) -> bool:
        tensor = site.tensor
        # Numbers that are stored one by one (int64_data) are compact already, if they are small.
        plain = tensor.HasField("raw_data") or model.span(tensor) is not None
        return plain and tensor.data_type in NUMPY_TYPES and stored_size(tensor) >= MIN_BYTES

    known = outline(model.proto)
    left_alone = fixed_names(known) | quantized_inputs(known)
    encoded, _kept = encode_tensors(model, left_alone, wanted, encode)
    return Applied(len(encoded))


def smaller_form(values: Array, *, opset: int) -> SmallerForm | None:
    """The first form that is worth it. What it stores is looked at again, so they add up: a mask of
    float32 becomes uint8 first, and then one byte for every eight of them."""
    if opset < MIN_OPSET or values.nbytes < MIN_BYTES:
        return None
    for form in _forms(values, opset):
        if form is not None and form.nbytes + OVERHEAD <= values.nbytes * WORTH:
            return form
    return None


def _forms(values: Array, opset: int) -> Iterator[SmallerForm | None]:
    yield repeat(values, opset)
    yield narrow(values, opset)
    yield table(values)


def _rebuild(encoder: Encoder, form: SmallerForm, values: Array, output: str, opset: int) -> str:
    """Add the nodes that rebuild a tensor, with the parts they read; the name of what they give."""

    def part(suffix: str, stored: Array, data_type: int = 0) -> str:
        """The name of a part: stored, or rebuilt from something smaller still."""
        smaller = None if data_type else smaller_form(stored, opset=opset)
        if smaller is None:
            return encoder.store(suffix, stored, data_type)
        return _rebuild(encoder, smaller, stored, "", opset)

    if isinstance(form, Narrow):
        return encoder.cast(part("narrow", form.values, form.data_type), _type_of(values), output=output)
    last = "" if form.reshapes else output
    if isinstance(form, Repeat):
        block = part("block", form.block)
        flat = encoder.node("Expand", [block, encoder.sizes(*form.expanded)], output=last)
    else:
        indices = encoder.cast(part("codes", form.codes), TensorProto.INT32)
        flat = encoder.node("Gather", [part("table", form.entries), indices], output=last)
    if not form.reshapes:
        return flat
    return encoder.node("Reshape", [flat, encoder.sizes(*values.shape)], output=output)


def _type_of(values: Array) -> int:
    return next(number for number, name in NUMPY_TYPES.items() if name == values.dtype.name)


@dataclass(frozen=True)
class Narrow:
    """`values` as they are stored; bfloat16 is stored as its bits."""

    values: Array
    data_type: int = 0  # where numpy's type does not say it

    @property
    def nbytes(self) -> int:
        return self.values.nbytes


def narrow(values: Array, opset: int) -> Narrow | None:
    """The smallest type that holds every value: -0.0 only as a float, NaN not at all.

    What becomes of the bits of a NaN differs between processors.
    """
    if values.dtype.kind == "f" and np.isnan(values).any():
        return None
    for name in SMALLER.get(values.dtype.name, ()):
        stored = _converted(values, np.dtype(name))
        if stored is not None:
            return Narrow(stored)
    return _bfloat16(values) if opset >= BFLOAT16_OPSET else None


def _converted(values: Array, dtype: np.dtype[np.generic]) -> Array | None:
    """The values in another type, or None as soon as one of them is not the same there."""
    out = np.empty(values.size, dtype)
    flat = values.reshape(-1)
    bits = flat.view(f"u{flat.itemsize}")
    # What does not fit becomes something else, which the comparison sees.
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, BLOCK):
            part = slice(start, start + BLOCK)
            out[part] = flat[part].astype(dtype)
            if not np.array_equal(out[part].astype(flat.dtype).view(bits.dtype), bits[part]):
                return None
    stored: Array = out.reshape(values.shape)
    return stored


def _bfloat16(values: Array) -> Narrow | None:
    """bfloat16 is the upper half of a float32."""
    if values.dtype != np.float32:
        return None
    bits = values.reshape(-1).view("u4")
    for start in range(0, bits.size, BLOCK):
        if (bits[start : start + BLOCK] & 0xFFFF).any():
            return None
    return Narrow((bits >> 16).astype(np.uint16).reshape(values.shape), TensorProto.BFLOAT16)


@dataclass(frozen=True)
class Repeat:
    """One copy of what repeats, the shape it expands to, and whether that is not yet the tensor's own."""

    block: Array
    expanded: tuple[int, ...]
    reshapes: bool

    @property
    def nbytes(self) -> int:
        return self.block.nbytes


def repeat(values: Array, opset: int) -> Repeat | None:
    """A dimension that is the same all along shrinks to 1; one with a period is split into two."""
    if opset < EXPAND_OPSET:
        return None
    bits = values.view(f"u{values.itemsize}")
    periods = [_period(bits, axis) for axis in range(values.ndim)]
    if list(values.shape) == periods:
        return None
    axes = [_split_axis(size, period) for size, period in zip(values.shape, periods, strict=True)]
    split = tuple(size for sizes, _ in axes for size in sizes)
    kept = tuple(part for _, parts in axes for part in parts)
    block = np.ascontiguousarray(values.reshape(split)[kept])
    return Repeat(block, split, split != values.shape)


def _split_axis(size: int, period: int) -> tuple[list[int], list[slice]]:
    """A dimension as copies of its period, and what of it is kept."""
    if period == size:
        return [size], [slice(None)]
    if period == 1:
        return [size], [slice(0, 1)]
    return [size // period, period], [slice(0, 1), slice(None)]


def _period(bits: Array, axis: int) -> int:
    """The shortest stretch of an axis that gives the whole when it is repeated."""
    period: int = bits.shape[axis]
    for factor in prime_factors(period):
        before, after = math.prod(bits.shape[:axis]), math.prod(bits.shape[axis + 1 :])
        # What is beyond the period so far is a copy of it.
        within = bits.reshape(before, bits.shape[axis], after)[:, :period]
        parts = within.reshape(before, factor, period // factor, after)
        if _all_equal(parts):
            period //= factor
    return period


def _all_equal(parts: Array) -> bool:
    """Whether all parts along the second axis are the same; a few elements mostly tell that they are not."""
    first = parts[:, :1]
    if not (parts[:1, :BLOCK, :1, :1] == first[:1, :, :1, :1]).all():
        return False
    step = max(1, BLOCK // first.size)
    starts = range(1, parts.shape[1], step)
    return all((parts[:, start : start + step] == first).all() for start in starts)


def prime_factors(number: int) -> Iterator[int]:
    """Smallest first, as often as they divide it."""
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
    if number > 1:
        yield number


@dataclass(frozen=True)
class LookupTable:
    """`entries[codes]` is the tensor, apart from its shape."""

    entries: Array
    codes: Array
    reshapes: bool

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes + self.codes.nbytes


@dataclass(frozen=True)
class _Level:
    """The tensor as blocks of `length` values: the number of each block among the distinct ones."""

    length: int
    distinct: int
    codes: Array

    def nbytes(self, itemsize: int) -> int:
        return self.codes.size * (1 if self.distinct <= 256 else 2) + self.distinct * self.length * itemsize


def table(values: Array) -> LookupTable | None:
    """Few distinct values, or blocks of values, as a table and indices: `Gather` gives them back.

    Blocks grow along the last axes, so what is found includes packed bits (a byte for 8 values of a mask)
    as well as rows that come again in any order. The block length is the one that takes the least bytes.
    """
    best = min(_levels(values), key=lambda level: level.nbytes(values.itemsize), default=None)
    if best is None:
        return None
    codes = best.codes.astype(np.uint8 if best.distinct <= 256 else np.uint16)
    _, first = np.unique(codes, return_index=True)
    entries = values.reshape(-1, best.length)[first]
    for axis in range(values.ndim + 1):
        if best.length == math.prod(values.shape[axis:]):
            whole = values.shape[axis:]
            return LookupTable(
                entries.reshape(-1, *whole), codes.reshape(values.shape[:axis]), reshapes=False
            )
    return LookupTable(entries, codes, reshapes=True)


def _levels(values: Array) -> Iterator[_Level]:
    """Blocks of one value, then longer ones, as long as some of them come again."""
    bits = values.reshape(-1).view(f"u{values.itemsize}")
    level = _ranked(bits, 1 << 8 * values.itemsize, length=1)
    if level is None:
        return
    yield level
    for size in reversed(values.shape):
        for factor in prime_factors(size):
            level = _longer(level, factor)
            if level is None:
                return
            yield level


def _longer(level: _Level, factor: int) -> _Level | None:
    """Blocks of `factor` neighbours. They are joined one by one: two codes always fit one key."""
    if factor > LONGEST_STEP:
        return None
    columns = level.codes.reshape(-1, factor)
    joined: _Level | None = _Level(level.length * factor, level.distinct, columns[:, 0])
    for number in range(1, factor):
        if joined is None:
            return None
        keys = joined.codes.astype(np.uint64) * np.uint64(level.distinct) + columns[:, number]
        joined = _ranked(keys, joined.distinct * level.distinct, length=level.length * factor)
    return joined


def _ranked(keys: Array, space: int, *, length: int) -> _Level | None:
    """Every key by its number among the sorted distinct keys; None where these are too many to gain."""
    most = min(MOST_ENTRIES, max(keys.size // 2, 1))
    if space <= DENSE:
        seen = np.zeros(space, bool)
        seen[keys] = True
        distinct = int(np.count_nonzero(seen))
        ranks = (np.cumsum(seen) - 1).astype(np.uint16)
        return _Level(length, distinct, ranks[keys]) if distinct <= most else None
    some = keys[:: max(1, keys.size // (2 * MOST_ENTRIES))]
    if _distinct(some).size > most:
        return None
    found = _distinct(keys)
    if found.size > most:
        return None
    codes = np.empty(keys.size, np.uint16)
    for start in range(0, keys.size, BLOCK):
        codes[start : start + BLOCK] = np.searchsorted(found, keys[start : start + BLOCK])
    return _Level(length, found.size, codes)


def _distinct(keys: Array) -> Array:
    """Like np.unique, which takes ten times as long for numbers that are mostly different."""
    ordered = np.sort(keys)
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    found: Array = ordered[np.concatenate(([0], changes))]
    return found
