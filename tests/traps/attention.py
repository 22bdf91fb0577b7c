"""A transformer layer as exporters write it: heads not to be guessed, masks that are no length."""

from __future__ import annotations

import numpy as np
import onnx

from tests.traps.base import Feed, Trap, constant, model, trap, weight

HEADS, SIZE = 4, 8
WIDTH = HEADS * SIZE
PARTS = "qkv"

LAYER = """g (float[b,s,{width}] x, int64[b,s] mask) => (float[b,s,{width}] y) {{
    r = LayerNormalization <axis = -1> (x, ln1, lb1)
    qm = MatMul(r, qw)  qa = Add(qb, qm)  {split_q}  qt = Transpose <perm = [0,2,1,3]> (qr)
    km = MatMul(r, kw)  ka = Add(kb, km)  {split_k}  kt = Transpose <perm = [0,2,3,1]> (kr)
    vm = MatMul(r, vw)  va = Add(vb, vm)  {split_v}  vt = Transpose <perm = [0,2,1,3]> (vr)
    raw = MatMul(qt, kt)  scaled = Div(raw, root)
    m3 = Unsqueeze(mask, one_axis)  m4 = Unsqueeze(m3, two_axis)  mf = Cast <to = 1> (m4)
    off = Sub(one, mf)  bias = Mul(off, lowest)  scores = Add(scaled, bias)
    p = Softmax <axis = -1> (scores)
    c = MatMul(p, vt)  ct = Transpose <perm = [0,2,1,3]> (c)  joined = Reshape(ct, whole)
    om = MatMul(joined, ow)  oa = Add(om, ob)  o = Add(oa, r)
    n = LayerNormalization <axis = -1> (o, ln2, lb2)
    um = MatMul(n, uw)  u = Add(um, ub)  ud = Div(u, root2)  ue = Erf(ud)  up = Add(ue, one)
    uu = Mul(u, up)  ug = Mul(uu, half)  dm = MatMul(ug, dw)  d = Add(dm, db)  f = Add(d, n)
    y = LayerNormalization <axis = -1> (f, ln3, lb3) }}"""
STORED = "{p}r = Reshape({p}a, {p}s)"
COMPUTED = """{p}1 = Shape({p}a)  {p}2 = Gather <axis = 0> ({p}1, zero)  {p}3 = Unsqueeze({p}2, zero_axis)
    {p}4 = Gather <axis = 0> ({p}1, first)  {p}5 = Unsqueeze({p}4, zero_axis)
    {p}s = Concat <axis = 0> ({p}3, {p}5, {p}h, {p}d)  {p}r = Reshape({p}a, {p}s)"""


def layer(
    *,
    heads: int = HEADS,
    split: tuple[int, int] | None = None,
    split_k: tuple[int, int] | None = None,
    computed: bool = False,
    scale: float | None = None,
) -> onnx.ModelProto:
    """`split` is what the Reshape of q, k and v says of (heads, size): -1 is for what it leaves open."""
    said = dict.fromkeys(PARTS, split or (heads, WIDTH // heads)) | ({"k": split_k} if split_k else {})
    text = {f"split_{p}": (COMPUTED if computed else STORED).format(p=p) for p in PARTS}
    made = {**_weights(scale or (WIDTH / heads) ** 0.5), **_shapes(said, computed)}
    return model(LAYER.format(width=WIDTH, **text), made)


def _weights(root: float) -> dict[str, np.ndarray]:
    sizes = {f"{p}w": (WIDTH, WIDTH) for p in "qkvo"} | {"uw": (WIDTH, 4 * WIDTH), "dw": (4 * WIDTH, WIDTH)}
    made = {name: weight(*size, seed=n, scale=0.3) for n, (name, size) in enumerate(sizes.items())}
    made |= {f"{p}b": weight(made[f"{p}w"].shape[1], seed=20 + n) for n, p in enumerate("qkvoud")}
    made |= {f"l{kind}{n}": weight(WIDTH, seed=30 + n) + (kind == "n") for kind in "nb" for n in (1, 2, 3)}
    numbers = {"root": root, "root2": 2**0.5, "one": 1, "half": 0.5, "lowest": np.finfo(np.float32).min}
    axes = {
        "zero_axis": [0],
        "one_axis": [1],
        "two_axis": [2],
        "zero": 0,
        "first": 1,
        "whole": [0, -1, WIDTH],
    }
    made |= {name: np.array(value, np.float32) for name, value in numbers.items()}
    return made | {name: np.array(value, np.int64) for name, value in axes.items()}


def _shapes(said: dict[str, tuple[int, int]], computed: bool) -> dict[str, np.ndarray]:
    if not computed:
        return {f"{p}s": np.array([0, -1 if -1 not in said[p] else 0, *said[p]]) for p in PARTS}
    return {f"{p}{kind}": np.array([said[p][n]]) for p in PARTS for n, kind in enumerate("hd")}


def stacked(first: onnx.ModelProto, second: onnx.ModelProto | None = None) -> onnx.ModelProto:
    """Two layers; without a second one the first is there twice, with the same weights."""
    upper = onnx.ModelProto()
    upper.CopyFrom(second or first)
    stored = {t.name for t in first.graph.initializer} if second is None else set()
    names = {name: f"{name}.2" for n in upper.graph.node for name in (*n.input, *n.output)}
    names |= {name: name for name in (*stored, "mask", "y")} | {"x": "middle"}
    for node in upper.graph.node:
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
    first.graph.node[-1].output[0] = "middle"
    first.graph.node.extend(upper.graph.node)
    for tensor in upper.graph.initializer if second else ():
        tensor.name += ".2"
        first.graph.initializer.append(tensor)
    return first


def with_hidden_shapes(made: onnx.ModelProto) -> onnx.ModelProto:
    """The shapes of q, k and v are multiplied by a one that only a run gives."""
    text = """g (float[b,s,1] x) => (int64[1] ones) {
        first_dim = Shape <start = 0, end = 1> (x) ones = Div(first_dim, first_dim) }"""
    nodes = [*model(text).graph.node]
    nodes += [onnx.helper.make_node("Mul", [f"{p}s", "ones"], [f"{p}s.run"]) for p in PARTS]
    for node in made.graph.node:
        node.input[:] = [f"{name}.run" if name in ("qs", "ks", "vs") else name for name in node.input]
    nodes += made.graph.node
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def with_constants(made: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, its weights in Constant nodes."""
    nodes = [constant(t.name, onnx.numpy_helper.to_array(t)) for t in made.graph.initializer]
    nodes += made.graph.node
    del made.graph.initializer[:], made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def padded() -> list[Feed]:
    """Padding at the end, at the front, and in between: a mask is not a length."""
    masks = ([1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 1])
    x = weight(2, 5, WIDTH, seed=50, scale=1.0)
    return [{"x": x, "mask": np.array([mask, [1] * 5], np.int64)} for mask in masks]


def mask_is_no_length() -> onnx.ModelProto:
    """Tools that count the ones of a mask are wrong unless all padding is at the end."""
    return layer()


def heads_in_a_concat() -> onnx.ModelProto:
    """The number of heads stands in one of the parts of a shape, and weights in Constants."""
    return with_constants(layer(computed=True))


def heads_from_the_width() -> onnx.ModelProto:
    """A shape that leaves the number of heads open: only the width of the projection tells."""
    return layer(split=(-1, SIZE), computed=True)


def heads_at_run_time() -> onnx.ModelProto:
    """A graph that does not tell the number of heads: any guess that divides the width loads and runs."""
    return with_hidden_shapes(layer())


ATTENTION: tuple[Trap, ...] = tuple(
    trap(make, feeds=padded)
    for make in (mask_is_no_length, heads_in_a_concat, heads_from_the_width, heads_at_run_time)
)
