"""Tensors that are stored in another form: whether computing them gives the same bits again.

onnxruntime computes them, as it does when a session starts; no input has to reach them for that."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_ci.doubt.stored import Stored
from onnx_ci.model.container import Model
from onnx_ci.model.graph import Scope, constant_value, defined_twice
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto, TensorProto
from onnx_ci.model.save import write_model
from onnx_ci.verify.client import RunFailed
from onnx_ci.verify.dtypes import Array, is_float
from onnx_ci.verify.metrics import distance, identical
from onnx_ci.verify.verifier import Verifier

# What weights are rebuilt with: each gives the same for the same, in every session.
OPS = {
    *("Cast", "Identity", "Constant", "ConstantOfShape", "DequantizeLinear"),
    *("Add", "Sub", "Mul", "Div", "BitShift", "BitwiseAnd", "Where"),
    *("Gather", "Slice", "Concat", "Tile", "Expand", "Reshape", "Transpose", "Squeeze", "Unsqueeze"),
}


Key = tuple[int, str]


class _Varies(Exception):
    """A value that depends on more than what is stored."""


@dataclass(frozen=True)
class Rebuilt:
    """Tensors of one model that another computes, bit for bit, and what it stores to compute them from."""

    keys: frozenset[Key] = frozenset()
    parts: frozenset[str] = frozenset()
    far: frozenset[Key] = frozenset()  # not the same, and not so much like it as was asked for


def rebuilt(
    before: Model, items: Sequence[Stored], after: Model, verifier: Verifier, folder: Path, share: float
) -> Rebuilt:
    """Which of these tensors of `before` the other model computes from what it stores, or holds; far is what
    is off by more than this share of its size."""
    keys: set[Key] = set()
    parts: set[str] = set()
    far: set[Key] = set()
    root = Scope(after.proto.graph)
    unclear = defined_twice(root)
    for scope in root.nested():
        for item in items:
            graph = _graph(scope, item) if item.name in scope.defined.keys() - unclear else None
            values = _computed(after, graph, item.name, verifier, folder) if graph else None
            if graph is None or values is None:
                continue
            own = before.array(item.tensor)
            if identical(own, values):
                keys.add(item.key)
                parts.update(_stored(graph))
            elif not _is_near(own, values, share):
                far.add(item.key)
    return Rebuilt(frozenset(keys), frozenset(parts), frozenset(far))


def _is_near(one: Array, two: Array, share: float) -> bool:
    if one.shape != two.shape or not is_float(one.dtype) or not is_float(two.dtype):
        return False
    return 20 * math.log10(1 / share) <= distance(one, two).sqnr


def _stored(graph: GraphProto) -> Iterator[str]:
    yield from (tensor.name for tensor in graph.initializer)
    yield from (node.output[0] for node in graph.node if node.op_type == "Constant")


def _graph(scope: Scope, item: Stored) -> GraphProto | None:
    graph = GraphProto(name="decoded")
    try:
        _collect(scope, item.name, graph, set())
    except _Varies:
        return None
    graph.output.add(name=item.name).type.tensor_type.elem_type = item.tensor.data_type
    return graph


def _computed(after: Model, graph: GraphProto, name: str, verifier: Verifier, folder: Path) -> Array | None:
    proto = ModelProto(ir_version=after.proto.ir_version, opset_import=after.proto.opset_import, graph=graph)
    folder.mkdir(parents=True)
    try:
        write_model(Model(after.path, proto, after.store), folder / "decoded.onnx")
        outputs = verifier.runner.run(folder / "decoded.onnx", [{}], limits=verifier.limits)
        return outputs[0].get(name)
    except RunFailed:
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _collect(scope: Scope, name: str, graph: GraphProto, done: set[str]) -> None:
    """All that a value is computed from, each after what it needs."""
    if name in done or not name:
        return
    done.add(name)
    home = next((outer for outer in scope.chain() if name in outer.defined), None)
    if home is None or any(value.name == name for value in getattr(home.body, "input", ())):
        raise _Varies
    for tensor in _initializers(home, name):
        graph.initializer.append(tensor)
        return
    node = next((node for node in home.body.node if name in node.output), None)
    if node is None or not _is_steady(node):
        raise _Varies
    for given in node.input:
        _collect(home, given, graph, done)
    done.update(node.output)
    graph.node.append(node)


def _initializers(scope: Scope, name: str) -> Iterator[TensorProto]:
    if isinstance(scope.body, GraphProto):
        yield from (tensor for tensor in scope.body.initializer if tensor.name == name)


def _is_steady(node: NodeProto) -> bool:
    standard = node.domain in ("", "ai.onnx") and node.op_type in OPS
    return standard and (node.op_type != "Constant" or constant_value(node) is not None)
