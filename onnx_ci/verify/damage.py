"""A model damaged on purpose: if the check does not notice, it would notice nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, numpy_helper

from onnx_ci.model.container import Model, element_count
from onnx_ci.model.dtypes import BITS
from onnx_ci.model.graphs import tensors
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
_WIDEST = 3e4  # fits into every float type but those of 8 bits
_OFF = 0.3  # of its value: how far a blurred weight is off


def reversed_order(values: Array) -> Array:
    """The same values from last to first."""
    return np.asarray(values.reshape(-1)[::-1].reshape(values.shape))


def strongly(values: Array) -> Array:
    """Nothing is left of it: order, signs, size and offset are others. Works for one number, for zeros
    and for what is the same all over."""
    if not is_float(values.dtype):
        return _other_integers(values)
    flat = values.reshape(-1)[::-1].astype(np.float64)
    flat = np.where(np.isfinite(flat), flat, 0.0)
    signs = np.where(np.arange(flat.size) % 2, 1.0, -1.0)
    made = np.clip(signs * (_STRONG * np.abs(flat) + 1.0), -_WIDEST, _WIDEST)
    return _typed(made, values)


def randomly(values: Array) -> Array:
    """Other numbers altogether, of the size that these have; the same ones each time."""
    if not is_float(values.dtype):
        return _other_integers(values, share=4)
    flat = values.reshape(-1).astype(np.float64)
    flat = np.clip(np.where(np.isfinite(flat), flat, 0.0), -_WIDEST, _WIDEST)
    noise = np.random.default_rng(0).standard_normal(flat.size)
    return _typed(np.clip(2 * noise * (np.abs(flat).max(initial=0.0) or 1.0), -_WIDEST, _WIDEST), values)


def negated(values: Array) -> Array:
    """Floats with the other sign; no other type is touched."""
    return np.asarray(-values) if is_float(values.dtype) else values


def blurred(values: Array) -> Array:
    """Floats that are off by a third, now up and now down: signs, zeros and sizes stay what they were."""
    if not is_float(values.dtype):
        return values
    flat = values.reshape(-1)
    finite = np.where(np.isfinite(flat), flat, np.zeros_like(flat)).astype(np.float64)
    factors = np.where(np.random.default_rng(0).random(flat.size) < 0.5, 1.0 - _OFF, 1.0 + _OFF)
    made = _typed(np.clip(finite * factors, -_WIDEST, _WIDEST), values).reshape(-1)
    kept = ~np.isfinite(flat) | (np.abs(finite) > _WIDEST)  # masks stay masks
    off = np.where(kept, flat, made).astype(values.dtype)
    return np.asarray(off.reshape(values.shape))


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


def _typed(made: Array, like: Array) -> Array:
    limit = 240.0 if like.itemsize == 1 else _WIDEST  # what a float of 8 bits holds
    typed = np.clip(made, -limit, limit).astype(like.dtype)
    return np.asarray(typed.reshape(like.shape))


def _bits(values: Array) -> Array:
    return np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
