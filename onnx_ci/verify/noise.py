"""How far the original is from itself, which nodes of it draw random numbers, and seeds for these.

Noise is measured before anything is compared with the original. Random nodes of original and candidate are
given the same seeds in copies that exist only to be run: a seeded node repeats its numbers in every new
session, whatever nodes are around it. onnxruntime's own `set_seed` would not do: there a node's numbers
depend on its place in the graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.model.graph import RANDOM_OPS, STANDARD_DOMAINS, Scope, keep_items, nodes_by_body, stored_in
from onnx_ci.model.load import open_model
from onnx_ci.model.save import write_runnable
from onnx_ci.policy.schema import AT_MOST, Tolerance
from onnx_ci.results import OutputDelta
from onnx_ci.verify.compare import Outputs, compare_outputs, outside

OTHER_DRAWS = 1  # the seed of random nodes in a second session; the first had 0
ROUNDING = 40.0  # dB; what is nearer to itself than this is one answer with noise, not several answers
_ROOM = 4  # a tolerance that can be kept is this much wider than what was seen once
_DECIBELS = 12  # which is as much
_CAUSES = {"threads": "with another number of threads", "runs": "from run to run"}
WAY_OUT = (
    "give random nodes a `seed` attribute, or turn the noise off if an input scales it:"
    " inputs: {ranges: {NAME: [0, 0]}}; or leave the model alone: methods: []"
)
_PRIME = 16_777_213  # below 2^24: most seeds are stored as float32
_INTEGER = {"Dropout"}  # whose seed is an integer
NodeKey = tuple[str, str, int]  # operator, first output, and which one of that name it is


def noise_of(first: Outputs, threads: Outputs, runs: Outputs) -> tuple[OutputDelta, ...]:
    """Return how far outputs are from those of a second session with another number of threads, and who is to
    blame: `runs` are the outputs of one with the same number."""
    by_run = {delta.name: delta for delta in compare_outputs(first, runs, Tolerance())}
    noises = []
    for delta in compare_outputs(first, threads, Tolerance()):
        repeated = by_run.get(delta.name, delta)
        if not repeated.exact:
            noises.append(replace(repeated, source="runs"))
        else:
            noises.append(replace(delta, source="" if delta.exact else "threads"))
    return tuple(noises)


def gross_noise(noise: Sequence[OutputDelta], nodes: Sequence[str]) -> ModelError | None:
    """Return why no single run of the original is a reference: runs differ by more than rounding."""
    unsteady = [output for output in noise if output.source == "runs"]
    gross = [output for output in unsteady if output.problem or output.sqnr < ROUNDING]
    if not gross:
        return None
    shown = "; ".join(f"output {delta.name!r}: {delta.problem or words(delta)}" for delta in gross[:3])
    drawn = f", and nodes draw random numbers: {', '.join(nodes[:3])}" if nodes else ""
    return ModelError(f"its outputs differ from run to run ({shown}){drawn}", hint=WAY_OUT, code="OCI005")


def refuse_strict(noise: Sequence[OutputDelta], tolerance: Tolerance) -> None:
    """Raise where two runs of the original are further apart than a candidate may be."""
    for output in noise:
        if output.source != "runs":
            continue
        beyond = output.problem or "; ".join(problem.words for problem in outside(output, tolerance))
        if tolerance.exact and not output.exact and not beyond:
            beyond = "not bit-identical, " + words(output)
        if beyond:
            raise ModelError(
                f"the tolerance is stricter than the original is with itself: two runs of it differ in output"
                f" {output.name!r}: {beyond}",
                hint=_possible(output, tolerance),
                code="OCI005",
            )


def excuse(
    deltas: Sequence[OutputDelta], noise: Sequence[OutputDelta], tolerance: Tolerance
) -> ModelError | None:
    """Return why outputs beyond the tolerance are not held against the candidate: the original moves as far
    by itself. None where one of them moved further."""
    floors = {output.name: output for output in noise if output.source}
    failing = [delta for delta in deltas if delta.problem]
    if not all(_within(delta, floors.get(delta.name), tolerance) for delta in failing):
        return None
    first = failing[0]
    floor = floors[first.name]
    return ModelError(
        f"output {first.name!r}: {first.problem}, but the original itself differs as much"
        f" {_CAUSES[floor.source]}: {words(floor)}",
        hint=_possible(floor, tolerance),
        code="OCI005",
    )


def words(noise: OutputDelta) -> str:
    return f"max_abs {noise.max_abs:.3g}, {noise.sqnr:.0f} dB"


def _possible(floor: OutputDelta, tolerance: Tolerance) -> str:
    """What the limits that can't be kept would have to be."""
    kept = _kept(floor, tolerance)
    limits = []
    for name in AT_MOST:
        limit, wider = getattr(tolerance, name), getattr(kept, name)
        if limit is not None and wider > limit:
            limits.append(f"{name}: {wider:.1e}")
    if kept.sqnr is not None and kept.sqnr != tolerance.sqnr:
        limits.append(f"sqnr: {math.floor(kept.sqnr)}")
    if kept.cosine is not None and kept.cosine != tolerance.cosine:
        limits.append(f"cosine: {kept.cosine:.6g}")
    if tolerance.exact:
        limits.append(f"exact: false, max_abs: {kept.max_abs:.1e}")
    return f"a tolerance it can keep: {{{', '.join(limits)}}}"


def _within(delta: OutputDelta, floor: OutputDelta | None, tolerance: Tolerance) -> bool:
    """Whether it keeps a tolerance that the noise can keep: once seen, it may be more the next time."""
    if floor is None:
        return False
    limited = any(outside(delta, tolerance)) or (tolerance.exact and "bits" in delta.breaches)
    if not limited:  # a shape or an integer that changed
        return bool(floor.problem)
    return not any(outside(delta, _kept(floor, tolerance)))


def _kept(floor: OutputDelta, tolerance: Tolerance) -> Tolerance:
    """The tolerance, as far as the original keeps it with itself, and no stricter."""
    return Tolerance(
        max_abs=_wider(tolerance.max_abs, floor.max_abs, always=tolerance.exact),
        max_rel=_wider(tolerance.max_rel, floor.max_rel),
        mean_abs=_wider(tolerance.mean_abs, floor.mean_abs),
        cosine=None if tolerance.cosine is None else min(tolerance.cosine, 1 - _ROOM**2 * (1 - floor.cosine)),
        sqnr=None if tolerance.sqnr is None else min(tolerance.sqnr, floor.sqnr - _DECIBELS),
        top1=None if tolerance.top1 is None else min(tolerance.top1, floor.top1),
    )


def _wider(limit: float | None, seen: float, *, always: bool = False) -> float | None:
    return max(limit or 0.0, seen * _ROOM) if limit is not None or always else None


def random_nodes(proto: onnx.ModelProto) -> list[str]:
    """`name (Operator)` of each without a seed; one with a seed gives the same numbers in every session."""
    return [label(node) for node in _drawing(proto, seeded=False)]


def draws(proto: onnx.ModelProto) -> bool:
    """Whether any node draws random numbers, with a seed or without one."""
    return next(_all_drawing(proto), None) is not None


def label(node: NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "unnamed")
    return f"{name} ({node.op_type})"


def _drawing(proto: onnx.ModelProto, *, seeded: bool) -> list[NodeProto]:
    """The nodes that draw random numbers, with a seed of their own or without one."""
    return [node for node in _all_drawing(proto) if _has_seed(node) == seeded]


def _all_drawing(proto: onnx.ModelProto) -> Iterator[NodeProto]:
    for body, nodes in nodes_by_body(proto):
        named = [body.node[at] for at, op in enumerate(nodes.ops) if op in RANDOM_OPS or op == "Dropout"]
        if named:
            stored = stored_in(Scope(body, known=nodes))
            false = {"", *(site.name for site in stored if _is_false(site.tensor))}
            yield from (node for node in named if _draws(node, false))


def _has_seed(node: NodeProto) -> bool:
    """A function's node may take its seed from who calls it; it counts as unseeded, for not all do."""
    return any(a.name == "seed" and not a.ref_attr_name for a in node.attribute)


def _draws(node: NodeProto, false: set[str]) -> bool:
    """`false` are the constants that are, and operands left out."""
    if node.domain not in STANDARD_DOMAINS:
        return False
    if node.op_type == "Dropout":  # the third operand turns training mode on
        return len(node.input) > 2 and node.input[2] not in false
    return node.op_type in RANDOM_OPS


def _is_false(tensor: TensorProto) -> bool:
    if tensor.data_type != TensorProto.BOOL or tensor.data_location == TensorProto.EXTERNAL:
        return False
    try:
        return not numpy_helper.to_array(tensor).any()
    except ValueError:  # fewer bytes than the shape says
        return False


class Unmatched(Exception):
    """It draws other random numbers than the original: which node is which can't be told."""


class Baked(Exception):
    """A node that drew other numbers each time has a seed now."""


class Seeding:
    """The seeds for the random nodes of one original. False where it has none that lack one."""

    def __init__(self, proto: onnx.ModelProto, offset: int = 0) -> None:
        nodes = _drawing(proto, seeded=False)
        self.kinds = [node.op_type for node in nodes]
        self.seeds = {key: _seed(number, offset) for number, key in enumerate(_keys(nodes))}

    def __bool__(self) -> bool:
        return bool(self.seeds)

    def write(self, model: Path, target: Path, root: Path | None = None) -> bool:
        """Write the copy with seeds; whether it is certain which node is which."""
        inside = root is not None and model.resolve().is_relative_to(root.resolve())
        with open_model(model, root=root if inside else None) as opened:
            certain = self._give(opened.proto)
            write_runnable(opened, target)
        return certain

    def _give(self, proto: onnx.ModelProto) -> bool:
        """Give seeds to the nodes of a copy; whether it is certain which is which."""
        own = _drawing(proto, seeded=True)
        fixed = [label(node) for node in own if (node.op_type, *node.output[:1], 0) in self.seeds]
        if fixed:
            raise Baked(f"{fixed[0]} draws the same numbers in every session now: it has a seed")
        nodes = _drawing(proto, seeded=False)
        keys = _keys(nodes)
        # Each is one of the original's, and of those that share a name none is missing.
        ours, theirs = (Counter(key[:2] for key in some) for some in (self.seeds, keys))
        certain = all(ours[name] == count for name, count in theirs.items())
        kinds = [node.op_type for node in nodes]
        if not certain and kinds != self.kinds:
            raise Unmatched(
                f"it has {_listed(kinds)} that draw numbers, the original has {_listed(self.kinds)}"
            )
        seeds: Collection[int] = [self.seeds[key] for key in keys] if certain else self.seeds.values()
        for node, seed in zip(nodes, seeds, strict=True):
            keep_items(node, "attribute", lambda attribute: attribute.name != "seed")
            value = seed if node.op_type in _INTEGER else float(seed)
            node.attribute.append(helper.make_attribute("seed", value))
        return certain


def _keys(nodes: Sequence[NodeProto]) -> list[NodeKey]:
    """Operator and first output; two branches may both have an output of a name."""
    seen: Counter[tuple[str, str]] = Counter()
    keys = []
    for node in nodes:
        name = (node.op_type, node.output[0] if node.output else "")
        keys.append((*name, seen[name]))
        seen[name] += 1
    return keys


def _seed(number: int, offset: int) -> int:
    """No small number: a candidate with a seed of its own must not have this one by chance."""
    return (1_000_003 * (number + 1) + 7_368_787 * (offset + 1)) % _PRIME


def _listed(kinds: Sequence[str]) -> str:
    counts = Counter(kinds)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"
