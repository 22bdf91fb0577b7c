"""Weights whose numbers are wrong: zeroed, scaled, negated, rounded too far, out of range."""

from __future__ import annotations

import numpy as np

from damages.base import WEIGHTS, Array, Damage, on_weight

Rng = np.random.Generator


def zeroed(array: Array, _: Rng) -> Array:
    return np.zeros_like(array)


def zeroed_channel(array: Array, rng: Rng) -> Array:
    return _channel(array, rng, 0)


def negated_channel(array: Array, rng: Rng) -> Array:
    return _channel(array, rng, -1)


def _channel(array: Array, rng: Rng, factor: int) -> Array:
    """The channel along the shorter end, as most layouts have outputs first or last."""
    axis = 0 if array.shape[0] <= array.shape[-1] else array.ndim - 1
    at = (slice(None),) * axis + (int(rng.integers(array.shape[axis])),)
    array[at] = array[at] * factor
    return array


def truncated(array: Array, _: Rng) -> Array:
    flat = array.reshape(-1)
    flat[flat.size * 3 // 4 :] = 0
    return flat


def outlier(array: Array, rng: Rng) -> Array | None:
    largest = float(np.abs(array).max())
    if not 0 < largest < 100:  # what is huge already, such as a mask, would not stand out
        return None
    array.reshape(-1)[rng.integers(array.size)] = 100 * largest
    return array


def not_a_number(array: Array, rng: Rng) -> Array:
    array.reshape(-1)[rng.integers(array.size)] = np.nan
    return array


def noisy(array: Array, rng: Rng) -> Array:
    return np.asarray(array + 0.2 * array.std() * rng.standard_normal(array.shape))


def few_mantissa_bits(array: Array, _: Rng) -> Array:
    """Two bits are left of the mantissa, and the rest is cut off."""
    mantissa, exponent = np.frexp(array)
    return np.asarray(np.ldexp(np.trunc(mantissa * 8) / 8, exponent))


def clipped(array: Array, _: Rng) -> Array | None:
    """8 bits with one scale for the whole tensor, chosen too small, so that large values are cut."""
    scale = float(np.abs(array).max()) / 4 / 127
    return np.clip(np.round(array / scale), -127, 127) * scale if 0 < scale < 1e3 else None


def zero_point_off_by_one(array: Array, _: Rng) -> Array | None:
    """Integers moved by one; floats by one step of an 8-bit code."""
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        return np.clip(array.astype(np.int64) + 1, limits.min, limits.max)
    scale = float(array.max() - array.min()) / 255
    return np.round(array / scale) * scale + scale if 0 < scale < 1e3 else None


def wrong_axis(array: Array, _: Rng) -> Array | None:
    """8 bits a channel, and the scales multiplied along the other axis when read back."""
    rows = array.reshape(array.shape[0], -1)
    scales = np.abs(rows).max(axis=1, keepdims=True) / 127
    if not scales.all() or min(rows.shape) < 2:
        return None
    return np.asarray(np.round(rows / scales) * np.resize(scales, rows.shape[1]))


NUMBERS = (
    Damage(name="zeroed tensor", strike=on_weight(zeroed, types=WEIGHTS)),
    Damage(name="zeroed channel", strike=on_weight(zeroed_channel, types=WEIGHTS, rank=2)),
    Damage(name="negated channel", strike=on_weight(negated_channel, rank=2)),
    Damage(name="negated tensor", strike=on_weight(lambda array, _: -array)),
    Damage(name="doubled", strike=on_weight(lambda array, _: array * 2)),
    Damage(name="halved", strike=on_weight(lambda array, _: array * 0.5)),
    Damage(name="scaled by 1.05", strike=on_weight(lambda array, _: array * 1.05)),
    Damage(name="truncated", strike=on_weight(truncated, types=WEIGHTS)),
    Damage(name="one huge weight", strike=on_weight(outlier)),
    Damage(name="one NaN", strike=on_weight(not_a_number)),
    Damage(name="noise of a fifth", strike=on_weight(noisy)),
    Damage(name="two mantissa bits", strike=on_weight(few_mantissa_bits)),
    Damage(name="8 bits, clipped", strike=on_weight(clipped)),
    Damage(name="zero point off by one", strike=on_weight(zero_point_off_by_one, types=WEIGHTS)),
    Damage(name="scale along the wrong axis", strike=on_weight(wrong_axis, rank=2)),
)
