"""Which stored tensors of a model another one no longer holds bit for bit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from onnx_ci.doubt.stored import Stored, stored
from onnx_ci.model.container import Model, element_count
from onnx_ci.model.digest import tensor_key
from onnx_ci.model.graph import all_names
from onnx_ci.model.proto import TensorProto
from onnx_ci.verify.damage import FEW, WEIGHT_TYPES
from onnx_ci.verify.dtypes import Array

PART = 0.9  # of its elements: what differs in more than these differs as a whole
Content = tuple[int, bytes]  # the type of a tensor, and a digest of its bytes


def changed(before: Model, after: Model) -> list[Stored]:
    """What `before` stores and `after` does not: other values under the same name, or no longer there.

    Numbers that are no weights (shapes, axes, indices) are never rounded, only computed with in advance or
    stored in another type: they count where their name stands for other values. So do tensors of a few
    numbers, unless their name is gone for good: they were part of the graph, an epsilon or a bound.
    """
    held = _Held(after)
    return [item for item in stored(before) if not held.holds(before, item)]


def partly(before: Model, items: Sequence[Stored], after: Model) -> dict[tuple[int, str], Array]:
    """Of tensors that are only partly others: where. Damage elsewhere in them would show nothing of that."""
    held: dict[str, list[TensorProto]] = defaultdict(list)
    for other in stored(after):
        held[other.name].append(other.tensor)
    found = {}
    for item in items:
        for tensor in held[item.name]:
            where = _differing(before.array(item.tensor), after.array(tensor))
            if where is not None:
                found[item.key] = where
    return found


def _differing(one: Array, two: Array) -> Array | None:
    if one.shape != two.shape or one.dtype != two.dtype:
        return None
    where = np.asarray((one != two) & ~(_is_nan(one) & _is_nan(two)))
    return where if 0 < np.count_nonzero(where) <= PART * where.size else None


def _is_nan(values: Array) -> Array:
    return np.asarray(values != values)


class _Held:
    """What a model stores, by name and altogether; read only as far as it takes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.by_name: dict[str, list[TensorProto]] = defaultdict(list)
        for name, tensor in [
            *((item.name, item.tensor) for item in stored(model)),
            *((tensor.name, tensor) for tensor in model.beside),
        ]:
            self.by_name[name].append(tensor)
        self.names = all_names(model.proto)

    def holds(self, other: Model, item: Stored) -> bool:
        tensor = item.tensor
        if element_count(tensor) == 0 or tensor.data_type == TensorProto.STRING:
            return True
        known = self.by_name.get(item.name)
        if known:
            return any(self._same(other, tensor, one) for one in known)
        weight = tensor.data_type in WEIGHT_TYPES
        if not weight or (element_count(tensor) < FEW and item.name not in self.names):
            return True
        return self._is_there(other, tensor)

    def _same(self, other: Model, one: TensorProto, two: TensorProto) -> bool:
        if one.data_type == two.data_type:
            return self._shares(other, one, two) or _content(other, one) == _content(self.model, two)
        if one.data_type in WEIGHT_TYPES or two.data_type == TensorProto.STRING:
            return False
        return np.array_equal(other.array(one), self.model.array(two))

    def _shares(self, other: Model, one: TensorProto, two: TensorProto) -> bool:
        """Whether both are the same bytes of the same store: nothing has to be read then."""
        span = other.span(one)
        return other.store is self.model.store and span is not None and span == self.model.span(two)

    def _is_there(self, other: Model, tensor: TensorProto) -> bool:
        """Whether the same bytes are stored anywhere, whatever they are called."""
        span = other.span(tensor)
        shared = span is not None and other.store is self.model.store and span in self._spans
        return shared or _content(other, tensor) in self._contents

    @cached_property
    def _spans(self) -> set[object]:
        return {self.model.span(tensor) for tensors in self.by_name.values() for tensor in tensors}

    @cached_property
    def _contents(self) -> set[Content]:
        found = (tensor for tensors in self.by_name.values() for tensor in tensors)
        return {_content(self.model, one) for one in found if one.data_type in WEIGHT_TYPES}


def _content(model: Model, tensor: TensorProto) -> Content:
    return tensor.data_type, tensor_key(model, tensor)
