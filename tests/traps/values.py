"""Values: numbers that are equal and not the same, that overflow, vanish, or leave no range."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from tests.traps.base import Array, Feed, Trap, Weight, floats, model, raw, rng, trap, weight

LOWEST = np.finfo(np.float32).min


def negative_zero() -> ModelProto:
    """0.0 == -0.0, yet dividing by them gives opposite infinities, which Atan makes visible."""
    text = """g (float[64,64] x) => (float[64,64] y, float[64,64] z, float[64,64] u, float[64,64] v) {
        p = Div(x, P) y = Atan(p) q = Div(x, N) z = Atan(q) r = Div(x, p0) u = Atan(r) s = Div(x, n0) v =
        Atan(s) }"""
    zeros = np.zeros((64, 64), np.float32)
    return model(text, {"P": zeros, "N": -zeros, "p0": np.float32(0.0), "n0": np.float32(-0.0)})


def negative_zero_among_weights() -> ModelProto:
    """Two weights differ in the sign of a single zero."""
    one = weight(64, 64, seed=1)
    one[3, 5] = 0.0
    other = one.copy()
    other[3, 5] = -0.0
    text = """g (float[64,64] x) => (float[64,64] y, float[64,64] z)
        { p = Div(x, A) y = Atan(p) q = Div(x, B) z = Atan(q) }"""
    return model(text, {"A": one, "B": other})


def positive() -> list[Feed]:
    return [{"x": np.abs(weight(64, 64, seed=7, scale=1.0)) + np.float32(0.1)}]


def nan_payloads() -> ModelProto:
    """NaNs with other payloads and signs, and two tensors of equal bytes that do not compare equal."""
    quiet = np.full((64, 64), 0x7FC00000, np.uint32)
    other = quiet | (np.arange(4096, dtype=np.uint32).reshape(64, 64) + 1) | np.uint32(0x80000000)
    text = """g (int64[2] at) => (float[2,64] a, float[2,64] b, float[2,64] c)
        { a = Gather(A, at) b = Gather(B, at) c = Gather(C, at) }"""
    return model(
        text, {"A": quiet.view(np.float32), "B": quiet.view(np.float32), "C": other.view(np.float32)}
    )


def one_nan() -> ModelProto:
    """A weight with one NaN that no output meets: min, max and scales made from it are NaN for all."""
    table = weight(64, 64, seed=1)
    table[63, 63] = np.nan
    return model("g (int64[2] at) => (float[2,64] y) { y = Gather(T, at) }", {"T": table})


def _attention(mask: Array, *, twice: bool = False) -> ModelProto:
    """Scores of 64 positions plus a mask; `twice` adds the mask again, as stacked masks do."""
    again = "m = Add(M, M) k = Clip(m, low, )" if twice else "k = Identity(M)"
    text = f"""g (float[64,64] x) => (float[64,64] y, float[64,64] z) {{ {again}
        s = MatMul(x, W) t = Add(s, k) y = Softmax <axis = -1> (t) z = MatMul(y, V) }}"""
    weights = {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2), "M": mask, "low": LOWEST}
    return model(text, weights if twice else {k: v for k, v in weights.items() if k != "low"})


def infinite_mask() -> ModelProto:
    """A causal mask of -inf: any scale made from it is infinite, and inf times 0 is NaN."""
    return _attention(np.triu(np.full((64, 64), -np.inf, np.float32), 1))


def positive_infinity() -> ModelProto:
    """+inf as "no limit" in a tensor of bounds, used by Min."""
    text = "g (float[64,64] x) => (float[64,64] y) { h = MatMul(x, W) y = Min(h, B) }"
    bounds = np.where(rng(1).random((64, 64)) < 0.5, np.inf, 0.25).astype(np.float32)
    return model(text, {"W": weight(64, 64, seed=1), "B": bounds})


def lowest_mask() -> ModelProto:
    """A mask of the lowest float32 with one row wholly masked: as fp16 it is -inf, and that row NaN."""
    mask = np.triu(np.full((64, 64), LOWEST, np.float32), 1)
    mask[0, 0] = LOWEST
    return _attention(mask)


def lowest_mask_added_twice() -> ModelProto:
    """The lowest float32 added to itself overflows, and is then clipped back."""
    return _attention(np.triu(np.full((64, 64), LOWEST, np.float32), 1), twice=True)


def smallest_normal_mask() -> ModelProto:
    """FLT_MIN itself, the smallest normal number, as a floor against division by zero."""
    text = (
        "g (float[64,64] x) => (float[64,64] y) { h = MatMul(x, W) r = Relu(h) d = Max(r, F) y = Div(r, d) }"
    )
    floor = np.full((64, 64), np.finfo(np.float32).tiny, np.float32)
    return model(text, {"W": weight(64, 64, seed=1), "F": floor})


def flat_channels() -> ModelProto:
    """All-zero and constant columns in one weight, rows in another: a range of no width, a scale of zero."""
    columns, rows = weight(64, 64, seed=1), weight(64, 64, seed=2)
    columns[:, 5], columns[:, 9] = 0.0, 0.25
    rows[7, :], rows[11, :] = 0.0, -0.5
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }"
    return model(text, {"W": columns, "V": rows})


def zero_weight() -> ModelProto:
    """A weight of nothing but zeros, one of nothing but one number, and one of negative zeros."""
    text = """g (float[2,64] x) => (float[2,64] y) { a = MatMul(x, Z) b = MatMul(x, C) c = MatMul(x, N)
        d = Add(a, b) e = Add(c, d) f = MatMul(x, W) y = Add(e, f) }"""
    zeros = np.zeros((64, 64), np.float32)
    full = np.full((64, 64), 0.3, np.float32)
    return model(text, {"Z": zeros, "C": full, "N": -zeros, "W": weight(64, 64, seed=1)})


def flat_convolution() -> ModelProto:
    """A convolution with dead and constant filters and a dead input channel."""
    filters = weight(32, 16, 3, 3, seed=1)
    filters[4], filters[9], filters[:, 2] = 0.0, 0.125, 0.0
    text = "g (float[1,16,6,6] x) => (float[1,32,4,4] y) { y = Conv(x, W, b) }"
    return model(text, {"W": filters, "b": weight(32, seed=2)})


def denormals() -> ModelProto:
    """Denormal weights that a huge input makes visible; a scale of max / 127 underflows to zero."""
    tiny = (rng(1).integers(-9, 10, (64, 64)) * np.float64(1.5e-45)).astype(np.float32)
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = Mul(h, up) }"
    return model(text, {"W": tiny, "up": np.full(64, 1e8, np.float32)})


def huge() -> list[Feed]:
    return [{"x": weight(2, 64, seed=7, scale=1e36)}]


def denormal_channel() -> ModelProto:
    """One channel of denormals and 1e-20 beside ordinary ones."""
    values = weight(64, 64, seed=1)
    values[:, 3] *= np.float32(1e-39)
    values[:, 4] *= np.float32(1e-20)
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = Mul(h, up) }"
    up = np.ones(64, np.float32)
    up[3], up[4] = 1e38, 1e20
    return model(text, {"W": values, "up": up})


def one_outlier() -> ModelProto:
    """One number is 10,000 times the others: one scale for the whole tensor rounds them all to zero."""
    values = weight(64, 64, seed=1)
    values[10, 20] = 1000.0
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = Tanh(h) }"
    return model(text, {"W": values})


def past_fp16() -> ModelProto:
    """Weights of 1e6 and 65520, which fp16 holds as infinity, and a product that brings them back."""
    values = weight(64, 64, seed=1)
    values[:, ::7] *= np.float32(1e7)
    values[0, 1] = 65520.0
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) k = MatMul(h, V) y = Mul(k, down) }"
    return model(text, {"W": values, "V": weight(64, 64, seed=2), "down": np.float32(1e-6)})


def empty_tensors() -> ModelProto:
    """Tensors with a 0 in the shape, of other shapes and types: no minimum, no bytes, all equal as bytes."""
    text = """g (float[2,64] x) => (float[2,64] y, float[0,4] a, float[4,0] b, int64[0] c, float[2,0] d) {
        e = Concat <axis = 0> (E, x) h = MatMul(e, W) f = Concat <axis = 1> (h, F) y = Identity(f)
        a = Neg(A) b = Neg(B) c = Neg(C) d = MatMul(x, D) }"""
    shapes = {"E": (0, 64), "F": (2, 0), "A": (0, 4), "B": (4, 0), "D": (64, 0)}
    weights: dict[str, Array] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return model(text, {**weights, "C": np.zeros(0, np.int64), "W": weight(64, 64, seed=1)})


def empty_without_raw_data() -> ModelProto:
    """Empty tensors with an empty raw_data, with none, and as the "not given" inputs of Resize."""
    text = """g (float[2,64] x) => (float[2,128] y, float[2,64] z)
        { h = MatMul(x, W) y = Resize(h, roi, scales, sizes) z = Concat <axis = 0> (h, E) }"""
    without = raw(1, (0,), b"")
    without.ClearField("raw_data")
    weights: dict[str, Weight] = {"roi": raw(1, (0,), b""), "scales": without, "sizes": np.array([2, 128])}
    return model(text, {**weights, "E": np.zeros((0, 64), np.float32), "W": weight(64, 64, seed=1)})


def floats_that_are_indices() -> ModelProto:
    """Whole numbers up to 4095 in float32 that are cast to indices: fp16 and int8 name another row."""
    text = """g (float[2,64] x) => (float[2,64] y)
        { i = Cast <to = 7> (P) f = Gather(flat, i) W = Reshape(f, square) y = MatMul(x, W) }"""
    order = rng(1).permutation(4096).astype(np.float32)
    return model(text, {"P": order, "flat": weight(4096, seed=2), "square": np.array([64, 64], np.int64)})


def large_integers() -> ModelProto:
    """int64 tensors: one that fits int32, one that does not, one of indices, one with the extreme values."""
    text = """g (float[2,64] x, int64[2] at) => (float[2,64] y, int64[2,64] a, int64[2,64] b, int64[2] c)
        { f = GatherElements(W, I) y = MatMul(x, f) a = Gather(A, at) b = Gather(B, at) c = Gather(C, at) }"""
    fits = rng(1).integers(-(2**31), 2**31, (64, 64))
    weights: dict[str, Array] = {"A": fits, "B": fits << 20, "I": rng(2).integers(0, 64, (64, 64))}
    weights["C"] = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min], np.int64)
    return model(text, {**weights, "W": weight(64, 64, seed=1)})


def tiny_epsilon() -> ModelProto:
    """1e-12 as a floor in a tensor of many elements: fp16 and int8 make it 0, and 0 / 0 is NaN."""
    text = """g (float[64,64] x) => (float[64,64] y) { h = MatMul(x, W) r = Relu(h) d = Add(r, E) y =
        Div(r, d) }"""
    return model(text, {"W": weight(64, 64, seed=1), "E": np.full((64, 64), 1e-12, np.float32)})


def variance_under_a_root() -> ModelProto:
    """Variances from 1e-8 up: rounded to zero they divide by almost nothing, below zero they are NaN."""
    text = """g (float[1,4096] x) => (float[1,4096] y)
        { n = BatchNormalization <epsilon = 0.0> (x, s, b, m, v) y = Tanh(n) }"""
    variance = np.geomspace(1e-8, 10.0, 4096, dtype=np.float32)
    weights = {"s": weight(4096, seed=1), "b": weight(4096, seed=2), "m": weight(4096, seed=3)}
    return model(text, {**weights, "v": variance})


def nearly_equal() -> ModelProto:
    """Two weights one unit in the last place apart at one place: close is not equal."""
    one = weight(64, 64, seed=1)
    other = one.copy()
    other[5, 5] = np.nextafter(other[5, 5], np.float32(1))
    text = "g (int64[2] at) => (float[2,64] y, float[2,64] z) { y = Gather(A, at) z = Gather(B, at) }"
    return model(text, {"A": one, "B": other})


def rows(*at: int) -> list[Feed]:
    return [{"at": np.array(at, np.int64)}]


VALUES: tuple[Trap, ...] = (
    trap(negative_zero, feeds=positive),
    trap(negative_zero_among_weights, feeds=positive),
    trap(nan_payloads, finite=False),
    trap(one_nan),
    trap(infinite_mask),
    trap(positive_infinity),
    trap(lowest_mask),
    trap(lowest_mask_added_twice),
    trap(smallest_normal_mask),
    trap(flat_channels),
    trap(zero_weight),
    trap(flat_convolution),
    trap(denormals, feeds=huge),
    trap(denormal_channel),
    trap(one_outlier, feeds=floats(2, 64)),
    trap(past_fp16),
    trap(empty_tensors),
    trap(empty_without_raw_data),
    trap(floats_that_are_indices),
    trap(large_integers),
    trap(tiny_epsilon),
    trap(variance_under_a_root),
    trap(nearly_equal, feeds=lambda: rows(5, 6)),
)
