"""Inputs that are more than a tensor: sequences, optionals and maps, made of the tensors they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto

from onnx_ci.inputs.dims import Dim, Input
from onnx_ci.inputs.roles import Role
from onnx_ci.inputs.values import fill
from onnx_ci.verify.drawing import Sample
from onnx_ci.verify.dtypes import is_text, numpy_dtype
from onnx_ci.verify.exchange import Value
from onnx_ci.verify.vocabulary import of_type

_ITEMS = 3  # of a sequence
_ENTRIES = 4  # of a map whose keys are not known
Unwrapped = tuple[TypeProto.Tensor, tuple[str, ...], "np.dtype[Any] | None"]


def unwrapped(kind: TypeProto) -> Unwrapped | None:
    """The tensor inside, what it is in, and the type of a map's keys; None where it can't be fed."""
    wraps: list[str] = []
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        wraps.append(which.removesuffix("_type"))
        kind = getattr(kind, which).elem_type
    if which == "tensor_type" and len(wraps) == len(set(wraps)):
        return kind.tensor_type, tuple(wraps), None
    if which == "map_type" and wraps in ([], ["sequence"]):
        value = kind.map_type.value_type
        single = value.tensor_type if value.WhichOneof("value") == "tensor_type" else None
        keys = numpy_dtype(kind.map_type.key_type)
        if single is not None and keys is not None:
            scalar = TypeProto.Tensor(elem_type=single.elem_type or TensorProto.FLOAT)
            scalar.shape.dim.add().dim_value = _ENTRIES
            return scalar, (*wraps, "map"), keys
    return None


def wrapped(one: Input, dims: tuple[Dim, ...], role: Role, sample: Sample) -> Value:
    """The value to feed; an optional is there, since what is absent computes nothing."""
    count = _ITEMS if "sequence" in one.wraps else 1
    items = [fill(one, dims, role, sample, item=item).values for item in range(count)]
    made = [_mapped(one, role, item) for item in items] if one.keys is not None else items
    return made if "sequence" in one.wraps else made[0]


def _mapped(one: Input, role: Role, values: Any) -> dict[Any, Any]:
    text = one.keys is not None and is_text(one.keys)
    known = of_type(role.known, str if text else int)
    keys = known or [f"key{i}" if text else i for i in range(_ENTRIES)]
    return dict(zip(keys, np.resize(values, len(keys)).tolist(), strict=True))
