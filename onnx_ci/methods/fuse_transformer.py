"""Replaces the nodes of attention, normalization and GELU by operators that onnxruntime has for them."""

from __future__ import annotations

from onnx_ci.methods import dedupe, fold_constants
from onnx_ci.methods.applied import Applied
from onnx_ci.methods.attention import Heads, Unsure, find_heads
from onnx_ci.methods.options import Dedupe, FuseTransformer, NoOptions
from onnx_ci.methods.outside import rewrite
from onnx_ci.methods.unfit import unfit, unpackable
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import subgraphs
from onnx_ci.model.layout import lay_out
from onnx_ci.model.proto import ModelProto

# By who wrote the model: the tool looks for other shapes in what comes from these.
PRODUCERS = {"tf2onnx": "bert_tf", "keras2onnx": "bert_keras"}


def apply(model: Model, options: FuseTransformer) -> Applied:
    reason = unfit(model.proto) or _nested(model.proto) or unpackable(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    view = model.copy()
    fold_constants.apply(view, NoOptions())
    try:
        heads = _heads(view, options)
    except Unsure as unsure:
        return Applied(0, f"nothing done because {unsure}")
    return _fused(model, view, heads, options)


def _nested(proto: ModelProto) -> str:
    inner = any(True for node in proto.graph.node for _ in subgraphs(node))
    return "it has branches or loops, whose weights onnxruntime's tool loses" if inner else ""


def _heads(view: Model, options: FuseTransformer) -> Heads:
    """The heads that the graph has, or that the options give where it does not tell."""
    given = _given(options)
    try:
        found = find_heads(view)
    except Unsure as unsure:
        if given is None:
            raise Unsure(f"{unsure}; if you know, give num_heads and hidden_size") from None
        return given
    heads = _only(found)
    _check("num_heads", options.num_heads, heads.number)
    _check("hidden_size", options.hidden_size, heads.hidden)
    return heads


def _only(found: set[Heads]) -> Heads:
    if not found:
        raise Unsure("it has no attention")
    if len(found) > 1:
        kinds = ", ".join(sorted(f"{heads.number} of {heads.size}" for heads in found))
        raise Unsure(f"its attention has heads of different kinds: {kinds}")
    return next(iter(found))


def _given(options: FuseTransformer) -> Heads | None:
    number, hidden = options.num_heads, options.hidden_size
    if not number or not hidden:
        return None
    if hidden % number:
        raise Unsure(f"hidden_size {hidden} is no multiple of num_heads {number}")
    return Heads(number, hidden // number)


def _check(name: str, given: int, found: int) -> None:
    if given and given != found:
        raise Unsure(f"{name} is given as {given}, and the graph has {found}")


def _fused(model: Model, view: Model, heads: Heads, options: FuseTransformer) -> Applied:
    before, size = model.proto, lay_out(model).size
    kind = PRODUCERS.get(before.producer_name, "bert") if options.model_type == "auto" else options.model_type
    settings = {"model_type": kind, "num_heads": heads.number, "hidden_size": heads.hidden}
    applied = rewrite(model, "fuse_transformer", settings, given=view)
    if applied.failed:
        return applied
    problem = "" if applied.note else "onnxruntime's tool found none of its patterns"
    problem = problem or _other_heads(model.proto, before, heads)
    if problem:
        model.proto = before
        return Applied(0, f"nothing done because {problem}")
    if lay_out(model).size > size:
        dedupe.apply(model, Dedupe())  # weights that several layers share were packed once for each
    return Applied(applied.tensors, f"{heads.number} heads of {heads.size}; {applied.note}")


def _other_heads(made: ModelProto, before: ModelProto, heads: Heads) -> str:
    """Operators with heads that the model had not, and that are not those which were found."""
    new = _numbers(made) - _numbers(before) - {heads.number}
    return f"onnxruntime's tool took {min(new)} heads for {heads.number}" if new else ""


def _numbers(proto: ModelProto) -> set[int]:
    return {item.i for node in proto.graph.node for item in node.attribute if item.name == "num_heads"}
