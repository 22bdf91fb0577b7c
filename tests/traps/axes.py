"""Axes: where the channels of a weight are, which differs with the op and with its attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from onnx import ModelProto, helper

from tests.traps.base import Array, Feed, Trap, model, rng, spread, tensor, trap, uneven, weight


def gemm(trans_a: int, trans_b: int) -> ModelProto:
    """The output channels of B are its columns, or its rows with transB; A may be the weight as well."""
    text = f"""g (float[{"48,5" if trans_a else "5,48"}] x) => (float[5,96] y, float[96,5] z) {{
        u = Gemm <transA = {trans_a}, transB = {trans_b}, alpha = 0.5, beta = 2.0> (x, W, c)
        v = Gemm <transA = {1 - trans_b}, transB = {1 - trans_a}> (W, x, r)
        y = Div(u, flat) z = Div(v, tall) }}"""
    values = uneven(96, 48, axis=0, seed=1) if trans_b else uneven(48, 96, axis=1, seed=1)
    even = {"flat": spread(96), "tall": spread(96).reshape(96, 1)}  # bring the channels to one size again
    return model(text, {"W": values, "c": even["flat"] / 2, "r": even["tall"] / 2, **even})


def gemm_bias_shapes() -> ModelProto:
    """The third input of Gemm as scalar, [N], [M,1] and [M,N], or left out."""
    shapes: dict[str, tuple[int, ...]] = {"a": (), "b": (64,), "c": (64, 1), "d": (64, 64)}
    steps = " ".join(f"y{name} = Gemm(x, W, {name})" for name in shapes)
    outputs = ", ".join(f"float[64,64] y{name}" for name in (*shapes, "e"))
    text = f"g (float[64,64] x) => ({outputs}) {{ {steps} ye = Gemm(x, W) }}"
    weights: dict[str, Array] = {name: weight(*shape, seed=2) for name, shape in shapes.items()}
    return model(text, {**weights, "W": uneven(64, 64, axis=1, seed=1)})


def _conv(op: str, x: str, y: str, values: Array, **attributes: object) -> ModelProto:
    made = model(f"g (float[{x}] x) => (float[{y}] y) {{ h = {op}(x, W) y = Div(h, even) }}", {"W": values})
    made.graph.node[0].attribute.extend(
        helper.make_attribute(key, value) for key, value in attributes.items()
    )
    groups = int(str(attributes.get("group", 1))) if op == "ConvTranspose" else 1
    channels = values.shape[1] if op == "ConvTranspose" else values.shape[0]
    even = np.tile(spread(channels), groups).reshape(-1, *[1] * (values.ndim - 2))
    made.graph.initializer.append(tensor("even", even))
    return made


CONVOLUTIONS: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "conv": (
        partial(_conv, "Conv", "1,16,7,7", "1,32,5,5", uneven(32, 16, 3, 3, axis=0)),
        "Output channels on axis 0.",
    ),
    "conv_grouped": (
        partial(_conv, "Conv", "1,32,7,7", "1,64,5,5", uneven(64, 8, 3, 3, axis=0), group=4),
        "Axis 1 holds the inputs of one group only, so it is not the number of input channels.",
    ),
    "conv_depthwise": (
        partial(_conv, "Conv", "1,512,5,5", "1,512,3,3", uneven(512, 1, 3, 3, axis=0), group=512),
        "Axis 1 is 1: a scale along it is one scale for all.",
    ),
    "conv_transpose": (
        partial(_conv, "ConvTranspose", "1,16,4,4", "1,32,6,6", uneven(16, 32, 3, 3, axis=1)),
        "Output channels on axis 1, unlike Conv.",
    ),
    "conv_transpose_grouped": (
        partial(
            _conv,
            "ConvTranspose",
            "1,32,4,4",
            "1,32,9,9",
            uneven(32, 16, 3, 3, axis=1),
            group=2,
            strides=[2, 2],
        ),
        "Axis 1 holds the outputs of one group only.",
    ),
    "conv_1d": (
        partial(_conv, "Conv", "1,32,9", "1,64,7", uneven(64, 32, 3, axis=0), dilations=[1]),
        "A three-dimensional weight.",
    ),
    "conv_3d": (
        partial(_conv, "Conv", "1,8,4,4,4", "1,24,2,2,2", uneven(24, 8, 3, 3, 3, axis=0)),
        "A five-dimensional weight.",
    ),
    "conv_pointwise": (
        partial(_conv, "Conv", "1,64,3,3", "1,64,3,3", uneven(64, 64, 1, 1, axis=0)),
        "A 1 by 1 kernel: nearly a matrix, and equal as bytes to one.",
    ),
}

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(op: str, direction: str, **attributes: object) -> ModelProto:
    """Directions on axis 0, gates stacked on axis 1, each gate with a range of its own."""
    ways, hidden = (2 if direction == "bidirectional" else 1), (64 if op == "RNN" else 32)
    rows = GATES[op] * hidden
    weights = {"W": uneven(ways, rows, 24, axis=1, seed=1), "R": uneven(ways, rows, hidden, axis=1, seed=2)}
    weights["B"] = weight(ways, 2 * rows, seed=3)
    weights["h0"] = weight(ways, 1, hidden, seed=4)
    state = "h0, c0, P" if op == "LSTM" else "h0"
    if op == "LSTM":
        weights |= {"c0": weight(ways, 1, hidden, seed=5), "P": weight(ways, 3 * hidden, seed=6)}
    text = f"""g (float[5,1,24] x) => (float[5,{ways},1,{hidden}] y, float[{ways},1,{hidden}] h)
        {{ y, h = {op} <hidden_size = {hidden}> (x, W, R, B, , {state}) }}"""
    made = model(text, weights)
    made.graph.node[0].attribute.append(helper.make_attribute("direction", direction))
    made.graph.node[0].attribute.extend(
        helper.make_attribute(key, value) for key, value in attributes.items()
    )
    return made


def gather_axes() -> ModelProto:
    """Tables looked up along axis 0, 1, 2 and -1: only on the first is a row a row."""
    text = """g (int64[3] at) => (float[3,64] a, float[64,3] b, float[8,16,3,2] c, float[16,16,3] d) {
        a = Gather(A, at) b = Gather <axis = 1> (B, at) c = Gather <axis = 2> (C, at) d = Gather <axis =
        -1> (D, at) }"""
    weights = {"A": uneven(64, 64, axis=0, seed=1), "B": uneven(64, 64, axis=1, seed=2)}
    return model(
        text, {**weights, "C": uneven(8, 16, 16, 2, axis=2, seed=3), "D": uneven(16, 16, 16, axis=2, seed=4)}
    )


def gather_relatives() -> ModelProto:
    """GatherElements, GatherND, Slice, ScatterND and Where on a weight: rows are not taken whole."""
    text = """g (int64[2,64] at, float[64] x) => (float[2,64] a, float[2] b, float[8,64] c, float[64,64]
        d, float[64,64] e) {
        a = GatherElements(W, at) p = Slice(at, zero, two, one) b = GatherND(W, p) c = Slice(W, zero, eight)
        q = Unsqueeze(five, one) d = ScatterND(W, q, u) m = Greater(x, h) e = Where(m, W, V) }"""
    ints = {"zero": [0], "one": [1], "two": [2], "eight": [8], "five": [5]}
    weights: dict[str, Array] = {name: np.array(value, np.int64) for name, value in ints.items()}
    weights |= {"W": uneven(64, 64, axis=0, seed=1), "V": uneven(64, 64, axis=1, seed=2)}
    return model(text, {**weights, "u": weight(1, 64, seed=3), "h": np.float32(0.0)})


def at(*numbers: int) -> Callable[[], list[Feed]]:
    return lambda: [{"at": np.array(numbers, np.int64)}]


def matmul_sides() -> ModelProto:
    """Weights on the left, on both sides, in batches, and as a vector; Einsum names its axes itself."""
    text = """g (float[64,2] x) => (float[64,2] a, float[4,32,64] b, float[2] c, float[64,2] d,
        float[4,32,2] e) {
        a = MatMul(L, x) b = MatMul(B, L) v = MatMul(V, L) c = MatMul(v, x)
        d = Einsum <equation = "ji,jk->ik"> (L, x) e = MatMul(b, x) }"""
    weights = {
        "L": uneven(64, 64, axis=0, seed=1),
        "B": uneven(4, 32, 64, axis=1, seed=2),
        "V": weight(64, seed=3),
    }
    return model(text, weights)


def one_dimension() -> ModelProto:
    """Long one-dimensional weights: no second axis to put a scale on."""
    text = """g (float[2,4096] x) => (float[2,4096] y) { a = Mul(x, s) b = Add(a, b0) c = PRelu(b, p)
        y = LayerNormalization(c, n, m) }"""
    return model(
        text, {name: weight(4096, seed=seed) for seed, name in enumerate(("s", "b0", "p", "n", "m"))}
    )


def five_dimensions() -> ModelProto:
    """Five-dimensional weights that broadcast, with channels in the middle."""
    text = "g (float[2,8,16,4,8] x) => (float[2,8,16,4,8] y) { h = Mul(x, W) y = Add(h, V) }"
    return model(
        text, {"W": uneven(1, 8, 16, 4, 8, axis=2, seed=1), "V": uneven(2, 8, 1, 4, 64 // 8, axis=1, seed=2)}
    )


def opset_12() -> ModelProto:
    """Opset 12: DequantizeLinear has no axis yet, Squeeze has its axes as an attribute."""
    text = """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) u = Unsqueeze <axes = [0]> (h)
        s = Squeeze <axes = [0]> (u) d = DequantizeLinear(Q, sq, zq) y = MatMul(s, d) }"""
    code = rng(2).integers(-128, 128, (64, 64)).astype(np.int8)
    return model(
        text,
        {"W": uneven(64, 64, axis=1), "Q": code, "sq": np.float32(2e-3), "zq": np.int8(0)},
        opset=12,
        ir=7,
    )


def opset_9() -> ModelProto:
    """Opset 9: no DequantizeLinear at all; Upsample, Slice and Dropout in their old forms."""
    text = """g (float[1,4,8,8] x) => (float[1,4,16,16] y) { c = Conv <pads = [1, 1, 1, 1]> (x, W)
        s = Slice <axes = [1], starts = [0], ends = [4]> (c) d = Dropout <ratio = 0.5> (s)
        y = Upsample <mode = "nearest"> (d, scales) }"""
    return model(
        text, {"W": uneven(128, 4, 3, 3, axis=0), "scales": np.array([1, 1, 2, 2], np.float32)}, opset=9, ir=4
    )


def opset_7() -> ModelProto:
    """Opset 7, IR 3: the oldest that onnxruntime runs in full; every weight is an input."""
    weights = {"W": uneven(64, 64, axis=1), "b": weight(64, seed=2), "V": uneven(64, 64, axis=0, seed=3)}
    text = """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) a = Add(h, b) y = Gemm <transB = 1>
        (a, V, b) }"""
    made = model(text, weights, opset=7, ir=3)
    made.graph.input.extend(
        helper.make_tensor_value_info(name, 1, value.shape) for name, value in weights.items()
    )
    return made


def opset_6() -> ModelProto:
    """Opset 6: Add and Mul broadcast only when told to, from a named axis; onnxruntime lacks these forms."""
    weights = {"W": uneven(64, 64, axis=1), "b": weight(64, seed=2), "c": weight(2, seed=3)}
    text = """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) a = Add <broadcast = 1> (h, b)
        m = Mul <broadcast = 1, axis = 0> (a, c) y = Relu(m) }"""
    made = model(text, weights, opset=6, ir=3)
    made.graph.input.extend(
        helper.make_tensor_value_info(name, 1, value.shape) for name, value in weights.items()
    )
    return made


def opset_6_that_runs() -> ModelProto:
    """Opset 6 without the ops that onnxruntime lacks there: an inserted Mul or Add has no kernel."""
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = Relu(h) }"
    return model(text, {"W": uneven(64, 64, axis=1)}, opset=6, ir=4)


AXES: tuple[Trap, ...] = (
    *(
        trap(partial(gemm, a, b), name=f"gemm_transa{a}_transb{b}", why=gemm.__doc__ or "")
        for a in (0, 1)
        for b in (0, 1)
    ),
    trap(gemm_bias_shapes),
    *(trap(make, name=name, why=why) for name, (make, why) in CONVOLUTIONS.items()),
    *(
        trap(partial(recurrent, op, way), name=f"{op.lower()}_{way}", why=recurrent.__doc__ or "")
        for op in GATES
        for way in ("forward", "reverse", "bidirectional")
    ),
    trap(
        partial(recurrent, "GRU", "forward", linear_before_reset=1),
        name="gru_linear_before_reset",
        why="The other form of the GRU, whose hidden gate is computed differently.",
    ),
    trap(gather_axes, feeds=at(0, 7, 15)),
    trap(gather_relatives),
    trap(matmul_sides),
    trap(one_dimension),
    trap(five_dimensions),
    trap(opset_12),
    trap(opset_9),
    trap(opset_7),
    trap(opset_6, runs=False),
    trap(opset_6_that_runs),
)
