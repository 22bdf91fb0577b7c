"""Running: models that are hard to judge by their outputs, or hard to run at all."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tests.traps.base import Array, Feed, Trap, graph, model, rng, trap, weight

W64 = {"W": weight(64, 64, seed=1)}


def random_ops() -> ModelProto:
    """Every op that draws numbers, without a seed: another answer each run, no fault of the weights."""
    text = """g (float[2,64] x) => (float[2,64] y, float[2,3] draw, float[2,64] coin, float[2,64] drop) {
        h = MatMul(x, W) n = RandomNormalLike <scale = 0.5> (h) u = RandomUniform <shape = [2, 64]> ()
        m = RandomNormal <shape = [2, 64]> () k = RandomUniformLike(h) a = Add(h, n) b = Add(a, u) c =
        Add(b, m)
        y = Add(c, k) p = Sigmoid(h) coin = Bernoulli(p) i = Multinomial <sample_size = 3> (p)
        draw = Cast <to = 1> (i) drop = Dropout(h, half, on) }"""
    return model(text, {**W64, "half": np.float32(0.5), "on": np.array(True)})


def random_noise_scaled_to_nothing() -> ModelProto:
    """Noise multiplied by an input, as text-to-speech models do: with scale 0 the model is exact."""
    text = """g (float[2,64] x, float scale) => (float[2,64] y)
        { h = MatMul(x, W) n = RandomNormalLike(h) s = Mul(n, scale) y = Add(h, s) }"""
    return model(text, W64)


def seeded_random() -> ModelProto:
    """A seed in the node: a new session repeats the numbers, a second run of one session does not."""
    text = """g (float[2,64] x) => (float[2,64] y)
        { h = MatMul(x, W) n = RandomNormalLike <seed = 3.0> (h) y = Add(h, n) }"""
    return model(text, W64)


def shape_from_values() -> ModelProto:
    """NonZero, Compress, Unique and TopK with a computed k: a weight's error changes the outputs' shapes."""
    text = """g (float[2,64] x) => (int64[2,n] where, float[m] kept, float[k] some, float[2,t] top) {
        h = MatMul(x, W) r = Relu(h) where = NonZero(r) c = Greater(h, limit) f = Reshape(h, flat)
        d = Reshape(c, flat) kept = Compress(f, d) q = Round(f) some = Unique(q)
        i = Cast <to = 7> (d) s = ReduceSum(i) j = Min(s, five) e = Reshape(j, one) top, at = TopK(h, e) }"""
    weights: dict[str, Array] = {"limit": np.float32(0.5), "flat": np.array([-1], np.int64)}
    return model(text, {**W64, **weights, "five": np.int64(5), "one": np.array([1], np.int64)})


def boxes() -> ModelProto:
    """NonMaxSuppression: how many boxes come out, and in which order, depends on tiny differences."""
    text = """g (float[1,32,64] x) => (int64[n,3] y, float[1,1,32] scores) {
        b = MatMul(x, B) corners = Abs(b) s = MatMul(x, S) t = Transpose <perm = [0, 2, 1]> (s) scores =
        Sigmoid(t)
        y = NonMaxSuppression(corners, scores, most, overlap, least) }"""
    weights: dict[str, Array] = {
        "B": weight(64, 4, seed=1),
        "S": weight(64, 1, seed=2),
        "W": weight(64, 64, seed=3),
    }
    limits: dict[str, Array] = {"most": np.array([16], np.int64), "overlap": np.array([0.3], np.float32)}
    return model(text, {**weights, **limits, "least": np.array([0.5], np.float32)})


def token_ids() -> ModelProto:
    """Ids must be below the table's height of 100, segments below 2, and the mask is 0 or 1."""
    text = """g (int64[b,s] input_ids, int64[b,s] token_type_ids, int64[b,s] attention_mask) =>
        (float[b,s,64] y) {
        a = Gather(T, input_ids) t = Gather(S, token_type_ids) e = Add(a, t) h = MatMul(e, W)
        m = Cast <to = 1> (attention_mask) u = Unsqueeze(m, last) y = Mul(h, u) }"""
    tables: dict[str, Array] = {
        "T": weight(100, 64, seed=2),
        "S": weight(2, 64, seed=3),
        "last": np.array([-1], np.int64),
    }
    return model(text, {**W64, **tables})


def tokens() -> list[Feed]:
    feeds = []
    for seed, shape in enumerate([(1, 7), (3, 4)]):
        ids = rng(seed).integers(0, 100, shape)
        mask = (np.arange(shape[1]) < shape[1] - 1).astype(np.int64) * np.ones(shape, np.int64)
        feeds.append({"input_ids": ids, "token_type_ids": ids % 2, "attention_mask": mask})
    return feeds


def sequence_lengths() -> ModelProto:
    """The lengths of an LSTM's sequences are an input: none may exceed the longest sequence."""
    text = """g (float[6,2,64] x, int32[2] lengths) => (float[6,1,2,32] y)
        { y = LSTM <hidden_size = 32> (x, W, R, , lengths) }"""
    return model(text, {"W": weight(1, 128, 64, seed=1), "R": weight(1, 128, 32, seed=2)})


def lengths() -> list[Feed]:
    return [
        {"x": weight(6, 2, 64, seed=7, scale=1.0), "lengths": np.array(n, np.int32)} for n in ([6, 3], [1, 6])
    ]


def shared_symbolic_dims() -> ModelProto:
    """Two inputs share the names of their dimensions, one has a sum of two: sizes can't be chosen apart."""
    text = """g (float[batch,seq,64] x, float[batch,seq,64] z, float[batch,past_plus_seq] mask)
        => (float[batch,seq,64] y, float[batch,past_plus_seq] m) { a = Add(x, z) y = MatMul(a, W) m =
        Neg(mask) }"""
    return model(text, W64)


def symbolic() -> list[Feed]:
    sizes = ((1, 3, 3), (2, 5, 7))
    return [
        {"x": weight(b, s, 64, seed=7), "z": weight(b, s, 64, seed=8), "mask": weight(b, p, seed=9)}
        for b, s, p in sizes
    ]


def empty_cache() -> ModelProto:
    """Past keys of length 0 at the first step: the cache has no elements, its output has some."""
    text = """g (float[1,new,64] x, float[1,4,past,16] past_key) => (float[1,4,new,total] y,
        float[1,4,total,16] key) {
        k = MatMul(x, K) r = Reshape(k, split) t = Transpose <perm = [0, 2, 1, 3]> (r)
        key = Concat <axis = 2> (past_key, t) q = MatMul(x, W) s = Reshape(q, split)
        u = Transpose <perm = [0, 2, 1, 3]> (s) v = Transpose <perm = [0, 1, 3, 2]> (key) w = MatMul(u, v)
        y = Softmax <axis = -1> (w) }"""
    return model(text, {**W64, "K": weight(64, 64, seed=2), "split": np.array([1, -1, 4, 16], np.int64)})


def cache() -> list[Feed]:
    return [
        {"x": weight(1, n, 64, seed=7), "past_key": weight(1, 4, past, 16, seed=8)}
        for n, past in ((5, 0), (1, 5))
    ]


def echo_output() -> ModelProto:
    """Two outputs only repeat the input, so they pass whatever is done to the weights; one does not."""
    text = """g (float[2,64] x) => (float[2,64] x, float[2,64] same, float[2,64] y) { same = Identity(x)
        y = MatMul(x, W) }"""
    return model(text, W64)


def only_echo() -> ModelProto:
    """Only echoes: the weights feed nothing, and equal outputs prove nothing."""
    return model("g (float[2,64] x) => (float[2,64] y) { y = Identity(x) dead = MatMul(x, W) }", W64)


def constant_output() -> ModelProto:
    """An output that no input reaches, and one that is the same for every input."""
    text = """g (float[2,64] x) => (float[64,64] y, float[2,64] z) { y = MatMul(W, W) h = MatMul(x, W) z
        = Mul(h, zero) }"""
    return model(text, {**W64, "zero": np.float32(0.0)})


def batch_dependent_quantization() -> ModelProto:
    """The input's range sets the scale of the batch: one sample changes the answers to the others."""
    text = """g (float[b,64] x) => (float[b,64] y) { q, s, z = DynamicQuantizeLinear(x) i =
        MatMulInteger(q, Q, z)
        f = Cast <to = 1> (i) h = Mul(f, s) y = MatMul(h, W) }"""
    return model(text, {**W64, "Q": rng(2).integers(-128, 128, (64, 64)).astype(np.int8)})


def batches() -> list[Feed]:
    plain = weight(1, 64, seed=7, scale=1.0)
    return [{"x": plain}, {"x": np.concatenate([plain, plain * np.float32(50)])}]


def near_zero_segmentation() -> ModelProto:
    """White noise gives a mask near zero everywhere, where relative errors explode; a picture does not."""
    text = """g (float[1,3,16,16] x) => (float[1,1,16,16] y) {
        p = AveragePool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)
        h = Conv(p, W) r = Relu(h) c = Conv(r, V, b) y = Sigmoid(c) }"""
    weights = {"W": np.abs(weight(1024, 3, 1, 1, seed=1)), "V": np.abs(weight(1, 1024, 1, 1, seed=2))}
    return model(text, {**weights, "b": np.array([-14.0], np.float32)})


def pictures() -> list[Feed]:
    smooth = np.zeros((1, 3, 16, 16), np.float32)
    smooth[:, :, 4:12, 4:12] = 2.0
    return [{"x": smooth}, {"x": weight(1, 3, 16, 16, seed=7, scale=1.0)}]


def saturated_classifier() -> ModelProto:
    """White noise drives the softmax to certainty, whatever the weights; faint inputs do not."""
    text = """g (float[1,64] x) => (float[1,64] y) { h = MatMul(x, W) s = Mul(h, hot) y = Softmax <axis =
        -1> (s) }"""
    return model(text, {**W64, "hot": np.float32(50.0)})


def faint() -> list[Feed]:
    return [{"x": weight(1, 64, seed=7, scale=0.01)}, {"x": weight(1, 64, seed=7, scale=1.0)}]


def discrete_outputs() -> ModelProto:
    """Integers, booleans and a tie: a tiny change flips them, and cosine says little about them."""
    text = """g (float[2,64] x) => (int64[2,1] best, bool[2,64] on, int64[2,1] tie) {
        h = MatMul(x, W) best = ArgMax <axis = 1> (h) on = Greater(h, limit) d = Mul(h, zero)
        tie = ArgMax <axis = 1> (d) }"""
    return model(text, {**W64, "limit": np.float32(0.25), "zero": np.float32(0.0)})


def sequence_output() -> ModelProto:
    """An output that is a sequence of tensors, not a tensor."""
    top = graph("g (float[6,64] x) => () { h = MatMul(x, W) y = SplitToSequence <axis = 0> (h, two) }")
    top.output.append(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))
    top.initializer.extend(model("g () => () { }", {**W64, "two": np.int64(2)}).graph.initializer)
    return model(top)


def map_output() -> ModelProto:
    """scikit-learn's converters return a list of dictionaries."""
    top = graph("""g (float[2,64] x) => (int64[2] label) {
        h = MatMul(x, W) p = Softmax <axis = 1> (h) l = ArgMax <axis = 1, keepdims = 0> (h) label =
        Identity(l)
        probabilities = ai.onnx.ml.ZipMap(p) }""")
    top.node[-1].attribute.append(helper.make_attribute("classlabels_int64s", list(range(64))))
    pair = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    top.output.append(helper.make_value_info("probabilities", pair))
    top.initializer.extend(model("g () => () { }", W64).graph.initializer)
    return model(top, domains={"ai.onnx.ml": 1})


def input_types() -> ModelProto:
    """Inputs of many types and ranks, a scalar and a string among them."""
    text = """g (float x, bool[2] b, float16[2,64] h, int32[2] i, uint8[2,64] u, double[1] d, string[2]
        s, int8[2,64] e)
        => (float[2,64] y, string[2] t, double[1] f) {
        p = Cast <to = 1> (h) q = MatMul(p, W) r = Mul(q, x) v = Cast <to = 1> (u) w = Add(r, v) a = Cast
        <to = 1> (e)
        c = Add(w, a) j = Cast <to = 1> (i) k = Unsqueeze(j, one) l = Add(c, k) m = Unsqueeze(b, one)
        y = Where(m, l, w) t = Identity(s) f = Neg(d) }"""
    return model(text, {**W64, "one": np.array([1], np.int64)})


def cancellation() -> ModelProto:
    """Large sums that nearly cancel: the order of additions, so the machine, shows in the first digits."""
    text = "g (float[2,4096] x) => (float[2,1] y) { a = MatMul(x, A) b = MatMul(x, B) y = Sub(a, b) }"
    one = weight(4096, 1, seed=1, scale=100.0)
    return model(text, {"A": one, "B": one * np.float32(1 + 1e-6)})


def bfloat16_output() -> ModelProto:
    """It runs, but numpy has no bfloat16, so onnxruntime can't hand the output to Python."""
    return model("g (float[2,64] x) => (bfloat16[2,64] y) { h = MatMul(x, W) y = Cast <to = 16> (h) }", W64)


RUNNING: tuple[Trap, ...] = (
    trap(random_ops, repeats=False),
    trap(
        random_noise_scaled_to_nothing,
        feeds=lambda: [{"x": weight(2, 64, seed=7), "scale": np.array(0, np.float32)}],
    ),
    trap(seeded_random),
    trap(shape_from_values),
    trap(boxes),
    trap(token_ids, feeds=tokens),
    trap(sequence_lengths, feeds=lengths),
    trap(shared_symbolic_dims, feeds=symbolic),
    trap(empty_cache, feeds=cache),
    trap(echo_output),
    trap(only_echo),
    trap(constant_output),
    trap(batch_dependent_quantization, feeds=batches),
    trap(near_zero_segmentation, feeds=pictures),
    trap(saturated_classifier, feeds=faint),
    trap(discrete_outputs),
    trap(sequence_output),
    trap(map_output),
    trap(input_types),
    trap(cancellation),
    trap(bfloat16_output, runs=False),
)
