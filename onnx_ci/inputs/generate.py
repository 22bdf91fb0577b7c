"""Inputs derived from the graph alone: several attempts, the best first, to be tried until one runs.

`Deriver` joins the parts: sizes by dims.py, what inputs are used for by roles.py, values by values.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import onnx

from onnx_ci.errors import ModelError
from onnx_ci.inputs import dims, names
from onnx_ci.inputs.dims import STEPS, Axis, SampleShapes, SizeChoice, constant_shape, shapes_for
from onnx_ci.inputs.goals import Goal, Goals
from onnx_ci.inputs.graph import (
    GIVE_YOURSELF,
    Input,
    Op,
    Shape,
    UseDef,
    element_count,
    fed_inputs,
    read_input,
)
from onnx_ci.inputs.normalization import ReadTensor, picture_ranges
from onnx_ci.inputs.operators import KEEPS_COUNT, operator
from onnx_ci.inputs.roles import Role, roles_of
from onnx_ci.inputs.values import Sample, cast, draw, make_value
from onnx_ci.policy.schema import InputSpec
from onnx_ci.sandbox.exchange import Value, is_float, is_integer, is_text
from onnx_ci.sandbox.runner import Feeds
from onnx_ci.util.advice import set_dims
from onnx_ci.util.sizes import format_size

_LARGEST_SAMPLE = 2**30  # bytes of all inputs together
_LARGER = 4  # times the elements of the largest sample there is, at most
_LONGEST = 1024
_WORK = 10_000_000_000  # weights times length: about a second of computing
_SAME_NAME = 0.5  # how alike h and hn are, or state and new_state, at least
_COUNT_DEPTH = 7  # nodes between a Range and what it counts


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Choices for all samples of one attempt.

    `varied` ones differ in batch and length; some models break on that although their shapes say otherwise,
    so a plain attempt follows.
    """

    step: int
    past: int
    flag: bool | None = None  # None: both ways, in turn
    varied: bool = True
    wide: bool = True  # floats of which nothing is known may be far from zero
    small: bool = False  # numbers stay near zero, and counts low, where the range is only a guess
    sizes: Mapping[Axis, int] = field(default_factory=dict)  # instead of the usual ones


FIRST = Attempt(step=0, past=0)


@dataclass(frozen=True, kw_only=True)
class Deriver:
    """What is known of a model's inputs, and what the user said about them."""

    inputs: Sequence[Input]
    graph: UseDef
    roles: Mapping[str, Role]
    required: Mapping[Axis, int]
    spec: InputSpec
    own: Sequence[Feeds] = ()  # the user's samples, where others are to stand beside them

    def feeds(self, attempt: Attempt) -> list[dict[str, Value]]:
        """Make the samples of one attempt."""
        return [self._make(attempt, index, choice) for index, choice in enumerate(self._choices(attempt))]

    def shapes(self, attempt: Attempt) -> list[dict[str, Shape]]:
        """Return the shapes of the inputs in each sample of one attempt."""
        return [shapes_for(choice) for choice in self._choices(attempt)]

    def sizes(self, attempt: Attempt, index: int) -> dict[str, Shape]:
        """Return the shapes of the inputs in one sample."""
        return shapes_for(self._choice(attempt, index))

    def towards(self, goal: Goal, attempt: Attempt, index: int) -> dict[str, Value] | None:
        """Make a sample in which some sizes and values are given; None where they can't be.

        In samples after the first, given floats differ around their value, and have it on average.
        """
        choice = self._choice(attempt, index)
        for (name, axis), size in goal.sizes.items():
            dim = next(i.dims[axis] for i in choice.inputs if i.name == name)
            if isinstance(dim, int) and dim != size:
                return None
            fixed = {**choice.fixed, dim: size} if isinstance(dim, str) else choice.fixed
            choice = replace(choice, fixed=fixed, required={**choice.required, (name, axis): size})
        shapes = shapes_for(choice)
        if too_large(self.inputs, shapes) is not None or any(n in self.spec.ranges for n in goal.values):
            return None
        sample = self._make(attempt, index, choice)
        for model_input in self.inputs:
            name = model_input.name
            if name in goal.values and not model_input.wraps and not is_text(model_input.dtype):
                values: Any = np.full(shapes[name], goal.values[name])
                if index and is_float(model_input.dtype):
                    values = values + _around_zero(sample[name])
                sample[name] = cast(values, model_input.dtype)
            elif name in goal.absent and "optional" in model_input.wraps:
                sample[name] = None
        return sample

    def open_sizes(self, attempt: Attempt) -> dict[Axis, int]:
        """Return the sizes of one attempt that are only guessed, each at the first place that has it."""
        choice = self._choice(attempt, 0)
        shapes = shapes_for(choice)
        return {
            (name, axis): shapes[name][axis]
            for name, axis in dims.guessed(choice.inputs, self.required, self.spec.dims)
        }

    @property
    def usual_sizes(self) -> dict[str, int]:
        """Return a size for each dim that is open and has a name."""
        dims_by_input = {model_input.name: model_input.dims for model_input in self.inputs}
        sizes = {}
        for (name, axis), size in self.open_sizes(FIRST).items():
            dim = (*dims_by_input[name], *[None] * axis)[axis]
            if isinstance(dim, str):
                sizes[dim] = size
        return sizes

    def settled(self, attempt: Attempt) -> Deriver:
        """Return one that keeps to the sizes of an attempt that ran, where these are not the usual ones."""
        return replace(self, required={**self.required, **attempt.sizes})

    def reasons(self, attempt: Attempt) -> dict[str, str]:
        """Return why the inputs get the values they get."""
        choice = self._choice(attempt, 0)
        sample = self._sample(attempt, 0, choice)
        return {i.name: draw(i, self.roles[i.name], sample).why for i in choice.inputs}

    def _make(self, attempt: Attempt, index: int, choice: SizeChoice) -> dict[str, Value]:
        sample = self._sample(attempt, index, choice)
        return {i.name: make_value(i, self.roles[i.name], sample) for i in choice.inputs}

    def _choices(self, attempt: Attempt) -> list[SizeChoice]:
        return [self._choice(attempt, index) for index in range(max(1, self.spec.count))]

    def _choice(self, attempt: Attempt, index: int) -> SizeChoice:
        inputs, required = self.inputs, self.required
        if not all(model_input.ranked for model_input in inputs):
            inputs = dims.with_ranks(inputs, attempt.step)
            required = {**dims.required_sizes(self.graph, inputs), **required}
        return SizeChoice(
            inputs=inputs,
            step=attempt.step,
            past=attempt.past,
            scale=1 + index % 2 if attempt.varied else 1,
            fixed=self.spec.dims,
            required={**required, **attempt.sizes},
        )

    def _sample(self, attempt: Attempt, index: int, choice: SizeChoice) -> Sample:
        shapes = shapes_for(choice)
        return Sample(
            index=index,
            seed=self.spec.seed,
            shapes=shapes,
            flag=index % 2 == 0 if attempt.flag is None else attempt.flag,
            length=_sequence_length(choice.inputs, shapes),
            shortest=_shortest(choice.inputs, shapes),
            past=attempt.past,
            small=attempt.small,
            wide=attempt.wide,
            ranges=self.spec.ranges,
            inferred=SampleShapes(self.graph, self.inputs, shapes),
            weighted=self.required.keys(),
            masked=any(names.words(i.name) & names.MASK and is_integer(i.dtype) for i in self.inputs),
            own=self.own,
        )


def deriver_of(
    proto: onnx.ModelProto, spec: InputSpec, read: ReadTensor | None = None, graph: UseDef | None = None
) -> Deriver:
    """Read a model; of its weights only shapes and types are looked at, but for the first convolution's.
    `graph` is its own, where that was read already."""
    graph = graph or UseDef(proto)
    inputs = dims.with_equal_dims(graph, [read_input(value) for value in fed_inputs(proto)], spec.dims)
    required = dims.required_sizes(graph, inputs)
    symbols = Counter(dim for i in inputs for dim in i.dims if isinstance(dim, str))
    inputs = [_with_channels(model_input, required, symbols) for model_input in inputs]
    roles = roles_of(graph, [model_input.name for model_input in inputs])
    inputs = [replace(i, numbers_rows=roles[i.name].below is not None) for i in inputs]
    for model_input in inputs:
        if read is not None and is_float(model_input.dtype):
            roles[model_input.name].ranges = picture_ranges(graph, model_input.name, read)
    return Deriver(
        inputs=inputs,
        graph=graph,
        roles=roles,
        required=required,
        spec=spec,
    )


def _with_channels(model_input: Input, required: Mapping[Axis, int], symbols: Counter[str]) -> Input:
    """Return an input with the number of channels that weights ask for: one or two over time are sound,
    though the model calls them by a letter. One that other sizes share is left to them."""
    channels = required.get((model_input.name, 1))
    if len(model_input.dims) != 3 or channels not in (1, 2):
        return model_input
    first, called, last = model_input.dims
    shared = isinstance(called, str) and symbols[called] > 1
    return model_input if shared else replace(model_input, dims=(first, channels, last))


def too_large(inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> ModelError | None:
    """Return why a sample of these shapes is not made up, if it is not."""
    # Values are drawn as float64 and cast; Python's strings take more.
    sizes = {i.name: element_count(shapes[i.name]) * (64 if is_text(i.dtype) else 8) for i in inputs}
    total = sum(sizes.values())
    if total <= _LARGEST_SAMPLE:
        return None
    name = max(sizes, key=lambda name: sizes[name])
    largest = next(model_input for model_input in inputs if model_input.name == name)
    named = [
        (dim, size) for dim, size in zip(largest.dims, shapes[name], strict=False) if isinstance(dim, str)
    ]
    smaller = "set smaller sizes: " + set_dims(dict(named)) + ", or " if named else ""
    return ModelError(
        f"input {name!r} of shape {'x'.join(map(str, shapes[name]))} is too large to make up"
        f" (one sample may take {format_size(_LARGEST_SAMPLE)}, this one takes {format_size(total)})",
        hint=smaller + GIVE_YOURSELF,
        code="OCI005",
    )


def _around_zero(drawn: Value) -> Any:
    numbers = np.asarray(drawn, np.float64)
    return numbers - numbers.mean() if numbers.size else numbers


def _sequence_length(inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> int:
    """Return the first size that is not a batch, of the first input that has one."""
    for model_input in inputs:
        for axis, dim in enumerate(model_input.dims):
            if axis and not isinstance(dim, int) and names.dim_kind(model_input, axis) != "past":
                return shapes[model_input.name][axis]
    return next((shape[1] for shape in shapes.values() if len(shape) > 1), 1)


def _shortest(inputs: Sequence[Input], shapes: Mapping[str, Shape]) -> int:
    sizes = []
    for model_input in inputs:
        for dim, size in zip(model_input.dims, shapes[model_input.name], strict=True):
            if not isinstance(dim, int):
                sizes.append(size)
    return min(sizes, default=1)


def blank_and_noise(feeds: Sequence[Feeds], *, seed: int, keep: Collection[str] = ()) -> list[Feeds]:
    """Return the first sample twice, with floats that tell a model nothing in the range that they have in all
    of the samples: the same everywhere, and white noise. None where the sample has no such floats."""
    blank, noise = dict(feeds[0]), dict(feeds[0])
    rng = np.random.Generator(np.random.PCG64([seed, len(feeds)]))
    replaced = False
    for name, value in feeds[0].items():
        if name in keep or not isinstance(value, np.ndarray) or not is_float(value.dtype) or value.size < 2:
            continue
        arrays = [np.asarray(sample[name], np.float64) for sample in feeds]
        low = min(float(array.min()) for array in arrays if array.size)
        high = max(float(array.max()) for array in arrays if array.size)
        middle = 0.0 if low < 0 < high else (low + high) / 2
        blank[name] = cast(np.full(value.shape, middle), value.dtype)
        noise[name] = cast(np.asarray(rng.uniform(low, high, value.shape)), value.dtype)
        replaced = True
    return [blank, noise] if replaced else []


def state_outputs(sample: Feeds, outputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the output that each state becomes in the next call: a state is known by its name, what it
    becomes by its shape and type, and by a name that is much the same, or that an exporter made up."""
    free = dict(outputs)
    pairs = {}
    for name, value in sample.items():
        if not names.words(name) & names.CARRIED or not isinstance(value, np.ndarray):
            continue
        likeness = {other: _likeness(name, other) for other in free if _are_alike(value, free[other])}
        best = max(likeness, key=likeness.__getitem__, default="")
        if is_float(value.dtype) and value.size and likeness.get(best, 0.0) >= _SAME_NAME:
            pairs[name] = best
            del free[best]
    return pairs


def _likeness(name: str, other: str) -> float:
    """Return how much alike two names are; one that says nothing may be the same thing."""
    if all(word.isdigit() or word == "identity" for word in names.words(other)):
        return _SAME_NAME
    return SequenceMatcher(None, name, other).ratio()


def _are_alike(one: Any, other: Any) -> bool:
    return isinstance(other, np.ndarray) and (one.shape, one.dtype) == (other.shape, other.dtype)


# Samples of other sizes than those that ran first: a model may take another way for them.


def of_other_sizes(deriver: Deriver, known: Sequence[Feeds]) -> Iterator[Feeds]:
    """Yield the longest sample that the model has positions for, and one for each set of usual sizes.

    Whether they run is not known.
    """
    seen = {_array_shapes(sample) for sample in known}
    largest = max(map(_elements, seen), default=0)
    goal = longest(deriver)
    if goal is not None:
        sample = deriver.towards(goal, replace(FIRST, varied=False), 0)
        if sample is not None and _elements(_array_shapes(sample)) > largest:
            seen.add(_array_shapes(sample))
            yield sample
    for step in range(STEPS):
        attempt = Attempt(step=step, past=0, varied=False)
        if tuple(deriver.sizes(attempt, step).values()) in seen:
            continue  # before values are made up
        sample = deriver.towards(Goal(), attempt, step)
        if sample is None:
            continue
        shapes = _array_shapes(sample)
        if shapes not in seen and _elements(shapes) <= _LARGER * largest:
            seen.add(shapes)
            yield sample


def _array_shapes(sample: Feeds) -> tuple[Shape, ...]:
    return tuple(value.shape for value in sample.values() if isinstance(value, np.ndarray))


def _elements(shapes: Sequence[Shape]) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)


def longest(deriver: Deriver) -> Goal | None:
    """Return the sizes of a sample that reaches the end of every table of positions.

    None where no such table is known, or it is too long.
    """
    declared = {i.name: i.dims for i in deriver.inputs}
    bounds: dict[str, tuple[Axis, int]] = {}
    for (name, axis), size in _table_ends(deriver):
        dim = declared[name][axis] if axis < len(declared[name]) else None
        if isinstance(dim, int) or dim in deriver.spec.dims or names.words(name) & names.PAST:
            continue
        key = dim or f"{name}\n{axis}"  # a symbol stands for one size everywhere
        if key not in bounds or size < bounds[key][1]:
            bounds[key] = ((name, axis), size)
    weights = sum(element_count(tensor.dims) for tensor in deriver.graph.tensors.values())
    most = min(_LONGEST, _WORK // max(1, weights))
    sizes = {place: min(size, most) for place, size in bounds.values()}
    return Goal(sizes=sizes) if sizes and min(sizes.values()) > 0 else None


def _table_ends(deriver: Deriver) -> Iterator[tuple[Axis, int]]:
    """Yield the sizes of inputs at which the last row of a table is taken."""
    graph = deriver.graph
    goals = Goals(graph, {i.name: len(i.dims) for i in deriver.inputs})
    for op in {id(op): op for op in graph.producer.values()}.values():
        if op.type == "Slice":
            axis, end = _sliced_rows(graph, op)
        elif op.type == "Gather":
            axis, end = op.attribute("axis", 0), _counted_rows(graph, op)
        else:
            continue
        table = constant_shape(graph, op.input(0)) if end else None
        if table and -len(table) <= axis < len(table):
            for goal in goals.reach(end, float(table[axis])):
                yield from goal.sizes.items()
    for model_input in deriver.inputs:
        below = deriver.roles[model_input.name].below
        if below is not None and names.words(model_input.name) & names.POSITION and model_input.dims:
            yield (model_input.name, len(model_input.dims) - 1), below


def _sliced_rows(graph: UseDef, op: Op) -> tuple[int, str]:
    """Return the axis of a Slice along one axis, and the value that says where it ends."""
    axes = graph.integers(op.input(3)) if op.input(3) else [0]
    return (axes[0], op.input(2)) if axes and len(axes) == 1 else (0, "")


def _counted_rows(graph: UseDef, op: Op) -> str:
    """Return how many rows a Gather takes that counts them: 0, 1, 2 and so on."""
    for counted in graph.back(op.input(1), _COUNT_DEPTH + 1):
        if KEEPS_COUNT not in operator(counted).traits:
            return counted.input(1) if counted.type == "Range" else ""
    return ""
