"""Weights whose numbers are right and in the wrong place: shifted, permuted, swapped with another's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from onnx import ModelProto, TensorProto

from damages.base import (
    WEIGHTS,
    Array,
    Damage,
    Place,
    elements,
    on_weight,
    reads,
    store,
    values,
    weights,
)

Rng = np.random.Generator
MISALIGNED = 64  # bytes by which data is read too late


def permuted(array: Array, rng: Rng) -> Array:
    return array[rng.permutation(len(array))]


def rolled(array: Array, _: Rng) -> Array:
    return np.roll(array.reshape(-1), 1)


def transposed(array: Array, _: Rng) -> Array | None:
    return array.T if array.ndim == 2 and array.shape[0] == array.shape[1] else None


def transposed_otherwise(array: Array, _: Rng) -> Array | None:
    """Read as if the last two axes had been stored the other way round."""
    square = array.shape[-1] == array.shape[-2]
    return None if square else np.ascontiguousarray(array.swapaxes(-1, -2)).reshape(array.shape)


def shifted(array: Array, _: Rng) -> Array:
    moved = np.roll(np.ascontiguousarray(array).reshape(-1).view(np.uint8), -MISALIGNED)
    return moved.view(array.dtype).reshape(array.shape)


def shifted_by_a_byte(array: Array, _: Rng) -> Array:
    moved = np.roll(np.ascontiguousarray(array).reshape(-1).view(np.uint8), 1)
    return moved.view(array.dtype).reshape(array.shape)


def swapped_bytes(array: Array, _: Rng) -> Array:
    return np.asarray(array.byteswap())


def _alike(model: ModelProto) -> list[list[TensorProto]]:
    """Weights that could be taken for one another: of one type and shape, two or more."""
    groups: dict[tuple[int, ...], list[TensorProto]] = {}
    for tensor in weights(model, WEIGHTS):
        groups.setdefault((tensor.data_type, *tensor.dims), []).append(tensor)
    return [group for group in groups.values() if len(group) > 1]


def swapped(model: ModelProto, place: Place) -> bool:
    group = place.pick(_alike(model), lambda group: elements(group[0]))
    if group is None:
        return False
    first, second = (group[int(i)] for i in place.rng.choice(len(group), 2, replace=False))
    one, other = values(first), values(second)
    return store(first, other) and store(second, one)


def layer_repeated(model: ModelProto, place: Place) -> bool:
    """The weight of the layer before in place of its own."""
    group = place.pick(_alike(model), lambda group: elements(group[0]))
    if group is None:
        return False
    at = int(place.rng.integers(1, len(group)))
    return store(group[at], values(group[at - 1]))


def merged(model: ModelProto, place: Place) -> bool:
    """The two tensors that are nearest, and not equal, become one."""
    pairs = [
        (_gap(values(first), values(second)), number, at)
        for number, group in enumerate(_alike(model))
        for at, (first, second) in enumerate(pairwise(group))
        if first.data_type not in (TensorProto.INT8, TensorProto.UINT8)
    ]
    near = sorted(pair for pair in pairs if pair[0] > 0)[:3]
    chosen = place.pick(near)
    if chosen is None:
        return False
    group = _alike(model)[chosen[1]]
    return store(group[chosen[2] + 1], values(group[chosen[2]]))


def _gap(one: Array, other: Array) -> float:
    size = float(np.linalg.norm(one.astype(np.float64)))
    gap = float(np.linalg.norm(one.astype(np.float64) - other)) / size if size else 0.0
    return gap if np.isfinite(gap) else 0.0


def rows_shifted(model: ModelProto, place: Place) -> bool:
    """An embedding whose row n is row n+1's."""
    tables = [table for _, table in reads(model, ["Gather"], 0) if len(table.dims) == 2]
    table = place.pick([table for table in tables if elements(table) >= 64], elements)
    return table is not None and store(table, np.roll(values(table), 1, axis=0))


LAYOUT = (
    Damage(name="permuted channels", strike=on_weight(permuted, types=WEIGHTS)),
    Damage(name="rolled by one", strike=on_weight(rolled, types=WEIGHTS)),
    Damage(name="transposed, square", strike=on_weight(transposed, types=WEIGHTS, rank=2)),
    Damage(name="transposed, read in the old shape", strike=on_weight(transposed_otherwise, rank=2)),
    Damage(name="bytes shifted by 64", strike=on_weight(shifted, types=WEIGHTS)),
    Damage(name="bytes shifted by one", strike=on_weight(shifted_by_a_byte)),
    Damage(name="bytes in the other order", strike=on_weight(swapped_bytes)),
    Damage(name="two tensors swapped", strike=swapped),
    Damage(name="weights of the layer before", strike=layer_repeated),
    Damage(name="near-equal tensors merged", strike=merged),
    Damage(name="embedding rows shifted", strike=rows_shifted),
)
