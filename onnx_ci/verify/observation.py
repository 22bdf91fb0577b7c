"""What outputs do not show: the values behind them, and inner tensors where two models are held side by side.

Behind an output are the values that its last function squashes into a bounded range, or picks from. A sigmoid
that is sure of its answer shows nothing of the weights, and one near zero shows rounding as if it were an
error. What such a function is given shows both as they are, so it is made an output too, in a copy of the
model that is run only to be compared. So is what a model adds to an input that it hands on.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_ci.errors import ModelError
from onnx_ci.inputs.graph import Op, UseDef
from onnx_ci.model.graph import STANDARD_DOMAINS, all_names, opset
from onnx_ci.model.model import Model, element_count, values_beside
from onnx_ci.model.save import write_runnable
from onnx_ci.results import PICKS, Divergence, Gap
from onnx_ci.sandbox.exchange import Array

if TYPE_CHECKING:
    from onnx_ci.verify.reference import Reference

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
_ENDS = {"Sigmoid": 8.0, "HardSigmoid": 2.5, "Tanh": 4.0, "Erf": 2.5}  # beyond, all values come out the same
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
_COMPUTED = (
    *_SAME_VALUES,
    *_SOME_VALUES,
    *_SCALED,
    "Concat",
    "Exp",
    "Log",
    "Where",
    "ReduceSum",
    "ReduceMean",
)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One value behind an output."""

    output: str
    squash: str  # the operator
    axis: int | None = None  # along which a Softmax adds up to 1, or one is picked; None: from the second on
    plain: bool = False  # the output is what the function gives, in another shape at most
    number: int = 0
    added: bool = False  # it is, or is behind, what the model adds to an input that it hands on

    @property
    def name(self) -> str:
        """What the value is called where it is an output itself; `observation_of` reads it."""
        kind = [self.number, self.squash, self.axis, self.plain, self.added, self.output]
        return _PREFIX + json.dumps(kind)

    @property
    def is_bounded(self) -> bool:
        """Whether the output as a whole is within -1 and 1."""
        return self.plain and self.squash in _SQUASHES

    def telling(self, values: Array) -> Array:
        """Return the values no further out than the function tells them from each other."""
        end = _ENDS.get(self.squash, math.inf)
        return np.clip(values, -end, end)

    @property
    def is_picked(self) -> bool:
        """Whether the output as a whole is a choice among the values."""
        return self.plain and self.squash in PICKS

    @property
    def follows(self) -> bool:
        """Whether the output is computed from a choice among the values."""
        return not self.plain and self.squash in PICKS


def observation_of(name: str) -> Observation | None:
    """Return what an output of an observed model is; None where it is one of the model's own."""
    if not name.startswith(_PREFIX):
        return None
    number, squash, axis, plain, added, output = json.loads(name.removeprefix(_PREFIX))
    return Observation(output=output, squash=squash, axis=axis, plain=plain, number=number, added=added)


def observed(model: Model, graph: UseDef | None = None) -> Model:
    """Return the model with what is behind its outputs as further outputs; the model itself if nothing is.
    `graph` is its own, where that was read already.

    What branches and loops hold can't be reached from outside."""
    proto = model.proto
    if any(output.name.startswith(_PREFIX) for output in proto.graph.output):
        reason = f"an output is called {_PREFIX}…, which is kept for what onnx-ci looks at"
        raise ModelError(reason, hint="give the output another name", code="OCI005")
    graph = graph or UseDef(proto)
    found: dict[str, str] = {}
    for output in proto.graph.output:
        for number, (op, value, how) in zip(range(_MOST), _behind(graph, output.name), strict=False):
            squash = "Softmax" if op.type == "Div" else op.type
            axis = _axis(graph, op, opset(proto)) if squash in ("Softmax", *PICKS) else None
            one = Observation(
                output=output.name, squash=squash, axis=axis, number=number, plain=how.plain, added=how.added
            )
            found[one.name] = value
    if not found or not all_names(proto).isdisjoint(found):
        return model
    copy = model.copy()
    for name, value in found.items():
        copy.proto.graph.node.append(helper.make_node("Identity", [value], [name]))
        copy.proto.graph.output.add(name=name)
    return copy


class _Route(NamedTuple):
    """How a value becomes an output."""

    plain: bool = True  # only its shape changed
    added: bool = False  # it is added to an input that is handed on


def _behind(graph: UseDef, output: str) -> Iterator[tuple[Op, str, _Route]]:
    """Walk back from an output to the functions that squash: what they are given, and how it becomes the
    output; and to what is added to an input that is handed on."""
    picks = False
    waiting, seen = [(output, _Route())], {output}
    while waiting and len(seen) < _MOST_STEPS:
        name, route = waiting.pop(0)
        op = graph.producer.get(name)
        sources = list(graph.origins.get(name, []))
        if op is not None and op.node.domain in STANDARD_DOMAINS:
            value = _squashed(graph, op)
            if value is not None and "\0" not in value and value not in graph.tensors:
                picks = picks or op.type in PICKS
                yield op, value, route
                continue
            if route.plain and (part := _added(graph, op)):
                yield op, part, route._replace(added=True)
                route, sources = route._replace(added=True), [part]
            elif not route.added or op.type != "Concat":  # all of what is added, or none
                sources += _sources(graph, op)
            route = route._replace(plain=route.plain and op.type in _SAME_VALUES)
        waiting += [(source, route) for source in sources if source and source not in seen]
        seen.update(sources)
    if not picks:
        yield from _choices(graph, output)


def _added(graph: UseDef, op: Op) -> str:
    """Return what a node adds to an input of the model, or takes from it; nothing where it does not."""
    if op.type not in ("Add", "Sub") or len(op.inputs) != 2 or "\0" in "".join(op.inputs):
        return ""
    computed = [name for name in op.inputs if not _is_handed_on(graph, name)]
    return computed[0] if len(computed) == 1 and graph.source(computed[0]) not in graph.tensors else ""


def _is_handed_on(graph: UseDef, name: str) -> bool:
    """Whether a value is made of inputs of the model alone."""
    waiting, seen = [name], {name}
    while waiting:
        name = waiting.pop()
        op = graph.producer.get(name)
        sources = _sources(graph, op) if op and op.node.domain in STANDARD_DOMAINS else []
        if name in graph.tensors or (op and not sources) or len(seen) > _MOST_STEPS:
            return False
        waiting += [source for source in sources if source not in seen]
        seen.update(sources)
    return True


def _choices(graph: UseDef, output: str) -> Iterator[tuple[Op, str, _Route]]:
    """Walk back to the choices that decide which values an output has, without weights in between."""
    waiting, seen = [output], {output}
    while waiting and len(seen) < _MOST_STEPS:
        op = graph.producer.get(waiting.pop(0))
        if op is None or op.node.domain not in STANDARD_DOMAINS:
            continue
        if op.type in PICKS and "\0" not in op.input(0) and op.attribute("largest", 1):
            yield op, op.input(0), _Route(plain=False)
        elif op.type in _COMPUTED:
            waiting += [name for name in op.inputs if name and name not in seen]
            seen.update(op.inputs)


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
    if op.type in PICKS:
        return int(op.attribute("axis", -1 if op.type == "TopK" else 0))
    total = _total(graph, op)
    if total is not None:
        axes = total.attribute("axes", None) or graph.integers(total.input(1)) or [-1]
        return int(axes[0])
    if version >= 13:
        return int(op.attribute("axis", -1))
    axis = int(op.attribute("axis", 1))
    return None if axis == 1 else axis


PARTED = 60.0  # dB: below what summing in another order can cost
ALIKE = 150.0  # dB of two values that are the same
_VALUES = 512  # inner tensors that are looked at
_AT_ONCE = 64  # of them, since all have to be kept
_WORST = 5
_SKIPPED = 3  # nodes whose weights are named
_FEWEST = 16  # elements of a weight
_DEPTH = 16


@dataclass(eq=False)
class _Values:
    """The main graph of the first model: what gives each value, and which weights the second changed."""

    model: Model
    other: Model
    producers: dict[str, NodeProto] = field(default_factory=dict)
    behind: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of constant values: what is stored
    changed: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored, self.others = _stored(self.model), _stored(self.other)
        self.behind = {name: (name,) for name in self.stored}
        for node in self.model.proto.graph.node:
            self.producers.update({name: node for name in node.output if name})
            inputs = [name for name in node.input if name]
            if node.op_type != "Constant" and inputs and all(name in self.behind for name in inputs):
                weights = dict.fromkeys(weight for name in inputs for weight in self.behind[name])
                self.behind.update(dict.fromkeys(node.output, tuple(weights)[:_DEPTH]))

    def weights(self, node: NodeProto) -> list[str]:
        """What a node computes with that is stored, if behind a Transpose or the like, and that changed."""
        behind = dict.fromkeys(weight for name in node.input for weight in self.behind.get(name, ()))
        return [name for name in behind if self._is_changed(name)]

    def _is_changed(self, name: str) -> bool:
        if name not in self.changed:
            mine, other = self.stored[name], self.others.get(name)
            same = other is not None and self.model.raw(mine) == self.other.raw(other)
            self.changed[name] = element_count(mine) >= _FEWEST and not same
        return self.changed[name]

    def nearest_weights(self, name: str) -> tuple[str, ...]:
        """The weights of the node that gives a value, or else of those before it."""
        names = [name]
        for _ in range(_DEPTH):
            nodes = [self.producers[each] for each in names if each in self.producers]
            found = [weight for node in nodes for weight in self.weights(node)]
            if found:
                return tuple(dict.fromkeys(found))
            names = list(dict.fromkeys(each for node in nodes for each in node.input))[:_VALUES]
        return ()


def _stored(model: Model) -> dict[str, TensorProto]:
    """Initializers and Constants of the main graph, but for short ones."""
    graph = model.proto.graph
    constants = {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.HasField("t")
    }
    return {**{tensor.name: tensor for tensor in graph.initializer}, **constants}


def divergence(reference: Reference, first: Model, second: Model, scratch: Path) -> Divergence:
    """Run both models on one input with their inner tensors as outputs, and see where they part."""
    values = _Values(first, second)
    there = {name for node in second.proto.graph.node for name in node.output}
    names = [name for name in values.producers if name in there and name not in values.behind]
    step = max(1, math.ceil(len(names) / _VALUES))
    shown = names[::step]
    feeds, spare = reference.feeds_for(values_beside(second), reference.feeds()[:1])
    sqnr: dict[str, float] = {}
    failed = 0
    for start in range(0, len(shown), _AT_ONCE):
        part = shown[start : start + _AT_ONCE]
        try:
            old, new = (
                _run_inner(reference, model, part, feeds, spare, scratch) for model in (first, second)
            )
        except ModelError:
            failed += len(part)
            continue
        pairs = ((name, _noise(old.get(name), new.get(name))) for name in part)
        sqnr.update({name: found for name, found in pairs if found is not None})
    notes = [f"every {step}th of {len(names):,} tensors was compared"] if step > 1 else []
    notes += [f"{failed} tensors could not be put out"] if failed else []
    notes += [] if sqnr else ["no inner tensor has the same name in both"]
    gaps = [_gap(values, name, found) for name, found in sqnr.items() if found < PARTED]
    return Divergence(
        compared=len(sqnr),
        first=gaps[0] if gaps else None,
        worst=tuple(sorted(gaps, key=lambda gap: gap.sqnr)[:_WORST]),
        skip=tuple(_skipped(values, sqnr)),
        note="; ".join(notes),
    )


def _run_inner(
    reference: Reference,
    model: Model,
    names: Sequence[str],
    feeds: Sequence[Any],
    spare: set[str],
    scratch: Path,
) -> dict[str, Any]:
    copy = model.copy()
    copy.proto.graph.ClearField("output")
    for name in names:
        copy.proto.graph.output.add(name=name)
    with tempfile.TemporaryDirectory(prefix="inner-", dir=scratch) as folder:
        path = Path(folder) / "inner.onnx"
        write_runnable(copy, path)
        outputs: dict[str, Any] = reference.runner.run(path, feeds, limits=reference.limits, spare=spare)[0]
        return outputs


def _noise(old: Any, new: Any) -> float | None:
    """The signal over the noise in dB; None where there are no numbers to compare."""
    arrays = isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
    if not arrays or old.shape != new.shape or old.dtype.kind != "f" or new.dtype.kind != "f" or not old.size:
        return None
    was, now = old.astype(np.float64).ravel(), new.astype(np.float64).ravel()
    same = (was == now) | (np.isnan(was) & np.isnan(now))
    with np.errstate(all="ignore"):
        noise = float(np.square((now - was)[~same]).sum())
        signal = float(np.square(was[np.isfinite(was)]).sum())
    if noise == 0.0:
        return ALIKE
    if not math.isfinite(noise) or signal == 0.0:
        return -ALIKE
    return min(max(10 * math.log10(signal / noise), -ALIKE), ALIKE)


def _gap(values: _Values, name: str, sqnr: float) -> Gap:
    return Gap(
        name=name,
        op=values.producers[name].op_type,
        sqnr=sqnr,
        relative=10 ** (-sqnr / 20) if sqnr > -ALIKE else None,
        weights=values.nearest_weights(name),
    )


def _skipped(values: _Values, sqnr: dict[str, float]) -> list[str]:
    """The weights of the nodes that lose most: what they give is further off than what they are given."""
    levels: dict[str, float] = {}
    lost: list[tuple[float, list[str]]] = []
    for node in values.model.proto.graph.node:
        given = min((levels.get(name, ALIKE) for name in node.input), default=ALIKE)
        for name in node.output:
            levels[name] = sqnr.get(name, given)
        weights = values.weights(node)
        after = min((levels[name] for name in node.output), default=ALIKE)
        if weights and after < PARTED and after < given:
            lost.append((_power(after) - _power(given), weights))
    lost.sort(key=lambda item: -item[0])
    return list(dict.fromkeys(weight for _, weights in lost[:_SKIPPED] for weight in weights))


def _power(sqnr: float) -> float:
    """The noise relative to the signal."""
    return float(10 ** (-sqnr / 10))
