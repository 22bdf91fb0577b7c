"""What onnxruntime makes of two graphs: which nodes it fuses, and what it can't compute ahead of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from onnx_ci.model.graph import RANDOM_OPS, subgraphs
from onnx_ci.model.proto import GraphProto, ModelProto
from onnx_ci.policy.schema import Limits
from onnx_ci.results import OpCount, Optimized
from onnx_ci.sandbox.runner import RunFailed, Runner

_LARGEST = 1 << 28  # bytes of a graph without its weights
_SHOWN = 8
# What takes next to no time, or comes with another type or layout and not with a lost fusion.
_HELPERS = {
    *("Cast", "Constant", "DequantizeLinear", "DynamicQuantizeLinear", "Expand", "Flatten"),
    *("Identity", "QuantizeLinear", "ReorderInput", "ReorderOutput", "Reshape", "Shape"),
    *("Squeeze", "Transpose", "Unsqueeze"),
}
# Of the standard operators those that stand for several others; those of Microsoft all do.
_FUSED = {
    *("Attention", "ConvInteger", "Gelu", "GroupNormalization", "HardSwish"),
    *("LayerNormalization", "MatMulInteger", "QLinearConv", "QLinearMatMul", "RMSNormalization"),
    *("RotaryEmbedding", "SimplifiedLayerNormalization"),
}


@dataclass
class Counts:
    """The nodes of one optimized model by kind, and those among them that depend on stored tensors only."""

    nodes: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    values: int = 0  # that the latter read


def optimized_counts(runner: Runner, model: Path, limits: Limits) -> Counts | None:
    """Count the nodes of a model as onnxruntime would run it; None where it does not tell."""
    try:
        target = runner.optimized(model, limits=limits)
        if target.stat().st_size > _LARGEST:
            return None
        return counted(ModelProto.FromString(target.read_bytes()))
    except (RunFailed, OSError):
        return None


def counted(model: ModelProto) -> Counts:
    counts = Counts()
    _count(model.graph, {}, counts)
    return counts


def _count(graph: GraphProto, around: Mapping[str, int], counts: Counts) -> None:
    """`around` are the stored tensors of the graphs outside, and what was computed of them: their sizes."""
    given = {value.name for value in graph.input}
    stored = {name: size for name, size in around.items() if name not in given}
    stored |= {t.name: prod(t.dims) for t in graph.initializer if t.name not in given}
    for node in graph.node:
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        counts.nodes[kind] += 1
        inputs = [name for name in node.input if name]
        # It gives the same at every run: what draws numbers does not, whatever it depends on.
        if inputs and all(name in stored for name in inputs) and node.op_type not in RANDOM_OPS:
            counts.repeated[kind] += 1
            counts.values += max(stored[name] for name in inputs)
            stored |= dict.fromkeys(filter(None, node.output), 0)
        for inner in subgraphs(node):
            _count(inner, stored, counts)


def compared(before: Counts, after: Counts) -> Optimized:
    fell = {kind for kind in before.nodes if after.nodes[kind] < before.nodes[kind]}
    rose = {kind for kind in after.nodes if after.nodes[kind] > before.nodes[kind]}
    rose -= set(after.repeated)
    lowest = min((rank(kind) for kind in rose if rank(kind)), default=3)
    lost = {kind for kind in fell if rank(kind) > max(lowest, 1)}
    grew = _work(after) > _work(before)
    instead = {kind for kind in rose if rank(kind)} if lost or grew else set()
    more = {kind for kind in after.repeated if after.repeated[kind] > before.repeated[kind]}
    return Optimized(
        nodes_before=before.nodes.total(),
        nodes_after=after.nodes.total(),
        lost=_listed(lost, before.nodes, after.nodes),
        instead=_listed(instead, before.nodes, after.nodes),
        repeated=_listed(more, before.repeated, after.repeated),
        repeated_values=max(0, after.values - before.values) if more else 0,
    )


def rank(kind: str) -> int:
    """How much of its own making onnxruntime has in it: layouts of the processor most, helpers none."""
    op = kind.rpartition(".")[2]
    if op in _HELPERS:
        return 0
    if kind.startswith("com.microsoft.nchwc."):
        return 3
    return 2 if kind.startswith("com.microsoft.") or op in _FUSED else 1


def _work(counts: Counts) -> int:
    plain = sum(count for kind, count in counts.nodes.items() if rank(kind))
    return plain - sum(count for kind, count in counts.repeated.items() if rank(kind))


def _listed(kinds: Collection[str], before: Counter[str], after: Counter[str]) -> tuple[OpCount, ...]:
    ordered = sorted(kinds, key=lambda kind: (-abs(after[kind] - before[kind]), kind))
    return tuple(OpCount(op=kind, before=before[kind], after=after[kind]) for kind in ordered[:_SHOWN])
