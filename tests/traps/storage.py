"""Storage: the many ways to write one tensor, and different tensors that look alike as bytes."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto

from tests.traps.base import Array, Trap, model, raw, rng, trap, weight
from tests.traps.layouts import LAYOUTS

# The last onnxruntime for Python 3.10 loads no int2.
ORT_RUNS_INT2 = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 24)
INT2 = hasattr(TensorProto, "INT2")


def bits(values: Array, *, drop: int = 16) -> Array:
    """The upper bits of float32, which are bfloat16."""
    return (values.astype(np.float32).view(np.uint32) >> drop).astype(np.uint16)


def bfloat16(values: Array) -> TensorProto:
    return raw(TensorProto.BFLOAT16, values.shape, bits(values).tobytes())


def float_data() -> ModelProto:
    """Weights in float_data: two equal, one of the same shape that differs, and one the same in raw_data."""
    same, other = weight(64, 64, seed=1), weight(64, 64, seed=2)
    typed = [
        TensorProto(data_type=TensorProto.FLOAT, dims=[64, 64], float_data=w.ravel()) for w in (same, other)
    ]
    text = """g (float[2,64] x) => (float[2,64] y)
        { a = MatMul(x, W) b = MatMul(a, V) c = MatMul(b, U) y = MatMul(c, T) }"""
    return model(text, {"W": typed[0], "V": typed[0], "U": same, "T": typed[1]})


def int32_data() -> ModelProto:
    """int8, uint8, int16, bool, float16 and bfloat16 kept in int32_data, where each takes another meaning."""
    values = weight(64, 64, seed=1)
    stored: dict[str, tuple[int, Array]] = {
        "i8": (TensorProto.INT8, (values * 100).astype(np.int8)),
        "u8": (TensorProto.UINT8, (np.abs(values) * 100).astype(np.uint8)),
        "i16": (TensorProto.INT16, (values * 100).astype(np.int16)),
        "i32": (TensorProto.INT32, (values * 100).astype(np.int32)),
        "yes": (TensorProto.BOOL, values > 0),
        "f16": (TensorProto.FLOAT16, values.astype(np.float16).view(np.uint16)),
        "b16": (TensorProto.BFLOAT16, bits(values)),
    }
    casts = " ".join(f"c{n} = Cast <to = 1> ({name}) m{n} = MatMul(x, c{n})" for n, name in enumerate(stored))
    text = f"""g (float[2,64] x) => (float[2,448] y)
        {{ {casts} y = Concat <axis = 1> ({", ".join(f"m{n}" for n in range(len(stored)))}) }}"""
    tensors = {
        name: TensorProto(data_type=kind, dims=[64, 64], int32_data=data.astype(np.int32).ravel())
        for name, (kind, data) in stored.items()
    }
    return model(text, tensors)


def int64_data() -> ModelProto:
    """Indices, a shape and large numbers in int64_data, negative ones included."""
    at = (rng(1).permutation(4096) - 4096).astype(np.int64)
    typed = TensorProto(data_type=TensorProto.INT64, dims=[4096], int64_data=at)
    shape = TensorProto(data_type=TensorProto.INT64, dims=[2], int64_data=[64, -1])
    text = """g (float[2,64] x) => (float[2,64] y, int64[4096] z)
        { f = Gather(flat, at) W = Reshape(f, shape) y = MatMul(x, W) z = Mul(at, big) }"""
    big = TensorProto(data_type=TensorProto.INT64, dims=[], int64_data=[2**40 + 1])
    return model(text, {"flat": weight(4096, seed=2), "at": typed, "shape": shape, "big": big})


def double_data() -> ModelProto:
    """float64 in double_data."""
    values = rng(1).standard_normal((64, 64)) / 8
    typed = TensorProto(data_type=TensorProto.DOUBLE, dims=[64, 64], double_data=values.ravel())
    text = """g (float[2,64] x) => (double[2,64] y)
        { d = Cast <to = 11> (x) y = MatMul(d, W) }"""
    return model(text, {"W": typed})


def uint64_data() -> ModelProto:
    """uint32 and uint64 in uint64_data, past what int64 can hold."""
    values = rng(1).integers(0, 2**32, (64, 64), np.uint64)
    small = TensorProto(data_type=TensorProto.UINT32, dims=[64, 64], uint64_data=values.ravel())
    large = TensorProto(data_type=TensorProto.UINT64, dims=[64, 64], uint64_data=(values << 32).ravel())
    text = """g (int64[2] at) => (uint32[2,64] y, uint64[2,64] z) { y = Gather(W, at) z = Gather(V, at) }"""
    return model(text, {"W": small, "V": large})


def same_bytes_other_dtype() -> ModelProto:
    """Equal bytes and shapes, but one is float32 and the other int32; likewise the 16-bit and 8-bit types."""
    wide = weight(64, 64, seed=1)
    half = weight(64, 64, seed=2).astype(np.float16)
    text = """g (float[2,64] x) => (float[2,64] y, float[2,64] z, float[2,64] u, float[2,64] v, float[2,64] w,
        float[2,64] s, float[2,64] t) {
        y = MatMul(x, f32) i = Cast <to = 1> (i32) j = Mul(i, tiny) z = MatMul(x, j)
        h = Cast <to = 1> (f16) u = MatMul(x, h) b = Cast <to = 1> (b16) v = MatMul(x, b)
        k = Cast <to = 1> (i16) l = Mul(k, small) w = MatMul(x, l)
        m = Cast <to = 1> (u8) s = MatMul(x, m) n = Cast <to = 1> (i8) t = MatMul(x, n) }"""
    weights: dict[str, Array] = {
        "f32": wide,
        "i32": wide.view(np.int32),
        "f16": half,
        "i16": half.view(np.int16),
    }
    weights |= {"tiny": np.float32(1e-9), "small": np.float32(1e-4)}
    code = rng(3).integers(0, 256, (64, 64), np.uint8)
    weights |= {"u8": code, "i8": code.view(np.int8)}
    return model(text, {**weights, "b16": raw(TensorProto.BFLOAT16, (64, 64), half.tobytes())})


def same_bytes_other_shape() -> ModelProto:
    """Equal bytes and type under the shapes [64,64], [32,128], [4096] and [1,64,64]."""
    flat = weight(4096, seed=1)
    text = """g (float[2,64] x, float[2,32] w) => (float[2,64] y, float[2,128] z, float[4096] u,
        float[1,2,64] v)
        { y = MatMul(x, A) z = MatMul(w, B) u = Neg(C) v = MatMul(x, D) }"""
    shapes = {"A": (64, 64), "B": (32, 128), "C": (4096,), "D": (1, 64, 64)}
    return model(text, {name: flat.reshape(shape) for name, shape in shapes.items()})


def scalar_against_one() -> ModelProto:
    """A scalar, [1] and [1,1] of the same number: the output's rank depends on which is used."""
    text = """g (float[64] x) => (float y, float[1] z, float[1,1] u, float[64] v)
        { m = ReduceSum <keepdims = 0> (x) y = Mul(m, a) z = Mul(m, b) u = Mul(m, c) v = Mul(x, W) }"""
    number = np.float32(1.5)
    shaped = {"a": number.reshape(()), "b": number.reshape(1), "c": number.reshape(1, 1)}
    return model(text, {**shaped, "W": weight(64, seed=1)})


def scalar_in_float_data() -> ModelProto:
    """Scalars without dims, in float_data and raw_data, and a [1] beside them."""
    text = """g (float[2,64] x) => (float[2,64] y, float s, float[1] t) { h = Mul(x, a) y = MatMul(h, W)
        s = Neg(a) t = Neg(b) }"""
    typed = TensorProto(data_type=TensorProto.FLOAT, float_data=[0.5])
    return model(text, {"a": typed, "b": np.array([0.5], np.float32), "W": weight(64, 64, seed=1)})


def _nibbles(kind: int, seed: int, per_byte: int = 2) -> TensorProto:
    """63 by 65 is an odd count, so the last byte is not full."""
    count = -(-63 * 65 // per_byte)
    return raw(kind, (63, 65), rng(seed).integers(0, 256, count, np.uint8).tobytes())


def packed_int4() -> ModelProto:
    """int4 and uint4 with the same bytes, an odd count, and one in int32_data."""
    text = """g (float[2,63] x) => (float[2,65] y, float[2,65] z, float[2,65] u) {
        a = DequantizeLinear(W, s) y = MatMul(x, a) b = DequantizeLinear(V, s) z = MatMul(x, b)
        c = DequantizeLinear(U, s) u = MatMul(x, c) }"""
    signed, unsigned = _nibbles(TensorProto.INT4, 1), _nibbles(TensorProto.UINT4, 1)
    typed = TensorProto(data_type=TensorProto.INT4, dims=[63, 65], int32_data=list(_nibbles(0, 2).raw_data))
    return model(text, {"W": signed, "V": unsigned, "U": typed, "s": np.float32(0.02)}, opset=21, ir=10)


def packed_int2() -> ModelProto:
    """int2 and uint2 with the same bytes, four to a byte, an odd count."""
    text = """g (float[2,63] x) => (float[2,65] y, float[2,65] z) {
        a = Cast <to = 1> (W) y = MatMul(x, a) b = Cast <to = 1> (V) z = MatMul(x, b) }"""
    return model(text, {"W": _nibbles(26, 1, 4), "V": _nibbles(25, 1, 4)}, opset=25, ir=13)


def bfloat16_weights() -> ModelProto:
    """bfloat16, which numpy does not know; two equal, one in typed form."""
    values = weight(64, 64, seed=1)
    text = """g (float[2,64] x) => (float[2,64] y) { a = Cast <to = 1> (W) h = MatMul(x, a)
        b = Cast <to = 1> (V) k = MatMul(h, b) c = Cast <to = 1> (U) y = MatMul(k, c) }"""
    typed = TensorProto(data_type=TensorProto.BFLOAT16, dims=[64, 64], int32_data=bits(values).ravel())
    return model(text, {"W": bfloat16(values), "V": bfloat16(values), "U": typed})


def float8_weights() -> ModelProto:
    """The four float8 types with the same bytes, each worth something else."""
    code = rng(1).integers(0, 2, (64, 64), np.uint8) * 128 + rng(2).integers(8, 96, (64, 64), np.uint8)
    kinds = {
        "e4": TensorProto.FLOAT8E4M3FN,
        "e4z": TensorProto.FLOAT8E4M3FNUZ,
        "e5": TensorProto.FLOAT8E5M2,
        "e5z": TensorProto.FLOAT8E5M2FNUZ,
    }
    steps = " ".join(f"c{k} = Cast <to = 1> ({k}) y{k} = MatMul(x, c{k})" for k in kinds)
    outputs = ", ".join(f"float[2,64] y{k}" for k in kinds)
    tensors = {name: raw(kind, (64, 64), code.tobytes()) for name, kind in kinds.items()}
    return model(f"g (float[2,64] x) => ({outputs}) {{ {steps} }}", tensors, opset=19, ir=9)


def float4_weights() -> ModelProto:
    """float4e2m1, two to a byte; onnxruntime has no kernel that takes it on the CPU."""
    text = "g (float[2,63] x) => (float[2,65] y) { a = Cast <to = 1> (W) y = MatMul(x, a) }"
    return model(text, {"W": _nibbles(23, 1)}, opset=23, ir=11)


def bool_and_uint8_weights() -> ModelProto:
    """A mask as bool and the same bytes as uint8 and int8."""
    mask = rng(1).integers(0, 2, (64, 64), np.uint8)
    text = """g (float[2,64] x) => (float[2,64] y, float[2,64] z, float[2,64] u) { p = MatMul(x, W)
        f = Where(B, W, N) y = MatMul(x, f) g = Cast <to = 1> (U) z = MatMul(x, g) k = Cast <to = 1> (I)
        u = MatMul(x, k) }"""
    weights = {"B": mask.astype(bool), "U": mask, "I": mask.view(np.int8), "N": -weight(64, 64, seed=2)}
    return model(text, {**weights, "W": weight(64, 64, seed=1)})


STORAGE: tuple[Trap, ...] = (
    trap(float_data),
    trap(int32_data),
    trap(int64_data),
    trap(double_data),
    trap(uint64_data),
    trap(same_bytes_other_dtype),
    trap(same_bytes_other_shape),
    trap(scalar_against_one),
    trap(scalar_in_float_data),
    trap(packed_int4),
    *([trap(packed_int2, runs=ORT_RUNS_INT2)] if INT2 else []),
    trap(bfloat16_weights),
    trap(float8_weights),
    *([trap(float4_weights, runs=False)] if hasattr(TensorProto, "FLOAT4E2M1") else []),
    trap(bool_and_uint8_weights),
    *LAYOUTS,
)
