"""Inputs derived from the graph alone: several guesses, the best first, to be tried until one runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, ValueInfoProto

from onnx_ci.errors import ModelError
from onnx_ci.inputs.dims import STEPS, Dim, Input, Plan, kind_of, ranked, shapes_for
from onnx_ci.inputs.goals import Goal
from onnx_ci.inputs.graph import Shape, Wiring, element_count
from onnx_ci.inputs.names import ANONYMOUS
from onnx_ci.inputs.roles import Role, roles_of
from onnx_ci.inputs.shapes import KnownShapes
from onnx_ci.inputs.values import cast, fill
from onnx_ci.policy.schema import InputSpec
from onnx_ci.sizes import format_size
from onnx_ci.verify import varied
from onnx_ci.verify.contract import show_type
from onnx_ci.verify.drawing import Sample
from onnx_ci.verify.dtypes import is_float, is_text, numpy_dtype
from onnx_ci.verify.equal_dims import with_equal_dims
from onnx_ci.verify.exchange import Value
from onnx_ci.verify.required_dims import required_dims, required_of
from onnx_ci.verify.wrapping import unwrapped, wrapped

LARGEST_SAMPLE = 2**30  # bytes of all inputs together
_MOST_AXES = 32  # numpy 1 has no more
_GIVE_SAMPLES = "give its inputs yourself: inputs: {samples: [...]}"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Choices for all samples of one attempt. `varied` ones differ in batch and length; some models
    break on that although their shapes say otherwise, so a plain attempt follows."""

    step: int
    past: int
    flag: bool | None = None  # None: both ways, in turn
    varied: bool = True
    wide: bool = True  # floats of which nothing is known may be far from zero


FIRST = Attempt(step=0, past=0)


@dataclass(frozen=True, kw_only=True)
class Deriver:
    """What is known of a model's inputs, and what the user said about them."""

    inputs: Sequence[Input]
    wiring: Wiring
    roles: dict[str, Role]
    required: dict[tuple[str, int], int]
    spec: InputSpec

    def plan(self, attempt: Attempt, index: int) -> Plan:
        odd = index % 2 if attempt.varied else 0
        return Plan(
            step=attempt.step,
            batch=1 + odd,
            stretch=1 + odd,
            past=attempt.past,
            fixed=self.spec.dims,
            required=self._required(attempt.step),
        )

    def _required(self, step: int) -> dict[tuple[str, int], int]:
        """What weights ask for; of an input whose rank is open, by the rank that this step gives it."""
        found = dict(self.required)
        for one in self.inputs:
            if one.dims is None:
                rank = len(ranked(one, Plan(step=step)))
                found |= required_of(self.wiring, one.name, rank, len(self.inputs))
        return found

    def shapes(self, attempt: Attempt) -> list[dict[str, Shape]]:
        return [shapes_for(self.inputs, self.plan(attempt, i)) for i in range(max(1, self.spec.count))]

    def feeds(self, attempt: Attempt) -> list[dict[str, Value]]:
        samples = enumerate(self.shapes(attempt))
        return [self._sample(attempt, index, shapes, self.plan(attempt, index)) for index, shapes in samples]

    def towards(self, goal: Goal, attempt: Attempt, index: int) -> dict[str, Value] | None:
        """A sample in which some sizes and values are given; None where they can't be. In samples after the
        first, given floats differ around their value, and have it on average."""
        plan = self.plan(attempt, index)
        for (name, axis), size in goal.sizes.items():
            dim = next(ranked(one, plan)[axis] for one in self.inputs if one.name == name)
            if isinstance(dim, int) and dim != size:
                return None
            fixed = {**plan.fixed, dim: size} if isinstance(dim, str) else plan.fixed
            plan = replace(plan, fixed=fixed, required={**plan.required, (name, axis): size})
        shapes = shapes_for(self.inputs, plan)
        if _too_large(self.inputs, shapes) is not None or any(n in self.spec.ranges for n in goal.values):
            return None
        sample = self._sample(attempt, index, shapes, plan)
        for one in self.inputs:
            if one.name in goal.values and not one.wraps and not is_text(one.dtype):
                around = _around_zero(sample[one.name]) if index and is_float(one.dtype) else 0.0
                alike = np.full(shapes[one.name], goal.values[one.name])
                sample[one.name] = cast(alike + around, one.dtype)
            elif one.name in goal.absent and "optional" in one.wraps:
                sample[one.name] = None
        return sample

    def reasons(self, attempt: Attempt) -> dict[str, str]:
        """Why the inputs get the values they get."""
        plan = self.plan(attempt, 0)
        sample = self._shared(attempt, 0, self.shapes(attempt)[0], plan)
        return {i.name: fill(i, ranked(i, plan), self.roles[i.name], sample).why for i in self.inputs}

    def _sample(self, attempt: Attempt, index: int, shapes: dict[str, Shape], plan: Plan) -> dict[str, Value]:
        sample = self._shared(attempt, index, shapes, plan)
        return {i.name: wrapped(i, ranked(i, plan), self.roles[i.name], sample) for i in self.inputs}

    def _shared(self, attempt: Attempt, index: int, shapes: dict[str, Shape], plan: Plan) -> Sample:
        return Sample(
            index=index,
            seed=self.spec.seed,
            shapes=shapes,
            flag=index % 2 == 0 if attempt.flag is None else attempt.flag,
            length=_length(self.inputs, plan, shapes),
            shortest=_shortest(self.inputs, plan, shapes),
            past=attempt.past,
            small=attempt.step > 1,
            wide=attempt.wide,
            ranges=self.spec.ranges,
            context=KnownShapes(self.wiring, self.inputs, shapes),
        )


def deriver_of(proto: onnx.ModelProto, spec: InputSpec) -> Deriver:
    """Only shapes and types of the weights are looked at."""
    wiring = Wiring(proto)
    inputs = with_equal_dims(wiring, [_input(value) for value in fed_inputs(proto)], spec.dims)
    roles = roles_of(wiring, [one.name for one in inputs])
    required = required_dims(wiring, inputs)
    return Deriver(inputs=inputs, wiring=wiring, roles=roles, required=required, spec=spec)


def derive_feeds(
    proto: onnx.ModelProto, spec: InputSpec, *, wide: bool = True
) -> Iterator[list[dict[str, Value]]]:
    """Attempts of `spec.count` samples each; none with numbers far from zero unless they may be `wide`."""
    deriver = deriver_of(proto, spec)
    inputs, roles = deriver.inputs, deriver.roles
    seen: set[str] = set()
    made, refused = False, None
    for attempt in (one for one in attempts() if wide or not one.wide):
        # Attempts that differ only in what this model does not have are not repeated.
        flags = any(one.dtype == bool for one in inputs)
        small = attempt.step > 1 and any(_is_guess(one, roles[one.name]) for one in inputs)
        shapes = deriver.shapes(attempt)
        floats = attempt.wide and spec.count > varied.WIDE and any(is_float(one.dtype) for one in inputs)
        key = str((shapes, flags and (attempt.flag, attempt.varied), small, floats))
        if key in seen:
            continue
        refusal = next(filter(None, (_too_large(inputs, sample) for sample in shapes)), None)
        seen.add(key)
        if refusal is None:
            made = True
            yield deriver.feeds(attempt)
        else:
            refused = refused or refusal
    if refused is not None and not made:
        raise refused


def fed_inputs(proto: onnx.ModelProto) -> list[ValueInfoProto]:
    """The graph's inputs without those that have a default value among the initializers."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    stored |= {sparse.values.name for sparse in proto.graph.sparse_initializer}
    return [value for value in proto.graph.input if value.name not in stored]


def dims_of(tensor: TypeProto.Tensor) -> tuple[Dim, ...] | None:
    """Sizes, symbols, and None where nothing is said; -1 is what some exporters write for that."""
    if not tensor.HasField("shape"):
        return None
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        else:
            dims.append(None if dim.dim_param in ANONYMOUS else dim.dim_param)
    return tuple(dims)


def attempts() -> Iterator[Attempt]:
    for step in range(STEPS):
        for past in (0, 1):
            first = Attempt(step=step, past=past)
            yield first
            yield replace(first, varied=False)
            # A decoder with two branches wants the one without a cache as long as the cache is empty.
            yield replace(first, varied=False, flag=past > 0)
            yield replace(first, varied=False, flag=past == 0)
            yield replace(first, varied=False, wide=False)


def _input(value: ValueInfoProto) -> Input:
    found = unwrapped(value.type)
    if found is None:
        raise ModelError(
            f"input {value.name!r} is {show_type(value.type)}, for which no values can be made up",
            hint=_GIVE_SAMPLES,
            code="OCI005",
        )
    tensor, wraps, keys = found
    dtype = numpy_dtype(tensor.elem_type)
    if dtype is None:
        raise ModelError(
            f"input {value.name!r} has element type {tensor.elem_type}, unknown to numpy",
            hint="update the packages numpy, onnx and ml_dtypes",
            code="OCI005",
        )
    dims = dims_of(tensor)
    if dims is not None and len(dims) > _MOST_AXES:
        raise ModelError(
            f"input {value.name!r} has {len(dims)} axes, more than the {_MOST_AXES} that can be made up",
            hint=_GIVE_SAMPLES,
            code="OCI005",
        )
    return Input(name=value.name, dtype=dtype, dims=dims, wraps=wraps, keys=keys)


def _too_large(inputs: Sequence[Input], shapes: dict[str, Shape]) -> ModelError | None:
    # Values are drawn as float64 and cast; Python's strings take more.
    sizes = {i.name: element_count(shapes[i.name]) * (64 if is_text(i.dtype) else 8) for i in inputs}
    total = sum(sizes.values())
    if total <= LARGEST_SAMPLE:
        return None
    name = max(sizes, key=lambda name: sizes[name])
    return ModelError(
        f"input {name!r} of shape {'x'.join(map(str, shapes[name]))} is too large to make up"
        f" (one sample may take {format_size(LARGEST_SAMPLE)}, this one takes {format_size(total)})",
        hint="set smaller sizes: inputs: {dims: {NAME: SIZE}}, or " + _GIVE_SAMPLES,
        code="OCI005",
    )


def _is_guess(one: Input, role: Role) -> bool:
    return one.dtype.kind in "iu" and role == Role()


def _around_zero(drawn: Value) -> Any:
    numbers = np.asarray(drawn, np.float64)
    return numbers - numbers.mean() if numbers.size else numbers


def _length(inputs: Sequence[Input], plan: Plan, shapes: dict[str, Shape]) -> int:
    """The sequence length: the first size that is not a batch, of the first input that has one."""
    for one in inputs:
        dims = ranked(one, plan)
        for axis in range(len(dims)):
            if axis > 0 and not isinstance(dims[axis], int) and kind_of(one, dims, axis) != "past":
                return shapes[one.name][axis]
    return next((shape[1] for shape in shapes.values() if len(shape) > 1), 1)


def _shortest(inputs: Sequence[Input], plan: Plan, shapes: dict[str, Shape]) -> int:
    sizes = [
        shapes[one.name][axis]
        for one in inputs
        for axis, dim in enumerate(ranked(one, plan))
        if not isinstance(dim, int)
    ]
    return min(sizes, default=1)
