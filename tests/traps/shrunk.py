"""Already shrunk: models whose weights are small or encoded by now, and must not be made worse or larger."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from tests.traps.base import Array, Feed, Trap, model, raw, rng, trap, uneven, weight
from tests.traps.storage import bfloat16

MS = {"com.microsoft": 1}


def codes(*shape: int, seed: int = 1, dtype: type = np.int8) -> NDArray[np.int8]:
    info = np.iinfo(dtype)
    return rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def _layers(values: list[Array | TensorProto], *, scalar: str = "float") -> ModelProto:
    """Two equal weights and another of the stored kind, computed with in `scalar`."""
    casts = {"float": 1, "float16": 10, "double": 11}
    stored = dict(zip("WVU", values, strict=True))
    text = f"""g ({scalar}[2,64] x) => ({scalar}[2,64] y) {{ a = Cast <to = {casts[scalar]}> (W) h =
        MatMul(x, a)
        b = Cast <to = {casts[scalar]}> (V) k = MatMul(h, b) c = Cast <to = {casts[scalar]}> (U) y =
        MatMul(k, c) }}"""
    return model(text, stored)


def fp16_weights() -> ModelProto:
    """fp16 behind a Cast: a second fp16 pass finds nothing to do, int8 must look through the Cast."""
    one, two = weight(64, 64, seed=1).astype(np.float16), weight(64, 64, seed=2).astype(np.float16)
    return _layers([one, one, two])


def fp16_model() -> ModelProto:
    """A model that computes in fp16 from input to output: its types are the user's."""
    text = "g (float16[2,64] x) => (float16[2,64] y) { h = MatMul(x, W) k = Add(h, b) y = MatMul(k, V) }"
    weights = {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2), "b": weight(64, seed=3)}
    return model(text, {name: value.astype(np.float16) for name, value in weights.items()})


def fp16_with_float_parts() -> ModelProto:
    """Half of the model in fp16, half in float32, with Casts between them."""
    text = """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) p = Cast <to = 10> (h) q = MatMul(p, H)
        r = Cast <to = 1> (q) y = MatMul(r, W) }"""
    return model(text, {"W": weight(64, 64, seed=1), "H": weight(64, 64, seed=2).astype(np.float16)})


def bf16_weights() -> ModelProto:
    """bfloat16 behind a Cast, as large models are published."""
    one, two = bfloat16(weight(64, 64, seed=1)), bfloat16(weight(64, 64, seed=2))
    return _layers([one, one, two])


def f64_weights() -> ModelProto:
    """float64 weights in a float64 graph, as scientific exporters write."""
    one, two = rng(1).standard_normal((64, 64)) / 8, rng(2).standard_normal((64, 64)) / 8
    text = "g (double[2,64] x) => (double[2,64] y) { h = MatMul(x, W) k = MatMul(h, V) y = MatMul(k, U) }"
    return model(text, {"W": one, "V": one, "U": two})


def f64_behind_cast() -> ModelProto:
    """float64 weights that are cast to float32 before use, one of them past float32's range of exactness."""
    one = rng(1).standard_normal((64, 64)) / 8
    return _layers([one, one, one.T.copy()])


def on_the_fp16_grid() -> ModelProto:
    """float32 weights that fp16 holds exactly, save one number in the second weight."""
    exact = weight(64, 64, seed=1).astype(np.float16).astype(np.float32)
    nearly = exact.copy()
    nearly[63, 63] += np.float32(1e-6)
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }"
    return model(text, {"W": exact, "V": nearly})


def on_an_int8_grid() -> ModelProto:
    """float32 weights that are int8 times one scale, re-inflated by a simplifier, and a few-valued one."""
    inflated = codes(64, 64).astype(np.float32) * np.float32(0.0123)
    few = rng(2).choice(weight(5, seed=2), (64, 64))
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }"
    return model(text, {"W": inflated, "V": few})


QDQ = """g (float[2,64] x) => (float[2,64] y) {
    q = QuantizeLinear(x, sx, zx) d = DequantizeLinear(q, sx, zx) w = DequantizeLinear <axis = 1> (W, sw, zw)
    b = DequantizeLinear <axis = 0> (B, sb) m = MatMul(d, w) a = Add(m, b) r = QuantizeLinear(a, sy, zy)
    e = DequantizeLinear(r, sy, zy) v = DequantizeLinear(V, sv, zv) n = MatMul(e, v)
    s = QuantizeLinear(n, sz, zx) y = DequantizeLinear(s, sz, zx) }"""


def _qdq(**change: Array) -> dict[str, Array]:
    weights: dict[str, Array] = {"W": codes(64, 64, seed=1), "V": codes(64, 64, seed=2)}
    weights |= {"sw": np.geomspace(5e-4, 5e-3, 64, dtype=np.float32), "zw": np.zeros(64, np.int8)}
    weights |= {"B": rng(3).integers(-500, 500, 64).astype(np.int32), "sb": np.full(64, 1e-3, np.float32)}
    weights |= {"sv": np.float32(2e-3), "zv": np.int8(0), "sx": np.float32(0.03), "zx": np.uint8(128)}
    weights |= {"sy": np.float32(0.05), "zy": np.uint8(120), "sz": np.float32(0.2)}
    return {**weights, **change}


def qdq_matmul() -> ModelProto:
    """Quantize and dequantize pairs: per-axis weight, int32 bias without, one shared zero point."""
    return model(QDQ, _qdq())


def qdq_equal_parameters() -> ModelProto:
    """All scales equal, zero points equal as bytes but of two types: merging those breaks the types."""
    same = {"sx": np.float32(0.05), "sy": np.float32(0.05), "sv": np.float32(0.05), "sz": np.float32(0.05)}
    zeros = {"zx": np.uint8(0), "zy": np.uint8(0), "zv": np.int8(0)}
    return model(QDQ, _qdq(**same, **zeros))


def qdq_convolution() -> ModelProto:
    """A convolution in QDQ form, per-channel on axis 0, whose scales are shared by two layers."""
    text = """g (float[1,16,8,8] x) => (float[1,16,8,8] y) {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) w = DequantizeLinear <axis = 0> (W, sw, zw)
        c = Conv <pads = [1, 1, 1, 1]> (d, w) r = QuantizeLinear(c, s, z) e = DequantizeLinear(r, s, z)
        v = DequantizeLinear <axis = 0> (V, sw, zw) k = Conv <pads = [1, 1, 1, 1]> (e, v)
        t = QuantizeLinear(k, s, z) y = DequantizeLinear(t, s, z) }"""
    weights = {
        "W": codes(16, 16, 3, 3, seed=1),
        "V": codes(16, 16, 3, 3, seed=2),
        "zw": np.zeros(16, np.int8),
    }
    scales = {"sw": np.geomspace(3e-4, 1e-2, 16, dtype=np.float32), "s": np.float32(0.03), "z": np.uint8(128)}
    return model(text, {**weights, **scales})


def qdq_float_weight() -> ModelProto:
    """Fake quantization kept in training form: the float weight goes through Quantize and Dequantize."""
    text = """g (float[2,64] x) => (float[2,64] y) { q = QuantizeLinear <axis = 1> (W, s, z)
        d = DequantizeLinear <axis = 1> (q, s, z) y = MatMul(x, d) }"""
    values = uneven(64, 64, axis=1, seed=1)
    scale = (np.abs(values).max(axis=0) / 127).astype(np.float32)
    return model(text, {"W": values, "s": scale, "z": np.zeros(64, np.int8)})


def qlinear_ops() -> ModelProto:
    """QLinearMatMul and QLinearConv: scales, zero points and int32 bias are inputs that must be constant."""
    text = """g (uint8[1,16,8,8] x) => (uint8[1,16,8,8] y, uint8[1,16,8,8] z) {
        y = QLinearConv <pads = [1, 1, 1, 1]> (x, s, o, W, sw, zw, s, o, B)
        z = QLinearMatMul (y, s, o, M, sm, zm, s, o) }"""
    weights = {"W": codes(16, 16, 3, 3, seed=1), "M": codes(8, 8, seed=2), "zw": np.zeros(16, np.int8)}
    scales = {
        "s": np.float32(0.05),
        "sw": np.geomspace(1e-4, 1e-3, 16, dtype=np.float32),
        "sm": np.float32(3e-3),
    }
    rest = {"o": np.uint8(128), "zm": np.int8(0), "B": rng(3).integers(-900, 900, 16).astype(np.int32)}
    return model(text, {**weights, **scales, **rest})


def matmul_integer() -> ModelProto:
    """Dynamic quantization: a uint8 weight with a zero point per column, and a scale multiplied in later."""
    text = """g (float[2,64] x) => (float[2,64] y) { q, s, z = DynamicQuantizeLinear(x)
        i = MatMulInteger(q, W, z, zw) f = Cast <to = 1> (i) t = Mul(s, sw) y = Mul(f, t) }"""
    zeros = rng(2).integers(100, 156, 64).astype(np.uint8)
    scales = np.geomspace(5e-4, 5e-3, 64, dtype=np.float32)
    return model(text, {"W": codes(64, 64, dtype=np.uint8), "zw": zeros, "sw": scales})


def conv_integer() -> ModelProto:
    """ConvInteger with a scalar zero point, twice with the same weight."""
    text = """g (uint8[1,16,6,6] x) => (int32[1,32,4,4] y, int32[1,32,4,4] z)
        { y = ConvInteger(x, W, zx, zw) z = ConvInteger(x, V, zx, zw) }"""
    same = codes(32, 16, 3, 3, dtype=np.uint8)
    return model(text, {"W": same, "V": same, "zx": np.uint8(128), "zw": np.uint8(120)})


def matmul_nbits() -> ModelProto:
    """onnxruntime's 4-bit MatMul: packed uint8 blocks whose shape says nothing of the weight's axes."""
    node = """com.microsoft.MatMulNBits <K = 64, N = 64, bits = 4, block_size = 32>"""
    text = f"""g (float[2,64] x) => (float[2,64] y) {{ h = {node} (x, W, s, z) k = {node} (h, V, s) y =
        MatMul(k, U) }}"""
    packed = {"W": codes(64, 2, 16, seed=1, dtype=np.uint8), "V": codes(64, 2, 16, seed=2, dtype=np.uint8)}
    scales = np.abs(weight(128, seed=3, scale=0.02)) + np.float32(0.01)
    zeros = codes(64, seed=4, dtype=np.uint8)
    return model(text, {**packed, "s": scales, "z": zeros, "U": weight(64, 64, seed=5)}, domains=MS)


def blocked_int4() -> ModelProto:
    """DequantizeLinear in blocks of 16 along axis 0, with int4 zero points: opset 21."""
    text = """g (float[2,64] x) => (float[2,64] y)
        { w = DequantizeLinear <axis = 0, block_size = 16> (W, s, z) y = MatMul(x, w) }"""
    packed = raw(TensorProto.INT4, (64, 64), rng(1).bytes(2048))
    zeros = raw(TensorProto.INT4, (4, 64), rng(2).bytes(128))
    scales = np.abs(weight(4, 64, seed=3, scale=0.02)) + np.float32(0.005)
    return model(text, {"W": packed, "s": scales, "z": zeros}, opset=21, ir=10)


def int8_cast_mul() -> ModelProto:
    """int8 weights with plain Cast and Mul, per tensor, per channel and with an offset: as ours are."""
    text = """g (float[2,64] x) => (float[2,64] y) { a = Cast <to = 1> (W) w = Mul(a, sw) h = MatMul(x, w)
        b = Cast <to = 1> (V) v = Mul(b, sv) k = MatMul(h, v)
        c = Cast <to = 1> (U) d = Mul(c, sv) u = Add(d, o) y = MatMul(k, u) }"""
    same = codes(64, 64, seed=1)
    scales = {"sw": np.geomspace(5e-4, 2e-3, 64, dtype=np.float32).reshape(64, 1), "sv": np.float32(1.5e-3)}
    return model(
        text, {"W": same, "V": same, "U": codes(64, 64, dtype=np.uint8), "o": np.float32(-0.19), **scales}
    )


def codebook_weight() -> ModelProto:
    """A weight looked up from a table of 16 numbers by uint8 codes: small already, and no embedding."""
    text = """g (float[2,64] x) => (float[2,64] y)
        { i = Cast <to = 7> (C) w = Gather(T, i) y = MatMul(x, w) }"""
    return model(text, {"C": rng(1).integers(0, 16, (64, 64)).astype(np.uint8), "T": weight(16, seed=2)})


def shared_scale_over_weights() -> ModelProto:
    """Weights that share one scale and one zero point, beside equal copies of both under other names."""
    text = """g (float[2,64] x) => (float[2,64] y) { a = DequantizeLinear(A, s, z) h = MatMul(x, a)
        b = DequantizeLinear(B, s, z) k = MatMul(h, b) c = DequantizeLinear(C, s2, z2) y = MatMul(k, c) }"""
    weights: dict[str, Array] = {name: codes(64, 64, seed=seed) for seed, name in enumerate("ABC")}
    for name in ("s", "s2"):
        weights[name] = np.float32(1.5e-3)
    for name in ("z", "z2"):
        weights[name] = np.int8(3)
    return model(text, weights)


def tied_embedding(stored: str = "once") -> ModelProto:
    """One table looks words up and, turned, scores them."""
    table = uneven(128, 64, axis=0, seed=1)
    project = (
        "s = MatMul(h, H)" if stored == "twice" else "t = Transpose <perm = [1, 0]> (T) s = MatMul(h, t)"
    )
    text = f"g (int64[1,6] ids) => (float[1,6,128] s) {{ e = Gather(T, ids) h = MatMul(e, W) {project} }}"
    weights = {"T": table, "W": weight(64, 64, seed=2)}
    return model(text, {**weights, "H": table.T.copy()} if stored == "twice" else weights)


def batched_ids() -> list[Feed]:
    return [{"ids": np.array([[0, 1, 127, 126, 64, 90]], np.int64)}]


def tied_gemm() -> ModelProto:
    """One table is looked up by rows and used by a Gemm with transB, so it has two axes of channels."""
    text = """g (int64[6] ids) => (float[6,128] y, float[6,64] z)
        { e = Gather(T, ids) y = Gemm <transB = 1> (e, T) z = Gemm (y, T) }"""
    return model(text, {"T": uneven(128, 64, axis=0, seed=1)})


def weight_behind_reshapes() -> ModelProto:
    """Weights behind Transpose, Reshape, Unsqueeze, Slice, Identity, Split and Expand: not used as stored."""
    text = """g (float[2,64] x) => (float[2,64] y) {
        a = Transpose <perm = [1, 0]> (A) h = MatMul(x, a) r = Reshape(R, square) i = MatMul(h, r)
        u = Unsqueeze(U, zero) w = Squeeze(u, zero) j = MatMul(i, w) s = Slice(S, from, to, zero) k =
        MatMul(j, s)
        d = Identity(D) l = MatMul(k, d) p, q = Split <axis = 1> (P, halves) m = MatMul(l, p) n = MatMul(l, q)
        c = Concat <axis = 1> (m, n) e = Expand(E, wide) o = Mul(c, e) y = Tanh(o) }"""
    squares: dict[str, Array] = {name: weight(64, 64, seed=seed) for seed, name in enumerate("AUDP")}
    others = {"R": weight(4096, seed=4), "S": weight(96, 64, seed=5), "E": weight(1, 64, seed=6, scale=1.0)}
    shapes = {"square": [64, 64], "zero": [0], "from": [16], "to": [80], "wide": [2, 64], "halves": [24, 40]}
    return model(
        text, {**squares, **others, **{name: np.array(value, np.int64) for name, value in shapes.items()}}
    )


def with_receipt() -> ModelProto:
    """Metadata of other tools and a receipt that does not belong to this content."""
    made = int8_cast_mul()
    helper.set_model_props(
        made, {"onnx.quant.pre_process": "done", "onnx_ci.receipt": '{"version": "0", "sha256": "0"}'}
    )
    return made


SHRUNK: tuple[Trap, ...] = (
    trap(fp16_weights),
    trap(fp16_model),
    trap(fp16_with_float_parts),
    trap(bf16_weights),
    trap(f64_weights),
    trap(f64_behind_cast),
    trap(on_the_fp16_grid),
    trap(on_an_int8_grid),
    trap(qdq_matmul),
    trap(qdq_equal_parameters),
    trap(qdq_convolution),
    trap(qdq_float_weight),
    trap(qlinear_ops),
    trap(matmul_integer),
    trap(conv_integer),
    trap(matmul_nbits),
    trap(blocked_int4),
    trap(int8_cast_mul),
    trap(codebook_weight),
    trap(shared_scale_over_weights),
    trap(tied_embedding, feeds=batched_ids),
    trap(
        partial(tied_embedding, "twice"),
        name="tied_embedding_stored_twice",
        why="The table is stored again, turned: equal values, other bytes.",
        feeds=batched_ids,
    ),
    trap(tied_gemm, feeds=lambda: [{"ids": batched_ids()[0]["ids"][0]}]),
    trap(weight_behind_reshapes),
    trap(with_receipt),
)
