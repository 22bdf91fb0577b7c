"""Open sizes that operators need to be equal although the model gives them different names, or none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from onnx_ci.inputs.dims import Dim, Input
from onnx_ci.inputs.graph import Op, Wiring
from onnx_ci.verify.required_dims import Axes, tracked

Place = tuple[str, int]  # an axis of an input
_ALIKE = {"Add", "Sub", "Mul", "Div", "Pow", "Where", "Max", "Min", "Sum", "Equal", "Greater", "Less"}


def with_equal_dims(wiring: Wiring, inputs: Sequence[Input], named: Collection[str]) -> list[Input]:
    """The inputs with one name for sizes that have to be equal: one that the user gave a size for, if any."""
    known = {one.name: one.dims for one in inputs if one.dims is not None and not one.wraps}
    groups = _groups(list(_pairs(wiring, known)))
    fresh: dict[Place, Dim] = {}
    for number, group in enumerate(groups):
        chosen = _chosen([known[name][axis] for name, axis in group], named) or f"={number}"
        fresh |= {place: chosen for place in group if not isinstance(known[place[0]][place[1]], int)}
    return [_renamed(one, fresh) for one in inputs]


def _chosen(dims: Sequence[Dim], named: Collection[str]) -> Dim:
    """The size, if one of them has it; else a name, the user's first."""
    sizes: list[Dim] = [dim for dim in dims if isinstance(dim, int) and dim != 1]
    symbols: list[Dim] = [dim for dim in dims if isinstance(dim, str)]
    said = [dim for dim in symbols if dim in named]
    return next(iter([*said, *sizes, *symbols]), None)


def _renamed(one: Input, fresh: Mapping[Place, Dim]) -> Input:
    if one.dims is None or one.wraps:
        return one
    return replace(one, dims=tuple(fresh.get((one.name, axis), dim) for axis, dim in enumerate(one.dims)))


def _groups(pairs: Sequence[tuple[Place, Place]]) -> list[list[Place]]:
    """Places that are equal by way of others are equal."""
    group: dict[Place, list[Place]] = {}
    for one, other in pairs:
        mine, theirs = group.setdefault(one, [one]), group.setdefault(other, [other])
        if mine is not theirs:
            mine += theirs
            group |= dict.fromkeys(theirs, mine)
    return list({id(places): places for places in group.values()}.values())


def _pairs(wiring: Wiring, known: Mapping[str, tuple[Dim, ...]]) -> Iterator[tuple[Place, Place]]:
    where: dict[str, tuple[str, Axes]] = {}
    for name, dims in known.items():
        where |= {value: (name, axes) for value, axes in tracked(wiring, name, len(dims), len(known)).items()}
    ops = {id(op): op for value in where for op, _ in wiring.uses.get(value, [])}
    for op in ops.values():
        operands = [where.get(name) for name in op.inputs]
        for one, other in pairwise(operands):
            if one is None or other is None or one[0] == other[0]:
                continue
            for left, right in _equal_axes(op, one[1], other[1]):
                if left is not None and right is not None:
                    yield (one[0], left), (other[0], right)


def _equal_axes(op: Op, one: Axes, other: Axes) -> Iterator[tuple[int | None, int | None]]:
    if op.type in _ALIKE:
        yield from zip(one[::-1], other[::-1], strict=False)
    elif op.type == "MatMul" and one and other:
        yield one[-1], other[-2] if len(other) > 1 else other[-1]
        yield from zip(one[:-2][::-1], other[:-2][::-1], strict=False)
    elif op.type == "Concat" and len(one) == len(other):
        axis = int(op.attribute("axis", 0)) % max(1, len(one))
        yield from (pair for place, pair in enumerate(zip(one, other, strict=True)) if place != axis)
