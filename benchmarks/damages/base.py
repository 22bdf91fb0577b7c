"""What all damages share: where in a model they strike, and how a stored value is read and written."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from onnx_ci.model.graph import Body, bodies, tensors

Array = NDArray[Any]
Item = TypeVar("Item")
PLACES = ("largest", "middle", "last", "random")
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
WEIGHTS = (*FLOATS, TensorProto.INT8, TensorProto.UINT8)
FEWEST = 8  # elements of a weight: what is smaller is a shape or a scalar


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where to strike: the largest of what there is, the middle, the last or any."""

    kind: str
    rng: np.random.Generator

    def pick(self, items: Sequence[Item], size: Callable[[Item], int] = lambda _: 0) -> Item | None:
        if not items:
            return None
        if self.kind == "largest":
            return max(items, key=size)
        at = {"middle": len(items) // 2, "last": len(items) - 1}.get(self.kind)
        return items[int(self.rng.integers(len(items))) if at is None else at]


@dataclass(frozen=True, kw_only=True)
class Damage:
    """`strike` edits a model in place; False where there is nothing it could be done to.
    Some strike one place only, so that another choice would be the same model again."""

    name: str
    strike: Callable[[ModelProto, Place], bool]
    once: bool = False


def damaged(model: ModelProto, damage: Damage, kind: str) -> ModelProto | None:
    """A damaged copy: the same model, damage and place give the same bytes. None where nothing changed."""
    copy = ModelProto()
    copy.CopyFrom(model)
    seed = zlib.crc32(f"{damage.name} {kind}".encode())
    if not damage.strike(copy, Place(kind=kind, rng=np.random.default_rng(seed))):
        return None
    return copy


def weights(model: ModelProto, types: Sequence[int] = FLOATS, rank: int = 1) -> list[TensorProto]:
    """Stored tensors large enough to be weights, in the order of the file."""
    return [
        tensor
        for tensor in tensors(model)
        if tensor.data_type in types and len(tensor.dims) >= rank and elements(tensor) >= FEWEST
    ]


def scalars(model: ModelProto, types: Sequence[int]) -> list[TensorProto]:
    return [tensor for tensor in tensors(model) if tensor.data_type in types and elements(tensor) == 1]


def elements(tensor: TensorProto) -> int:
    return int(np.prod(tensor.dims, dtype=np.int64))


def values(tensor: TensorProto) -> Array:
    return np.array(numpy_helper.to_array(tensor))


def store(tensor: TensorProto, array: Array) -> bool:
    """Whether the stored bytes are others now."""
    before = values(tensor)
    new = np.ascontiguousarray(array.astype(before.dtype)).reshape(before.shape)
    if new.tobytes() == before.tobytes():
        return False
    tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))
    return True


def nodes(model: ModelProto, *ops: str) -> list[tuple[Body, NodeProto]]:
    return [(body, node) for body in bodies(model) for node in body.node if not ops or node.op_type in ops]


def constants(model: ModelProto) -> dict[str, TensorProto]:
    """Stored tensors by the name under which nodes read them."""
    found = {tensor.name: tensor for body in bodies(model) for tensor in getattr(body, "initializer", ())}
    for _, node in nodes(model, "Constant"):
        for attribute in node.attribute:
            if attribute.name == "value":
                found[node.output[0]] = attribute.t
    return found


def reads(model: ModelProto, ops: Sequence[str], index: int) -> Iterator[tuple[NodeProto, TensorProto]]:
    """Nodes of these kinds whose input number `index` is a stored tensor, and that tensor."""
    known = constants(model)
    for _, node in nodes(model, *ops):
        if len(node.input) > index and node.input[index] in known:
            yield node, known[node.input[index]]


def attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((one for one in node.attribute if one.name == name), None)


def set_attribute(node: NodeProto, name: str, value: object) -> None:
    if (old := attribute(node, name)) is not None:
        node.attribute.remove(old)
    node.attribute.append(onnx.helper.make_attribute(name, value))


def on_weight(
    change: Callable[[Array, np.random.Generator], Array | None],
    *,
    types: Sequence[int] = FLOATS,
    rank: int = 1,
) -> Callable[[ModelProto, Place], bool]:
    """A damage of one weight: `change` gives its new values, or None where they can't be damaged so."""

    def strike(model: ModelProto, place: Place) -> bool:
        found = list(weights(model, types, rank))
        while (tensor := place.pick(found, elements)) is not None:
            after = change(values(tensor), place.rng)
            if after is not None and store(tensor, after):
                return True
            found.remove(tensor)  # this one can't be damaged so, another may
        return False

    return strike
