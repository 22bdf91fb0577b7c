"""Which outputs hold an answer for each member of a batch: a tolerance holds for every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ValueInfoProto

from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.metrics import FEW

SMALL = 0.01  # of the largest member
MANY = 1000  # members that are looked at one by one; what is more than that is no batch


def batched(
    proto: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Array]]
) -> frozenset[str]:
    """Outputs as long as some input in every sample, where that is no accident: the length differs between
    samples, or both carry the same symbol."""
    fed = {name: _lengths(feeds, name) for name in (feeds[0] if feeds else ())}
    found = set()
    for output in proto.graph.output:
        lengths = _lengths(outputs, output.name)
        if not lengths or max(lengths) > MANY:
            continue
        alike = [name for name, given in fed.items() if given == lengths]
        symbols = {_symbol(value) for value in proto.graph.input if value.name in alike} - {""}
        if alike and (len(set(lengths)) > 1 or _symbol(output) in symbols):
            found.add(output.name)
    return frozenset(found)


def members(before: Array, after: Array) -> Iterator[tuple[Array, Array]]:
    """One pair a member of a batch of floats, if there are several. Where a member is few numbers, or small
    beside the others, a relative measure of it alone is one of rounding: those count in the whole only."""
    if before.shape != after.shape or before.ndim < 2 or len(before) < 2 or before[0].size < FEW:
        return
    sizes = [float(np.abs(member[np.isfinite(member)]).max(initial=0.0)) for member in before]
    for one, other, size in zip(before, after, sizes, strict=True):
        if size > SMALL * max(sizes):
            yield one, other


def _lengths(samples: Sequence[Mapping[str, Any]], name: str) -> list[int]:
    """The first size in each sample; nothing where it is not an array with one in all of them."""
    arrays = [sample.get(name) for sample in samples]
    kept = [len(array) for array in arrays if isinstance(array, np.ndarray) and array.ndim > 0]
    return kept if len(kept) == len(arrays) else []


def _symbol(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return dims[0].dim_param if dims else ""
