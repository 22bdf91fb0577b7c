"""A model damaged on purpose: if the check does not notice, it would notice nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, numpy_helper

from onnx_ci.model.container import Model, element_count
from onnx_ci.model.dtypes import BITS
from onnx_ci.model.graph import tensors
from onnx_ci.verify.dtypes import Array, integer_limits, is_float

_FLOATS = {
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
}
_CODES = {
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT16,
    TensorProto.UINT16,
    TensorProto.INT4,
    TensorProto.UINT4,
}
WEIGHT_TYPES = _FLOATS | _CODES
FEW = 8  # elements; what has fewer is often a shape, an axis or a bound: damage there may stop the model
BYTE = 8  # bits
_CODE = 2  # bytes that a code has at most
_STRONG = 4.0
_WIDEST, _WIDEST_BYTE = 3e4, 240.0  # fit into every float type, and into those of 8 bits
_OFF = 0.3  # of its value: how far a blurred weight is off


def reversed_order(values: Array) -> Array:
    """The same values from last to first."""
    return np.asarray(values.reshape(-1)[::-1].reshape(values.shape))


def strongly(values: Array) -> Array:
    """Nothing is left of it: order, signs, size and offset are others. Works for one number, for zeros
    and for what is the same all over."""
    if not is_float(values.dtype):
        return _other_integers(values)
    made = np.abs(_finite(values)[::-1])
    made *= _STRONG
    made += 1.0
    np.negative(made[::2], out=made[::2])
    return _typed(made, values)


def randomly(values: Array) -> Array:
    """Other numbers altogether, of the size that these have; the same ones each time."""
    if not is_float(values.dtype):
        return _other_integers(values, share=4)
    size = float(np.abs(_finite(values)).max(initial=0.0)) or 1.0
    return _typed(np.random.default_rng(0).standard_normal(values.size, np.float32) * (2 * size), values)


def negated(values: Array) -> Array:
    """Floats with the other sign; no other type is touched."""
    return np.asarray(-values) if is_float(values.dtype) else values


def blurred(values: Array) -> Array:
    """Floats that are off by a third, now up and now down: signs, zeros and masks stay what they were."""
    if not is_float(values.dtype):
        return values
    plain = _finite(values)
    factors = np.where(np.random.default_rng(0).random(plain.size, np.float32) < 0.5, 1 - _OFF, 1 + _OFF)
    made = _typed(plain * factors.astype(plain.dtype), values)
    return np.where(plain.reshape(values.shape) == values, made, values)


# Each may run, or show, where the one before does not: codes that are indices, sizes and roots that are
# floats, weights that read the same from either end.
DAMAGES: tuple[Callable[[Array], Array], ...] = (reversed_order, negated, blurred, strongly)


def damaged(model: Model, how: Callable[[Array], Array] = reversed_order) -> Model | None:
    """A copy with every weight damaged; None where there is nothing to damage. What has only a
    few elements is left alone, unless there is nothing else."""
    for least in (FEW, 1):
        copy = model.copy()
        touched = [one for one in [*tensors(copy.proto), *copy.beside] if _damage(copy, one, how, least)]
        if touched:
            return copy
    return None


def _damage(model: Model, tensor: TensorProto, how: Callable[[Array], Array], least: int) -> bool:
    kinds = WEIGHT_TYPES if least >= FEW else _FLOATS
    if tensor.data_type not in kinds or element_count(tensor) < least:
        return False
    values = model.array(tensor)
    other = how(values)
    if np.array_equal(_bits(other), _bits(values)):
        return False
    put(model, tensor, other)
    return True


def put(model: Model, tensor: TensorProto, values: Array) -> None:
    """Give a tensor other values of the type and shape it has."""
    packed = BITS.get(tensor.data_type, 8) < BYTE  # several elements share one
    model.set_raw(tensor, bytes(numpy_helper.from_array(values).raw_data) if packed else values.tobytes())


def _other_integers(values: Array, *, share: int = 2) -> Array:
    """In the other order. Codes are moved by a share of their range, and stay codes; larger integers, which
    may be sizes or indices, by one."""
    turned = values.reshape(-1)[::-1]
    if values.dtype == np.bool_:
        made: Array = ~values
    elif values.itemsize > _CODE:
        made = turned + turned.dtype.type(1 if share == 2 else 2)
    else:
        low, high = integer_limits(values.dtype)
        count = high - low + 1
        made = low + (turned.astype(np.int64) - low + count // share) % count
    return np.asarray(made.astype(values.dtype).reshape(values.shape))


def _finite(values: Array) -> Array:
    """All in one row, in a type to compute with; a mask's extremes are cut to what every type holds."""
    plain = values.reshape(-1).astype(np.float64 if values.dtype == np.float64 else np.float32)
    np.nan_to_num(plain, copy=False, posinf=_WIDEST, neginf=-_WIDEST)
    return np.clip(plain, -_WIDEST, _WIDEST, out=plain)


def _typed(made: Array, like: Array) -> Array:
    limit = _WIDEST_BYTE if like.itemsize == 1 else _WIDEST
    kept = np.clip(made, -limit, limit, out=made)
    return np.asarray(kept.astype(like.dtype, copy=False).reshape(like.shape))


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
