"""What is behind an output: the values that its last function squashes into a bounded range, or picks from.

A sigmoid that is sure of its answer shows nothing of the weights, and one near zero shows rounding as if it
were an error. What such a function is given shows both as they are, so it is made an output too, in a copy of
the model that is run only to be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from onnx import helper

from onnx_ci.errors import ModelError
from onnx_ci.inputs.graph import Op, UseDef
from onnx_ci.model.graph import STANDARD_DOMAINS, all_names, opset
from onnx_ci.model.model import Model
from onnx_ci.results import PICKS

_PREFIX = "onnx-ci/behind/"
_MOST_STEPS = 256  # values between an output and what squashes
_MOST = 8  # observations of one output
_SQUASHES = (
    "Sigmoid",
    "HardSigmoid",
    "Softsign",
    "Tanh",
    "Erf",
    "Softmax",
)  # all of them to -1 to 1, or 0 to 1
_SAME_VALUES = (
    "Identity",
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Cast",
    "Dropout",
    "Clip",
)
_SOME_VALUES = ("Slice", "Split", "Gather", "GatherND", "GatherElements", "Expand", "Pad")
_SCALED = ("Add", "Sub", "Mul", "Div", "Neg")


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One value behind an output."""

    output: str
    squash: str  # the operator
    axis: int | None = None  # along which a Softmax adds up to 1; None: all axes from the second
    plain: bool = False  # the output is what the function gives, in another shape at most
    number: int = 0

    @property
    def name(self) -> str:
        """What the value is called where it is an output itself; `observation_of` reads it."""
        return _PREFIX + json.dumps([self.number, self.squash, self.axis, self.plain, self.output])

    @property
    def is_bounded(self) -> bool:
        """Whether the output as a whole is within -1 and 1."""
        return self.plain and self.squash in _SQUASHES

    @property
    def is_picked(self) -> bool:
        """Whether the output as a whole is a choice among the values."""
        return self.plain and self.squash in PICKS


def observation_of(name: str) -> Observation | None:
    """Return what an output of an observed model is; None where it is one of the model's own."""
    if not name.startswith(_PREFIX):
        return None
    number, squash, axis, plain, output = json.loads(name.removeprefix(_PREFIX))
    return Observation(output=output, squash=squash, axis=axis, plain=plain, number=number)


def observed(model: Model) -> Model:
    """Return the model with what is behind its outputs as further outputs; the model itself if nothing is.

    What branches and loops hold can't be reached from outside."""
    proto = model.proto
    if any(output.name.startswith(_PREFIX) for output in proto.graph.output):
        reason = f"an output is called {_PREFIX}…, which is kept for what onnx-ci looks at"
        raise ModelError(reason, hint="give the output another name", code="OCI005")
    graph = UseDef(proto)
    found: dict[str, str] = {}
    for output in proto.graph.output:
        for number, (op, value, plain) in zip(range(_MOST), _behind(graph, output.name), strict=False):
            squash = "Softmax" if op.type == "Div" else op.type
            axis = _axis(graph, op, opset(proto)) if squash == "Softmax" else None
            one = Observation(output=output.name, squash=squash, axis=axis, plain=plain, number=number)
            found[one.name] = value
    if not found or not all_names(proto).isdisjoint(found):
        return model
    copy = model.copy()
    for name, value in found.items():
        copy.proto.graph.node.append(helper.make_node("Identity", [value], [name]))
        copy.proto.graph.output.add(name=name)
    return copy


def _behind(graph: UseDef, output: str) -> Iterator[tuple[Op, str, bool]]:
    """Walk back from an output to the functions that squash: what they are given, and whether only the shape
    changed since."""
    waiting, seen = [(output, True)], {output}
    while waiting and len(seen) < _MOST_STEPS:
        name, plain = waiting.pop(0)
        op = graph.producer.get(name)
        sources = list(graph.origins.get(name, []))
        if op is not None and op.node.domain in STANDARD_DOMAINS:
            value = _squashed(graph, op)
            if value is not None and "\0" not in value and value not in graph.tensors:
                yield op, value, plain
                continue
            sources += _sources(graph, op)
            plain = plain and op.type in _SAME_VALUES
        waiting += [(source, plain) for source in sources if source and source not in seen]
        seen.update(sources)


def _squashed(graph: UseDef, op: Op) -> str | None:
    """Return what a function that squashes or picks is given; None where the node does neither.

    A Softmax may be written out: exponentials over their sum.
    """
    if op.type in _SQUASHES or op.type in PICKS:
        return op.input(0)
    total = _total(graph, op)
    return None if total is None else graph.producer[op.inputs[0]].input(0)


def _total(graph: UseDef, op: Op) -> Op | None:
    """Return the sum that a Div divides exponentials by; None where it does something else."""
    exponential = graph.producer.get(op.input(0)) if op.type == "Div" else None
    if exponential is None or exponential.type != "Exp":
        return None
    total = graph.producer.get(op.input(1))
    while total is not None and total.type in ("Reshape", "Expand", "Unsqueeze"):
        total = graph.producer.get(total.input(0))
    is_sum = total is not None and total.type == "ReduceSum" and total.input(0) == op.input(0)
    return total if is_sum else None


def _sources(graph: UseDef, op: Op) -> list[str]:
    """Return the operands whose values go on into what the node gives."""
    if op.type == "Concat":
        return list(op.inputs)
    if op.type in _SAME_VALUES or op.type in _SOME_VALUES:
        return [op.input(0)]
    computed = [name for name in op.inputs if name and graph.source(name) not in graph.tensors]
    return computed if op.type in _SCALED and len(computed) == 1 else []


def _axis(graph: UseDef, op: Op, version: int) -> int | None:
    total = _total(graph, op)
    if total is not None:
        axes = total.attribute("axes", None) or graph.integers(total.input(1)) or [-1]
        return int(axes[0])
    if version >= 13:
        return int(op.attribute("axis", -1))
    axis = int(op.attribute("axis", 1))
    return None if axis == 1 else axis
