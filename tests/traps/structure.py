"""Structure: what is an input, an output or a name, and what only looks like one."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tests.traps.base import Array, Feed, Trap, model, trap, weight
from tests.traps.constants import CONSTANTS
from tests.traps.control_flow import CONTROL_FLOW, both_ways
from tests.traps.domains import DOMAINS

# What methods append to a weight's name, here and in other tools
SUFFIXES = (
    *(
        "_quantized",
        "_scale",
        "_zero_point",
        "_fp16",
        "_f16",
        "_float16",
        "_cast",
        "_Cast",
        "_q",
        "_q8",
        "_int8",
    ),
    *(
        "_i8",
        "_int4",
        "_q4",
        "_dequantized",
        "_dequant",
        "_dq",
        "_DequantizeLinear_Output",
        "_QuantizeLinear",
    ),
    *("_output", "_shared", "_dedup", "_merged", "_packed", "_codes", "_table", "_levels", "_mul", "_offset"),
    *("_min", "_1", "_0", "_onnx_ci", "__onnx_ci", ".onnx_ci", "_new", "_copy", "_bias", "_shape", "_expand"),
)


def overridable_weight() -> ModelProto:
    """W may be given by the caller, V equals it but may not: neither W changed nor V merged into W."""
    same = weight(64, 64, seed=1)
    text = """g (float[2,64] x, float[64,64] W) => (float[2,64] y, float[2,64] z)
        { y = MatMul(x, W) z = MatMul(x, V) }"""
    return model(text, {"W": same, "V": same})


def overrides() -> list[Feed]:
    x = weight(2, 64, seed=7, scale=1.0)
    return [{"x": x}, {"x": x, "W": weight(64, 64, seed=9)}]


def overridable_weight_in_branch() -> ModelProto:
    """The overridable weight is used only inside a branch, next to an equal one that is constant."""
    same = weight(64, 64, seed=1)
    text = """g (float[2,64] x, bool c, float[64,64] W) => (float[2,64] y) {
        y = If (c) <then_branch = t () => (float[2,64] p) { p = MatMul(x, W) },
                    else_branch = e () => (float[2,64] q) { q = MatMul(x, V) }> }"""
    return model(text, {"W": same, "V": same})


def branch_overrides() -> list[Feed]:
    return [{**feed, "c": np.array(way)} for feed in overrides() for way in (True, False)]


def all_weights_are_inputs() -> ModelProto:
    """IR 3 wants every initializer among the inputs: a new one has to be listed, a dropped one unlisted."""
    same = weight(64, 64, seed=1)
    weights = {"W": same, "V": same, "b": weight(64, seed=2), "idle": weight(64, 64, seed=3)}
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) r = Add(h, b) y = MatMul(r, V) }"
    made = model(text, weights, opset=8, ir=3)
    made.graph.input.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in weights.items()
    )
    return made


def defaults_around_inputs() -> ModelProto:
    """Inputs with a default stand before and between those that must be fed, whose order stays; one
    of them nobody reads, one is the shape of a Reshape, one says less of its sizes than its value does."""
    text = """g (float[N,64] W, float[2,64] x, int64[2] to, float[3] idle, float[2,64] z) => (float[128,1] y)
        { h = MatMul(x, W) s = Add(h, z) y = Reshape(s, to) }"""
    weights: dict[str, Array] = {"W": weight(64, 64, seed=1), "idle": weight(3, seed=2)}
    weights["to"] = np.array([-1, 1], np.int64)
    return model(text, weights)


def default_for_a_loop() -> ModelProto:
    """What a loop multiplies with, and how often it runs, are inputs with a default."""
    text = """g (float[2,64] x, int64 often, bool go, float[64,64] W) => (float[2,64] y)
        { y = Loop (often, go, x) <body = b (int64 i, bool c, float[2,64] s) => (bool d, float[2,64] t)
            { d = Identity(c) t = MatMul(s, W) }> }"""
    return model(text, {"often": np.array(3), "go": np.array(True), "W": weight(64, 64, seed=1)})


def half_weight_is_input() -> ModelProto:
    """A weight is stored as fp16, is a graph input too, and is computed with in float32."""
    text = """g (float[2,64] x, float16[64,64] H) => (float[2,64] y)
        { W = Cast <to = 1> (H) y = MatMul(x, W) }"""
    return model(text, {"H": weight(64, 64, seed=1).astype(np.float16)})


def weight_is_output() -> ModelProto:
    """W is computed with and handed out; V and U are equal to it, and U is handed out too."""
    same = weight(64, 64, seed=1)
    text = """g (float[2,64] x) => (float[2,64] y, float[64,64] W, float[64,64] U)
        { h = MatMul(x, V) y = MatMul(h, W) }"""
    return model(text, {"V": same, "W": same, "U": same})


def weight_is_input_and_output() -> ModelProto:
    """W is an initializer, an input with that default, and an output."""
    text = """g (float[2,64] x, float[64,64] W) => (float[2,64] y, float[64,64] W) { y = MatMul(x, W) }"""
    return model(text, {"W": weight(64, 64, seed=1)})


def unused_everything() -> ModelProto:
    """An input, weights and nodes that nothing needs; the input must stay, the rest may go."""
    text = """g (float[2,64] x, float[3] spare) => (float[2,64] y)
        { y = MatMul(x, W) dead = MatMul(x, V) deader = Relu(dead) }"""
    weights = {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2), "idle": weight(64, 64, seed=3)}
    return model(text, weights)


def optional_inputs() -> ModelProto:
    """The empty name means "not given": it is no tensor, in the middle or at the end of the inputs."""
    text = """g (float[2,64] x) => (float[2,64] y, float[1,2,128] r)
        { a = MatMul(x, W) b = Clip(a, NONE, hi) c = Clip(b, lo, NONE) d = Clip(c, NONE, NONE)
          e = Unsqueeze(d, axes) r = Resize(e, NONE, NONE, sizes) y = MatMul(d, V) }"""
    same = weight(64, 64, seed=1)
    weights = {"hi": np.float32(0.5), "lo": np.float32(-0.5), "W": same, "V": same}
    sizes = {"axes": np.array([0], np.int64), "sizes": np.array([1, 2, 128], np.int64)}
    return _without(model(text, {**weights, **sizes}))


def optional_outputs() -> ModelProto:
    """Two nodes leave out outputs: the empty name is not one value that both of them make."""
    text = """g (float[2,1,64] x) => (float[1,1,16] y, float[1,1,16] z) {
        NONE, y = LSTM <hidden_size = 16> (x, W, R) NONE, NONE, z = LSTM <hidden_size = 16> (x, W2, R2) }"""
    weights = {"W": weight(1, 64, 64, seed=1), "R": weight(1, 64, 16, seed=2)}
    return _without(model(text, {**weights, "W2": weights["W"], "R2": weights["R"]}))


def _without(made: ModelProto) -> ModelProto:
    """NONE becomes the empty name, which older parsers do not take everywhere."""
    for node in made.graph.node:
        for names in (node.input, node.output):
            names[:] = ["" if name == "NONE" else name for name in names]
    return made


def _four_layers(names: tuple[str, ...]) -> ModelProto:
    text = """g (float[2,64] x) => (float[2,64] y)
        { a = MatMul(x, A) b = MatMul(a, B) c = MatMul(b, C) y = MatMul(c, D) }"""
    made = model(text, {name: weight(64, 64, seed=seed) for seed, name in enumerate("ABCD")})
    for node, name in zip(made.graph.node, names, strict=True):
        node.name = name
    return made


def unnamed_nodes() -> ModelProto:
    """Nodes without a name: a node is not known by its name."""
    return _four_layers(("", "MatMul_0", "", ""))


def duplicate_node_names() -> ModelProto:
    """Nodes that share a name, which onnx allows and onnxruntime refuses."""
    return _four_layers(("same", "", "same", "same"))


def duplicate_node_names_in_branches() -> ModelProto:
    """The same node name in the main graph and in both branches, which onnxruntime allows."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) { h = MatMul(x, W)
        y = If (c) <then_branch = t () => (float[2,64] p) { p = MatMul(h, V) },
                    else_branch = e () => (float[2,64] q) { q = MatMul(h, U) }> }"""
    made = model(text, {name: weight(64, 64, seed=seed) for seed, name in enumerate("WVU")})
    made.graph.node[0].name = "same"
    for attribute in made.graph.node[1].attribute:
        attribute.g.node[0].name = "same"
    return made


def node_named_like_a_tensor() -> ModelProto:
    """Nodes, tensors, inputs and the graph share names; each kind is a namespace of its own."""
    made = model("W (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }")
    made.graph.initializer.extend(model("g () => () { }", _pair()).graph.initializer)
    for node, name in zip(made.graph.node, ("W", "x"), strict=True):
        node.name = name
    return made


def _pair() -> dict[str, np.ndarray]:
    return {"W": weight(64, 64, seed=1), "V": weight(64, 64, seed=2)}


def names_with_taken_suffixes() -> ModelProto:
    """W plus each suffix that a method may add is already the name of another tensor, in use."""
    taken = ["W" + suffix for suffix in SUFFIXES]
    terms = " ".join(f"t{n + 1} = Add(t{n}, n{n})" for n in range(len(taken)))
    text = f"g (float[2,64] x) => (float[2,64] y) {{ t0 = MatMul(x, W) {terms} y = Neg(t{len(taken)}) }}"
    made = model(text, {"W": weight(64, 64, seed=1)})
    for at, name in enumerate(taken):  # the text form can't spell all of these names
        made.graph.node[at + 1].input[1] = name
    extra = {name: weight(64, seed=seed) for seed, name in enumerate(taken)}
    made.graph.initializer.extend(model("g () => () { }", extra).graph.initializer)
    return made


def names_taken_inside_branch() -> ModelProto:
    """The suffixed names are taken inside a branch only, as node outputs: a new outer one is illegal."""
    taken = ["W" + suffix for suffix in SUFFIXES]
    chain = " ".join(f"n{n + 1} = Neg(n{n})" for n in range(len(taken)))
    text = f"""g (float[2,64] x, bool c) => (float[2,64] y) {{ h = MatMul(x, W)
        y = If (c) <then_branch = t () => (float[2,64] p) {{ n0 = MatMul(h, W) {chain} p =
        Neg(n{len(taken)}) }},
                    else_branch = e () => (float[2,64] q) {{ q = Neg(h) }}> }}"""
    made = model(text, {"W": weight(64, 64, seed=1)})
    inner = made.graph.node[1].attribute[0].g
    for at, name in enumerate(taken):
        inner.node[at + 1].output[0] = name
        inner.node[at + 2].input[0] = name
    return made


def outputs_with_taken_suffixes() -> ModelProto:
    """The suffixed names are the graph's own inputs and outputs."""
    text = """g (float[2,64] x, float[64] W_scale, float[64] W_fp16) => (float[2,64] W_cast, float[2,64]
        W_quantized)
        { h = MatMul(x, W) m = Mul(h, W_scale) W_cast = Add(m, W_fp16) W_quantized = Neg(h) }"""
    return model(text, {"W": weight(64, 64, seed=1)})


def odd_names() -> ModelProto:
    """Tensor names with slashes, colons, spaces, quotes, line breaks and other scripts, one very long."""
    names = [
        "/model/layer.0/MatMul:0",
        "a b\t'c'\"d\"",
        "line\nbreak",
        "重み",
        "w" * 5000,
        "0",
        "../up",
        "%s{}",
    ]
    text = " ".join(f"t{n + 1} = MatMul(t{n}, w{n})" for n in range(len(names)))
    made = model(f"g (float[2,64] t0) => (float[2,64] t{len(names)}) {{ {text} }}")
    for at, name in enumerate(names):
        made.graph.node[at].input[1] = name
    weights = {name: weight(64, 64, seed=seed % 4) for seed, name in enumerate(names)}
    made.graph.initializer.extend(model("g () => () { }", weights).graph.initializer)
    return made


def weights_with_declared_types() -> ModelProto:
    """value_info also gives the types of the weights and values: a weight's new type contradicts it."""
    made = model("g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }", _pair())
    for name, shape in (("W", (64, 64)), ("V", (64, 64)), ("h", (2, 64))):
        made.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return made


def notes_everywhere() -> ModelProto:
    """Doc strings, metadata, annotations and versions that a rewrite must keep or drop on purpose."""
    same = weight(64, 64, seed=1)
    made = model(
        "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }", {"W": same, "V": same}
    )
    made.doc_string, made.domain, made.model_version, made.producer_version = (
        "model " * 200,
        "org.traps",
        42,
        "1.2",
    )
    helper.set_model_props(made, {"author": "someone", "names": "{0: 'cat'}", "empty": ""})
    top = made.graph
    noted = [top, *top.node, *top.initializer, *top.input, *top.output]
    for item in noted:
        item.doc_string = "a note " * 20
    note = top.quantization_annotation.add(tensor_name="W")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="V")
    top.input[0].type.denotation = "TENSOR"
    return made


def duplicate_weight_names() -> ModelProto:
    """Two initializers of one name and other values: which one counts is for onnxruntime to say."""
    made = model("g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }", _pair())
    made.graph.initializer[1].name = "W"
    made.graph.node[1].input[1] = "W"
    return made


def unsorted_nodes() -> ModelProto:
    """Nodes stand before those they need, which onnxruntime forgives and the checker does not."""
    made = model("g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }", _pair())
    nodes = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend(reversed(nodes))
    return made


def no_nodes() -> ModelProto:
    """A graph without nodes whose output is a weight."""
    return model(
        "g () => (float[64,64] W) { }", {"W": weight(64, 64, seed=1), "idle": weight(64, 64, seed=1)}
    )


def shared_weight() -> ModelProto:
    """One weight has users of several kinds and positions: data of one, left and right side of another."""
    text = """g (float[2,64] x, int64[2] at) => (float[2,64] y, float[64,64] n) {
        a = MatMul(x, W) t = Transpose <perm = [1, 0]> (W) b = MatMul(a, t)
        r = Gather(W, at) s = Add(b, r) y = Gemm <transB = 1> (s, W) n = MatMul(W, W) }"""
    return model(text, {"W": weight(64, 64, seed=1)})


STRUCTURE: tuple[Trap, ...] = (
    trap(overridable_weight, feeds=overrides),
    trap(overridable_weight_in_branch, feeds=branch_overrides),
    trap(all_weights_are_inputs),
    trap(defaults_around_inputs),
    trap(default_for_a_loop),
    # onnxruntime 1.23 crashes on it, and with it the process of the tests.
    *(() if version("onnxruntime").startswith("1.23.") else (trap(half_weight_is_input),)),
    trap(weight_is_output),
    trap(weight_is_input_and_output, feeds=overrides),
    trap(unused_everything),
    trap(optional_inputs),
    trap(optional_outputs),
    trap(unnamed_nodes),
    trap(duplicate_node_names, runs=False),
    trap(duplicate_node_names_in_branches, feeds=both_ways),
    trap(node_named_like_a_tensor),
    trap(names_with_taken_suffixes),
    trap(names_taken_inside_branch),
    trap(outputs_with_taken_suffixes),
    trap(odd_names),
    trap(weights_with_declared_types),
    trap(notes_everywhere),
    trap(unsorted_nodes, checks=False),
    trap(duplicate_weight_names, checks=False),
    trap(no_nodes),
    trap(shared_weight),
    *CONTROL_FLOW,
    *CONSTANTS,
    *DOMAINS,
)
