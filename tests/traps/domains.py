"""Structure: functions, domains, custom ops, and what else a model carries besides its graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, TrainingInfoProto, helper

from tests.traps.base import FILE, Trap, built, constant, encode, graph, model, tensor, trap, weight


def _function(
    name: str, nodes: list[NodeProto], inputs: list[str], outputs: list[str], **more: Any
) -> FunctionProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, inputs, outputs, nodes, imports, **more)


def local_functions() -> ModelProto:
    """A function holds a weight, is called twice, and its inner names are those of the main graph."""
    same = weight(64, 64, seed=1)
    made = model(
        """g (float[2,64] x) => (float[2,64] y) { h = local.Layer(x, W) k = local.Layer(h, V) y =
            MatMul(k, U) }""",
        {"W": same, "V": weight(64, 64, seed=2), "U": same},
        domains={"local": 1},
    )
    body = [constant("U", same), helper.make_node("MatMul", ["x", "U"], ["h"])]
    body.append(helper.make_node("MatMul", ["h", "W"], ["y"]))
    made.functions.append(_function("Layer", body, ["x", "W"], ["y"]))
    return made


def nested_functions() -> ModelProto:
    """A function with a weight in a branch calls another; attributes by reference and by default."""
    made = model(
        """g (float[2,64] x, bool c) => (float[2,64] y) { h = local.Outer <slope = 0.5> (x, c) y =
            MatMul(h, W) }""",
        {"W": weight(64, 64, seed=1)},
        domains={"local": 1},
    )
    leaky = helper.make_node("LeakyRelu", ["x"], ["r"])
    leaky.attribute.append(_reference("alpha", "slope"))
    elu = helper.make_node("Elu", ["r"], ["y"])
    elu.attribute.append(_reference("alpha", "bend"))
    bend = [helper.make_attribute("bend", 0.25)]
    inner = _function("Inner", [leaky, elu], ["x"], ["y"], attributes=["slope"], attribute_protos=bend)
    call = helper.make_node("Inner", ["m"], ["y"], domain="local")
    call.attribute.append(_reference("slope", "slope"))
    then = graph("t () => (float[2,64] p) { p = MatMul(x, V) }")
    then.node.insert(0, constant("V", weight(64, 64, seed=2)))
    other = graph("e () => (float[2,64] q) { q = Neg(x) }")
    branch = helper.make_node("If", ["c"], ["m"], then_branch=then, else_branch=other)
    made.functions.extend(
        [_function("Outer", [branch, call], ["x", "c"], ["y"], attributes=["slope"]), inner]
    )
    return made


def _reference(name: str, to: str) -> AttributeProto:
    return AttributeProto(name=name, ref_attr_name=to, type=AttributeProto.FLOAT)


def function_overloads() -> ModelProto:
    """IR 10: two functions of one name, told apart by their overload, each with its own weight."""
    text = """g (float[2,64] x) => (float[2,64] y) { h = local.Layer(x) y = local.Layer(h) }"""
    made = model(text, {"idle": weight(64, 64, seed=1)}, ir=10, domains={"local": 1})
    for seed, (node, overload) in enumerate(zip(made.graph.node, ("one", "two"), strict=True)):
        node.overload = overload
        body = [constant("W", weight(64, 64, seed=seed)), helper.make_node("MatMul", ["x", "W"], ["y"])]
        function = _function("Layer", body, ["x"], ["y"])
        function.overload = overload
        made.functions.append(function)
    return made


def unused_function() -> ModelProto:
    """A function that nothing calls holds a large weight, equal to one in use."""
    same = weight(64, 64, seed=1)
    made = model(
        "g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }", {"W": same}, domains={"local": 1}
    )
    body = [constant("W", same), helper.make_node("MatMul", ["x", "W"], ["y"])]
    made.functions.append(_function("Idle", body, ["x"], ["y"]))
    return made


def function_named_like_an_op() -> ModelProto:
    """A function of another domain is called Relu and does something else."""
    made = model(
        "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) k = local.Relu(h) y = Relu(k) }",
        {"W": weight(64, 64, seed=1)},
        domains={"local": 1},
    )
    made.functions.append(_function("Relu", [helper.make_node("Neg", ["x"], ["y"])], ["x"], ["y"]))
    return made


def custom_op() -> ModelProto:
    """An op of a domain that no library here knows, with weights and a tensor attribute of its own."""
    same = weight(64, 64, seed=1)
    made = model(
        """g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, V) k = com.example.Mix(h, W) y =
            MatMul(k, U) }""",
        {"W": same, "V": same, "U": weight(64, 64, seed=2)},
        domains={"com.example": 3},
    )
    made.graph.node[1].attribute.append(helper.make_attribute("table", tensor("table", same)))
    return made


def contrib_op() -> ModelProto:
    """onnxruntime's own domain runs, but onnx has no schema of it, so types can't be inferred through it."""
    text = """g (float[2,64] x) => (float[2,64] y) {
        a = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, W)
        b = com.microsoft.Gelu(a) y = MatMul(b, V) }"""
    same = weight(64, 64, seed=1)
    return model(text, {"W": same, "V": same}, domains={"com.microsoft": 1})


def unknown_domain_import() -> ModelProto:
    """A domain is imported that no node uses: the import is part of the model and stays."""
    text = "g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }"
    return model(text, {"W": weight(64, 64, seed=1)}, domains={"com.example": 7})


def spelled_out_domain() -> ModelProto:
    """ "ai.onnx" is another spelling of the empty domain, in the nodes and in the imports."""
    made = model(
        "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = Relu(h) }", {"W": weight(64, 64, seed=1)}
    )
    made.opset_import[0].domain = "ai.onnx"
    made.graph.node[0].domain = "ai.onnx"
    return made


def two_default_imports() -> ModelProto:
    """The default domain is imported twice, as "" and as "ai.onnx"."""
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = Relu(h) }"
    return model(text, {"W": weight(64, 64, seed=1)}, domains={"ai.onnx": 17})


def two_default_imports_that_differ() -> ModelProto:
    """As before, with two versions: 12 and 17 differ in what a node means."""
    text = "g (float[2,4,64] x) => (float[2,4,64] y) { h = MatMul(x, W) y = Softmax(h) }"
    return model(text, {"W": weight(64, 64, seed=1)}, domains={"ai.onnx": 12})


def later_opset() -> ModelProto:
    """An opset that no library here knows yet: it can be deduplicated, not run."""
    same = weight(64, 64, seed=1)
    text = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }"
    return model(text, {"W": same, "V": same}, opset=999)


def later_ir() -> ModelProto:
    """A version of the format that no library here knows yet."""
    text = "g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }"
    return model(text, {"W": weight(64, 64, seed=1)}, ir=999)


def training_info() -> ModelProto:
    """The model carries a training graph that uses the weights of the main graph by name."""
    made = model("g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }", {"W": weight(64, 64, seed=1)})
    step = graph("step () => (float[64,64] W_next) { W_next = Sub(W, rate) }", {"rate": np.float32(0.1)})
    info = TrainingInfoProto(algorithm=step)
    info.update_binding.add(key="W", value="W_next")
    start = graph("start () => (float[64,64] W_first) { }", {"W_first": weight(64, 64, seed=1)})
    info.initialization.CopyFrom(start)
    info.initialization_binding.add(key="W", value="W_first")
    made.training_info.append(info)
    return made


def ep_context(embed: int, cache: bytes | str) -> ModelProto:
    made = model(
        "g (float[2,64] x) => (float[2,64] y) { h = com.microsoft.EPContext(x) y = MatMul(h, W) }",
        {"W": weight(64, 64, seed=1)},
        domains={"com.microsoft": 1},
    )
    made.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [2, 64]))
    values = {
        "embed_mode": embed,
        "ep_cache_context": cache,
        "main_context": 1,
        "source": "SomeExecutionProvider",
    }
    made.graph.node[0].attribute.extend(helper.make_attribute(key, value) for key, value in values.items())
    return made


def ep_context_embedded() -> ModelProto:
    """A compiled blob sits in a string attribute: bytes that are no text and no weight."""
    return ep_context(1, np.random.default_rng(0).bytes(20_000))


def ep_context_beside(folder: Path) -> Path:
    """The compiled blob is a file beside the model, named in an attribute: no external data, yet needed."""
    (folder / "compiled.bin").write_bytes(np.random.default_rng(0).bytes(20_000))
    path = folder / FILE
    path.write_bytes(encode(ep_context(0, "compiled.bin")))
    return path


DOMAINS: tuple[Trap, ...] = (
    trap(local_functions),
    trap(nested_functions),
    trap(function_overloads),
    trap(unused_function),
    trap(function_named_like_an_op),
    trap(custom_op, runs=False),
    trap(contrib_op),
    trap(unknown_domain_import),
    trap(spelled_out_domain, checks=False),
    trap(two_default_imports),
    trap(two_default_imports_that_differ),
    trap(later_opset, runs=False),
    trap(later_ir, runs=False, checks=False),
    trap(training_info),
    trap(ep_context_embedded, runs=False),
    built(ep_context_beside, runs=False),
)
