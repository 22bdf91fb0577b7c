"""Both branches of every If: which ones the samples take, and samples that take the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_ci.inputs.dims import STEPS
from onnx_ci.inputs.generate import Attempt, Deriver
from onnx_ci.inputs.goals import Goal, Goals
from onnx_ci.inputs.graph import IfNode, UseDef, function_key, node_key
from onnx_ci.model.graph import RANDOM_OPS, Body, all_names, all_nodes, fresh_name, opset
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_model
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import Feeds, RunFailed, Runner

_RUNS = 48  # of the model, in search of samples for branches not taken
_VARIANTS = 2 * STEPS
_FAILURES = 2  # crashes and the like before the search is given up
_ALIKE = 4  # samples that take a branch one way, at most
_PAIR = [2]
FIRST_OPSET = 9  # before, Scan had another form, and numbers were stretched otherwise

Taken = tuple[str, bool]  # the key of an If, and whether its condition holds


class Side(NamedTuple):
    """One branch of an If; `key` tells the If from others of the same name."""

    key: str
    name: str
    holds: bool

    @property
    def words(self) -> str:
        return f"the {'then' if self.holds else 'else'} branch of If {self.name!r}"


@dataclass(frozen=True, kw_only=True)
class BranchSamples:
    """Samples beyond those that were there, and the branches that none of all takes."""

    more: Sequence[Feeds] = ()
    untaken: Sequence[Side] = ()


def both_ways(
    runner: Runner, original: Path, deriver: Deriver, feeds: Sequence[Feeds], *, stored: Feeds, limits: Limits
) -> BranchSamples:
    """Look for further samples, so that all branches are taken that inputs can reach.

    Nothing is found for a model that can't be watched.
    """
    try:
        watched = _watch(runner, original, deriver.graph, limits)
        return BranchSamples() if watched is None else _BranchSearch(watched, deriver).beyond(feeds, stored)
    except RunFailed:
        return BranchSamples()


def not_taken(
    runner: Runner, original: Path, graph: UseDef, feeds: Sequence[Feeds], *, limits: Limits
) -> Sequence[Side]:
    """Return the branches that given samples do not take."""
    try:
        watched = _watch(runner, original, graph, limits)
        return () if watched is None else _sides_without(watched.taken(feeds), graph)
    except RunFailed:
        return ()


def _sides_without(taken: Collection[Taken], graph: UseDef) -> list[Side]:
    """Return the branches that are not taken. An If in a function is one, wherever it is called."""
    sides = {}
    for branch in graph.branches:
        name = branch.op.node.name or next(iter(branch.op.node.output), "")
        for holds in (True, False):
            if (branch.key, holds) not in taken:
                sides[branch.key, holds] = Side(branch.key, name, holds)
    return list(sides.values())


class _Way(NamedTuple):
    """What samples have to be to take a branch."""

    goal: Goal
    attempt: Attempt
    first: Feeds


class _BranchSearch:
    """Looks for samples that take the branches which `feeds` do not."""

    def __init__(self, watched: _Watched, deriver: Deriver) -> None:
        self.watched = watched
        self.deriver = deriver
        self.goals = Goals(deriver.graph, {i.name: len(i.dims) for i in deriver.inputs})
        self.left = _RUNS
        self.failures = 0

    def beyond(self, feeds: Sequence[Feeds], stored: Feeds) -> BranchSamples:
        taken = self.watched.taken(feeds)
        more: list[Feeds] = []
        ways: list[tuple[_Way, set[Taken]]] = []
        for branch in self.deriver.graph.branches:
            for holds in (True, False):
                for way in self._ways(branch, holds):
                    if (branch.key, holds) in taken or self._is_over:
                        break
                    new = self._try({**way.first, **stored}) - taken
                    if new:
                        more.append({**way.first, **stored})
                        ways.append((way, new))
                    taken |= new
        more += self._alike(ways, stored)
        return BranchSamples(more=more, untaken=_sides_without(taken, self.deriver.graph))

    @property
    def _is_over(self) -> bool:
        return self.left <= 0 or self.failures >= _FAILURES

    def _alike(self, ways: Sequence[tuple[_Way, set[Taken]]], stored: Feeds) -> Iterator[Feeds]:
        """Yield other samples that go the same ways: one sample says little of what is computed there."""
        for index in range(1, min(self.deriver.spec.count, _ALIKE)):
            for way, sides in ways:
                sample = None if self._is_over else self.deriver.towards(way.goal, way.attempt, index)
                if sample is None or _is_same(sample, way.first):
                    continue
                if self._try({**sample, **stored}) & sides:
                    yield {**sample, **stored}

    def _ways(self, branch: IfNode, holds: bool) -> Iterator[_Way]:
        goals = self.goals.all_of([*branch.under, (branch.condition, holds)])
        if not self.goals.reach(branch.condition, float(holds)):
            return  # nothing to go by, and what leads here alone was tried with the If around it
        # A goal may need sizes of its own: a cache that is not empty, half as many samples at half the rate.
        for variant in range(_VARIANTS):
            for goal in goals:
                attempt = Attempt(step=variant // 2, past=variant % 2, varied=False)
                sample = self.deriver.towards(goal, attempt, 0)
                if sample is not None:
                    yield _Way(goal, attempt, sample)

    def _try(self, sample: Feeds) -> set[Taken]:
        self.left -= 1
        try:
            return self.watched.taken([sample])
        except RunFailed as error:
            self.failures += error.kind != "error"
            return set()


def _is_same(sample: Feeds, other: Feeds) -> bool:
    """Tell whether the way there leaves nothing open: all is given, or absent."""
    for name, value in sample.items():
        first = other[name]
        if value is first:
            continue
        if not (isinstance(value, np.ndarray) and isinstance(first, np.ndarray)):
            return False
        if not np.array_equal(value, first):
            return False
    return True


class _Watched(NamedTuple):
    """A copy of a model that tells which branches ran."""

    runner: Runner
    path: Path
    marks: Mapping[str, str]
    limits: Limits
    steady: bool  # whether one session tells what others would

    def taken(self, feeds: Sequence[Feeds]) -> set[Taken]:
        runner = self.runner.using(optimize=False)
        outputs = runner.run(self.path, feeds, limits=self.limits, keep=self.steady)
        taken = set()
        for key, counts in self.marks.items():
            for side in (0, 1):
                if any(sample[counts][side] > 0 for sample in outputs):
                    taken.add((key, side == 0))
        return taken


def _watch(runner: Runner, original: Path, graph: UseDef, limits: Limits) -> _Watched | None:
    """Write a watched copy of a model; None where it has no Ifs, or they can't be watched."""
    if not graph.branches:
        return None
    with open_model(original) as model:
        copy = model.copy()
        marks = _mark(copy.proto)
        if not marks:
            return None
        path = runner.folder() / "watched.onnx"
        write_model(copy, path)
        steady = not any(node.op_type in RANDOM_OPS for node in all_nodes(copy.proto))
    return _Watched(runner, path, marks, limits, steady and not runner.libraries.names)


def _mark(proto: ModelProto) -> dict[str, str]:
    """Edit a model in place so that its outputs are the marks of its Ifs, and nothing else.

    A mark is the value that counts how often the first branch of an If ran, and the second.
    """
    if opset(proto) < FIRST_OPSET:
        return {}
    marks = Marker(proto, _branch_marks, "Add").body(proto.graph, "")
    del proto.graph.output[:]
    proto.graph.output.extend(_info(value) for value in marks.values())
    return marks


def _branch_marks(marker: Marker, node: NodeProto, key: str, nodes: list[NodeProto]) -> dict[str, str]:
    if node.op_type == "If" and node.input and node.domain in ("", "ai.onnx"):
        return {key: marker.counts(node.input[0], nodes)}
    return {}


class Marker:
    """Measures something about nodes, and carries that out of branches and loops to the main graph. Marks of
    two numbers are combined where something runs more than once, also as a function: added up, or the
    largest. Of marks of any shape each is kept, in loops along a new first axis; functions have none.
    """

    def __init__(
        self,
        proto: ModelProto,
        measure: Callable[[Marker, NodeProto, str, list[NodeProto]], dict[str, str]],
        combine: Literal["Add", "Max", "each"],
    ) -> None:
        """`measure` returns marks of a node by their keys; what computes them it adds to the nodes."""
        self.measure = measure
        self.combine = combine
        self.prefix = fresh_name("mark", all_names(proto))
        self.numbers = count()
        kept = combine == "each"
        self.functions = {} if kept else {(f.domain, f.name): f for f in proto.functions}
        self.shape = None if kept else _PAIR
        self.nothing = [] if kept else [0.0, 0.0]
        self.done: dict[tuple[str, str], dict[str, str]] = {}

    def body(self, body: Body, scope: str) -> dict[str, str]:
        """Return all marks in here, as values of this body."""
        marks: dict[str, str] = {}
        nodes: list[NodeProto] = []
        for index, node in enumerate(list(body.node)):
            key = node_key(scope, index)
            new = self._inner_marks(node, key, nodes)
            nodes.append(node)
            new |= self.measure(self, node, key, nodes)
            for inner, value in new.items():
                if inner in marks:  # calls of one function count together
                    total = self.name()
                    nodes.append(helper.make_node(self.combine, [marks[inner], value], [total]))
                    value = total
                marks[inner] = value
        del body.node[:]
        body.node.extend(nodes)
        return marks

    def _inner_marks(self, node: NodeProto, key: str, before: list[NodeProto]) -> dict[str, str]:
        """Let a node give the marks of all that is inside it; what it then needs is added to those before."""
        if (node.domain, node.op_type) in self.functions:
            return self._call(node)
        if node.op_type == "If":
            return self._if(node, key)
        if node.op_type == "Loop":
            if self.shape is None:
                return self._each_round(node, key, 1)
            return self._repeated(node, key, len(node.input) - 2, 1, 2, before)
        if node.op_type == "Scan":
            if self.shape is None:
                return self._each_round(node, key, 0)
            scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
            return self._repeated(node, key, len(node.input) - scanned, 0, 0, before)
        return {}

    def _if(self, node: NodeProto, key: str) -> dict[str, str]:
        graphs = {a.name: a.g for a in node.attribute if a.name in ("then_branch", "else_branch")}
        inner = {name: self.body(graph, f"{key}.{name}") for name, graph in graphs.items()}
        outer = {mark: self.name() for marks in inner.values() for mark in marks}
        for mark, value in outer.items():
            node.output.append(value)
            for name, graph in graphs.items():
                if mark not in inner[name]:
                    inner[name][mark] = self.name()
                    graph.node.append(constant(inner[name][mark], TensorProto.FLOAT, self.nothing))
                graph.output.append(_info(inner[name][mark], self.shape))
        return outer

    def _each_round(self, node: NodeProto, key: str, leading: int) -> dict[str, str]:
        """Let a loop put out the marks of all its rounds."""
        outer: dict[str, str] = {}
        for graph in (a.g for a in node.attribute if a.name == "body"):
            missing = len(graph.output) - leading - len(node.output)
            node.output.extend(self.name() for _ in range(missing))
            for mark, value in self.body(graph, f"{key}.body").items():
                outer[mark] = self.name()
                graph.output.append(_info(value, self.shape))
                node.output.append(outer[mark])
                for given in node.attribute:
                    if given.name in ("scan_output_axes", "scan_output_directions"):
                        given.ints.append(0)
        return outer

    def _repeated(
        self, node: NodeProto, key: str, states: int, leading: int, given: int, before: list[NodeProto]
    ) -> dict[str, str]:
        """Let a loop carry the counts along as further state.

        `leading` outputs and `given` inputs of its body come before the state.
        """
        graph = next((a.g for a in node.attribute if a.name == "body"), None)
        outer: dict[str, str] = {}
        if graph is None:
            return outer
        for mark, value in self.body(graph, f"{key}.body").items():
            carried, total, result, zero = (self.name() for _ in range(4))
            graph.node.append(helper.make_node(self.combine, [carried, value], [total]))
            graph.input.insert(given + states, _info(carried))
            graph.output.insert(leading + states, _info(total))
            before.append(constant(zero, TensorProto.FLOAT, [0.0, 0.0]))
            node.input.insert(given + states, zero)
            node.output.insert(states, result)
            states += 1
            outer[mark] = result
        return outer

    def _call(self, node: NodeProto) -> dict[str, str]:
        function = self.functions[node.domain, node.op_type]
        key = (function.domain, function.name)
        if key not in self.done:
            self.done[key] = {}  # one that calls itself is not a model, and must not keep us here
            self.done[key] = self.body(function, function_key(function))
            function.output.extend(self.done[key].values())
        outer = {mark: self.name() for mark in self.done[key]}
        if outer:
            node.output.extend([""] * (len(function.output) - len(outer) - len(node.output)))
            node.output.extend(outer.values())
        return outer

    def counts(self, condition: str, nodes: list[NodeProto]) -> str:
        """Add nodes that give [1, 0] where the condition holds, [0, 1] where it does not."""
        number, shape, flat, one, other, both = (self.name() for _ in range(6))
        nodes += [
            helper.make_node("Cast", [condition], [number], to=TensorProto.FLOAT),
            constant(shape, TensorProto.INT64, [1]),
            helper.make_node("Reshape", [number, shape], [flat]),
            constant(one, TensorProto.FLOAT, [1.0]),
            helper.make_node("Sub", [one, flat], [other]),
            helper.make_node("Concat", [flat, other], [both], axis=0),
        ]
        return both

    def name(self) -> str:
        return f"{self.prefix}.{next(self.numbers)}"


def _info(name: str, shape: list[int] | None = _PAIR) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def constant(name: str, code: int, values: list[float]) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=helper.make_tensor("", code, [len(values)], values))
