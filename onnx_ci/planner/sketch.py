"""A weight in a smaller form, on paper: what it takes and what it stands for, with nothing stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.evaluator import evaluate
from onnx_ci.methods.rounding import Array
from onnx_ci.methods.weights import Encode, Encoder
from onnx_ci.model.container import Model
from onnx_ci.model.graph import Site, opset


@dataclass(frozen=True)
class Sketched:
    """The values that a form stands for, and the parts it would store."""

    values: Array
    parts: Mapping[str, Array]
    overhead: int  # bytes of nodes and names
    shared: int  # bytes that all weights of this form use together


class Sketch(Encoder):
    """Collects parts as arrays. Several may be at work at once: nothing of the model is touched."""

    def __init__(self, model: Model, site: Site) -> None:
        super().__init__(model, site, set(), {}, rename=False)
        self.arrays: dict[str, Array] = {}
        self.shared: dict[str, Array] = {}

    def store(self, suffix: str, values: Array, data_type: int = 0) -> str:  # noqa: ARG002
        name = self.name(suffix)
        self.arrays[name] = values
        return name

    def store_packed(self, suffix: str, data_type: int, shape: tuple[int, ...], data: bytes) -> str:
        """Two codes a byte, the first in the low bits."""
        pairs = np.frombuffer(data, np.uint8)
        codes = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[: int(np.prod(shape))]
        return self.store(suffix, codes.reshape(shape), data_type)

    def table(self, name: str, values: Array) -> str:
        self.shared[name] = values
        return name


def sketched(model: Model, site: Site, encode: Encode, values: Array) -> Sketched | None:
    """None where the form is not for such values."""
    sketch = Sketch(model, site)
    nodes = encode(sketch, values)
    if nodes is None:
        return None
    made = evaluate(nodes, {**sketch.shared, **sketch.arrays}, opset=opset(model.proto))[sketch.output]
    overhead = sum(node.ByteSize() + 4 for node in nodes) + sum(len(name) + 12 for name in sketch.arrays)
    shared = sum(table.nbytes for table in sketch.shared.values())
    return Sketched(np.ascontiguousarray(made, dtype=np.float32), sketch.arrays, overhead, shared)
