"""A model damaged on purpose: if the check does not notice, it would notice nothing."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_ci.model.container import Model, element_count
from onnx_ci.model.dtypes import BITS
from onnx_ci.model.graphs import tensors

WEIGHT_TYPES = {
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT4,
    TensorProto.UINT4,
}
MIN_ELEMENTS = 8  # smaller ones are shapes, axes and scalars: damage there stops the model from running


def damaged(model: Model) -> Model | None:
    """A copy with the values of every weight in reverse order; None where there is nothing to damage."""
    copy = model.copy()
    touched = [tensor for tensor in [*tensors(copy.proto), *copy.beside] if _damage(copy, tensor)]
    return copy if touched else None


def _damage(model: Model, tensor: TensorProto) -> bool:
    if tensor.data_type not in WEIGHT_TYPES or element_count(tensor) < MIN_ELEMENTS:
        return False
    width = max(1, BITS[tensor.data_type] // 8)  # two 4-bit values change places together
    values = np.frombuffer(model.raw(tensor), dtype=f"V{width}")
    reverse = values[::-1].tobytes()
    if reverse == values.tobytes():
        return False
    if model.span(tensor) is not None:
        model.set_span(tensor, model.store.put(reverse))
    else:
        for name in ("float_data", "int32_data", "double_data"):
            tensor.ClearField(name)
        tensor.raw_data = reverse
    return True
