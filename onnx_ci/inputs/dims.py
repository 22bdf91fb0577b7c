"""Sizes for dimensions that the model leaves open: by name, by place, and by what the weights ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_ci.inputs import names
from onnx_ci.inputs.graph import Shape
from onnx_ci.verify.dtypes import is_float

Dim = int | str | None  # a size, a symbol, or nothing known


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input that has to be fed; `dims` is None where not even the rank is known."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[Dim, ...] | None
    wraps: tuple[str, ...] = ()  # what the tensor is in, outermost first: optional, sequence, map
    keys: np.dtype[Any] | None = None  # of a map


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One set of choices for the open sizes. `step` picks from the lists below."""

    step: int = 0
    batch: int = 1
    stretch: int = 1  # sequences of later samples are longer, to show that the length is free
    past: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)  # the user's `inputs.dims`
    required: Mapping[tuple[str, int], int] = field(default_factory=dict)  # what the weights ask for


# Tried in turn. 16000 samples are a second of speech; 48x320 is a line of text; other pictures divide by 32.
SIZES = {
    "sequence": (16, 8, 64, 128, 1, 512),
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
STEPS = max(len(sizes) for sizes in SIZES.values())
_UNKNOWN_RANK: Sequence[tuple[Dim, ...]] = [
    (None, None),
    (None,),
    (None, 3, None, None),
    (None, None, None),
    (),
]
_TERM = re.compile(r"\s*([+*-])\s*")
_BY_WORD = (
    ("past", names.PAST),
    ("batch", names.BATCH),
    ("samples", names.SAMPLES),
    ("sequence", names.SEQUENCE),
    ("frames", names.FRAMES),
    ("height", names.HEIGHT),
    ("width", names.WIDTH),
    ("channels", names.CHANNELS),
    ("groups", names.GROUPS),
    ("count", names.COUNTS),
)


def shapes_for(inputs: Sequence[Input], plan: Plan) -> dict[str, Shape]:
    """A shape for every input; a symbol stands for the same size wherever it appears."""
    known: dict[str, int] = dict(plan.fixed)
    for one, axis, dim in _open_axes(inputs, plan):
        if isinstance(dim, str) and (one.name, axis) in plan.required:
            known.setdefault(dim, plan.required[one.name, axis])
    for one, axis, dim in _open_axes(inputs, plan):
        if isinstance(dim, str) and not _TERM.search(dim):
            known.setdefault(dim, _size(one, axis, plan))
    return {one.name: _shape(one, plan, known) for one in inputs}


def ranked(one: Input, plan: Plan) -> tuple[Dim, ...]:
    if one.dims is not None:
        return one.dims
    return _UNKNOWN_RANK[min(plan.step, len(_UNKNOWN_RANK) - 1)]


def _open_axes(inputs: Sequence[Input], plan: Plan) -> Iterator[tuple[Input, int, Dim]]:
    for one in inputs:
        for axis, dim in enumerate(ranked(one, plan)):
            if not isinstance(dim, int):
                yield one, axis, dim


def _shape(one: Input, plan: Plan, known: Mapping[str, int]) -> Shape:
    sizes = []
    for axis, dim in enumerate(ranked(one, plan)):
        if isinstance(dim, int):
            sizes.append(dim)
        elif isinstance(dim, str) and dim in known:
            sizes.append(known[dim])
        else:
            total = _evaluate(dim, known) if isinstance(dim, str) else None
            sizes.append(_size(one, axis, plan) if total is None else total)
    return tuple(sizes)


def _evaluate(expression: str, known: Mapping[str, int]) -> int | None:
    """`past_sequence_length + 1` and the like: symbols and numbers with +, - and *, left to right."""
    first, *rest = _TERM.split(expression)
    total = _operand(first, known)
    for sign, operand in zip(rest[::2], rest[1::2], strict=True):
        value = _operand(operand, known)
        if value is None or total is None:
            return None
        total = {"+": total + value, "-": total - value, "*": total * value}[sign]
    return None if total is None or total < 0 else total


def _operand(text: str, known: Mapping[str, int]) -> int | None:
    text = text.strip(" ()")
    return int(text) if text.isdecimal() and len(text) < 19 else known.get(text)


def _size(one: Input, axis: int, plan: Plan) -> int:
    required = plan.required.get((one.name, axis))
    if required is not None:
        return required
    dims = ranked(one, plan)
    kind = kind_of(one, dims, axis)
    if kind == "batch":
        return plan.batch
    if kind == "past":
        return plan.past
    listed = SIZES["sequence" if kind == "total" else kind]
    size = listed[min(plan.step, len(listed) - 1)]
    return (
        size * plan.stretch + (plan.past if kind == "total" else 0) if kind in ("sequence", "total") else size
    )


def kind_of(one: Input, dims: tuple[Dim, ...], axis: int) -> str:
    """What a dimension most likely is."""
    dim, rank = dims[axis], len(dims)
    said = names.words(dim) if isinstance(dim, str) else frozenset()
    if "total" in said:
        return "total"
    kind = next((kind for kind, known in _BY_WORD if said & known), "")
    if kind == "batch" and axis > 0 and len(str(dim)) == 1:
        kind = ""  # the N of N boxes
    signal = rank <= 2 or (rank == 3 and axis == 2 and dims[1] in (1, 2))
    if kind in ("sequence", "frames") and is_float(one.dtype) and signal:
        return "samples"  # floats in a row without a feature axis are a signal
    return kind or _by_place(one, dims, axis)


def _by_place(one: Input, dims: tuple[Dim, ...], axis: int) -> str:
    rank, about = len(dims), names.words(one.name)
    if rank == 1:
        if is_float(one.dtype):
            return "samples" if about & names.SAMPLES else "batch"
        return "sequence" if dims[0] is not None else "batch"
    if axis == 0 or (rank == 3 and axis == 1 and about & names.STATE):
        return "batch"
    if about & names.PAST:
        return "past"
    if rank == 2:
        return "samples" if is_float(one.dtype) else "sequence"
    if rank == 3:
        if axis == 2 and dims[1] in (1, 2) and is_float(one.dtype):
            return "samples"  # one or two channels of sound
        return "sequence" if axis == 1 else "frames" if isinstance(dims[1], int) else "feature"
    if rank == 4:
        last = dims[-1] in (1, 3, 4)
        return (
            ("", "height", "width", "channels")[axis] if last else ("", "channels", "height", "width")[axis]
        )
    return "channels" if axis == 1 else "volume"
