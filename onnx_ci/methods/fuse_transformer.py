"""Replaces the nodes of attention, normalization and GELU by operators that onnxruntime has for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.dedupe import dedupe
from onnx_ci.methods.external_tools import rewrite, unfit, unpackable
from onnx_ci.methods.fold_constants import fold_constants
from onnx_ci.methods.options import Dedupe, FuseTransformer, NoOptions
from onnx_ci.model.graph import Scope, stored_in, subgraphs
from onnx_ci.model.model import Model, element_count
from onnx_ci.model.proto import ModelProto, NodeProto, TensorProto
from onnx_ci.model.save import lay_out

# By who wrote the model: the tool looks for other shapes in what comes from these.
PRODUCERS = {"tf2onnx": "bert_tf", "keras2onnx": "bert_keras"}
# Where a head's axis goes after a Reshape to (batch, sequence, heads, size), or with 3 for q, k and v before
# heads. Any other order would make a guess of it which number is which.
LAYOUTS = {(0, 2, 1, 3): 1, (0, 2, 3, 1): 1, (2, 0, 3, 1, 4): 3}
PRODUCTS = ("MatMul", "Einsum")
# From a Softmax up to the product it is taken of: scales, masks and what guards them.
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Where", "Clip", "Min", "Max", "Tanh")
SCORING = (*ARITHMETIC, "Cast", "Identity", "Expand", "Reshape", "Squeeze", "Unsqueeze")
# From a product up to the heads anything may stand (rotary embeddings, a cache) but these.
ENDS = (*PRODUCTS, "Gemm", "Conv", "Softmax", "Shape", "Size")
MOST_AXES = 8  # of a shape that is worth reading
PLAIN = ("Add", "Identity", "Cast", "Mul", "Div")  # between a projection and its heads


def fuse_transformer(model: Model, options: FuseTransformer) -> Applied:
    reason = unfit(model.proto) or _nested(model.proto) or unpackable(model.proto)
    if reason:
        return Applied(0, f"left alone: {reason}")
    view = model.copy()
    fold_constants(view, NoOptions())
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
    number, hidden = options.num_heads, options.hidden_size
    if number and hidden % number:
        raise Unsure(f"hidden_size {hidden} is no multiple of num_heads {number}")
    try:
        found = find_heads(view)
    except Unsure as unsure:
        if number and hidden:
            return Heads(number, hidden // number)
        raise Unsure(f"{unsure}; if you know, give num_heads and hidden_size") from None
    if not found:
        raise Unsure("it has no attention")
    if len(found) > 1:
        kinds = ", ".join(sorted(f"{heads.number} of {heads.size}" for heads in found))
        raise Unsure(f"its attention has heads of different kinds: {kinds}")
    heads = found.pop()
    for name, given, actual in (("num_heads", number, heads.number), ("hidden_size", hidden, heads.hidden)):
        if given not in (0, actual):
            raise Unsure(f"{name} is given as {given}, and the graph has {actual}")
    return heads


def _fused(model: Model, view: Model, heads: Heads, options: FuseTransformer) -> Applied:
    before, size = model.proto, lay_out(model).size
    kind = options.model_type
    if kind == "auto":
        kind = PRODUCERS.get(before.producer_name, "bert")
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
        dedupe(model, Dedupe())  # weights that several layers share were packed once for each
    return Applied(applied.tensors, f"{heads.number} heads of {heads.size}; {applied.note}")


def _other_heads(made: ModelProto, before: ModelProto, heads: Heads) -> str:
    """Operators with heads that the model had not, and that are not those which were found."""
    after, known = (
        {item.i for node in proto.graph.node for item in node.attribute if item.name == "num_heads"}
        for proto in (made, before)
    )
    new = after - known - {heads.number}
    return f"onnxruntime's tool took {min(new)} heads for {heads.number}" if new else ""


@dataclass(frozen=True)
class Heads:
    """What all attention of a model has in common."""

    number: int
    size: int

    @property
    def hidden(self) -> int:
        return self.number * self.size


class Unsure(Exception):
    """The graph does not say; the message tells what it lacks, to follow "because"."""


def find_heads(model: Model) -> set[Heads]:
    """The heads of all attention in the main graph: one kind, in most models. Unsure where it is open."""
    graph = _Graph(model)
    found: set[Heads] = set()
    for softmax in model.proto.graph.node:
        if softmax.op_type == "Softmax":
            for product in graph.scores(softmax):
                found.add(_agreed(softmax, [graph.heads_above(name) for name in product.input]))
    return found


def _agreed(softmax: NodeProto, sides: Sequence[set[Heads | None]]) -> Heads:
    """The heads that both sides of the product of queries and keys agree on."""
    heads: set[Heads | None] = set().union(*sides)
    agreed = next(iter(heads), None)
    if len(heads) == 1 and agreed is not None and all(sides):
        return agreed
    raise Unsure(
        f"the graph does not tell how many heads the attention has that {_at(softmax.output, 0)!r} is for"
    )


class _Graph:
    """The main graph of a model: who computes a value, and what is stored."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.makers = {name: node for node in model.proto.graph.node for name in node.output}
        self.stored = {site.name: site.tensor for site in stored_in(Scope(model.proto.graph))}

    def scores(self, softmax: NodeProto) -> list[NodeProto]:
        """The products of two computed values that a Softmax weighs: none, if it is no attention's."""
        above = self._above(_at(softmax.input, 0), SCORING)
        products = [node for node in above if node.op_type in PRODUCTS]
        return [node for node in products if self.stored.keys().isdisjoint(node.input)]

    def heads_above(self, name: str) -> set[Heads | None]:
        """The heads that a value was split into; None among them where a split can't be read."""
        found: set[Heads | None] = set()
        for node in self._above(name, None):
            layout = _order(node)
            maker = self.makers.get(_at(node.input, 0)) if layout in LAYOUTS else None
            if maker is not None and maker.op_type == "Reshape":
                found.add(self._split(maker, LAYOUTS[layout]))
        return found

    def _above(self, name: str, through: Collection[str] | None) -> Iterator[NodeProto]:
        """Nodes that a value comes from, as far as one passes; what ends the way is given as well."""
        waiting, seen = [name], {name}
        while waiting:
            node = self.makers.get(waiting.pop())
            if node is None:
                continue
            yield node
            passes = node.op_type in through if through else node.op_type not in ENDS
            if passes and _order(node) not in LAYOUTS:
                new = [item for item in node.input if item not in seen]
                seen.update(new)
                waiting += new

    def _split(self, reshape: NodeProto, packed: int) -> Heads | None:
        known = self._last_dims(_at(reshape.input, 1))
        if not known or (packed > 1 and known[-3:-2] != [packed]):
            return None
        width = self._width(_at(reshape.input, 0)) // packed
        number, size = [-1, *known][-2:]
        if number < 1 <= size and width % size == 0:
            number = width // size
        if size < 1 <= number and width % number == 0:
            size = width // number
        fits = number > 0 and size > 0 and width in (0, number * size)
        return Heads(number, size) if fits else None

    def _last_dims(self, name: str) -> list[int]:
        """The end of the shape that a Reshape makes, as far as it is stored."""
        tensor = self.stored.get(name)
        if tensor is not None:
            short = tensor.data_type == TensorProto.INT64 and element_count(tensor) <= MOST_AXES
            return [int(value) for value in self.model.array(tensor).ravel()] if short else []
        maker = self.makers.get(name)
        known: list[int] = []
        if maker is None or maker.op_type != "Concat":
            return known
        for part in reversed(maker.input):
            if part not in self.stored:
                break
            known = self._last_dims(part) + known
        return known

    def _width(self, name: str) -> int:
        """How many columns the projection has that a value comes from; 0 if that is open."""
        ends = [node for node in self._above(name, PLAIN) if node.op_type not in (*PLAIN, "Constant")]
        weight = self.stored.get(_at(ends[0].input, 1)) if len(ends) == 1 else None
        if weight is None or not weight.dims or ends[0].op_type not in ("MatMul", "Gemm"):
            return 0
        turned = any(attribute.name == "transB" and attribute.i for attribute in ends[0].attribute)
        return int(weight.dims[0 if turned else -1])


def _at(names: Sequence[str], position: int) -> str:
    """A name of a node; empty where a broken model has none."""
    return names[position] if position < len(names) else ""


def _order(node: NodeProto) -> tuple[int, ...]:
    """Where a Transpose takes each axis from; empty for other nodes."""
    if node.op_type != "Transpose":
        return ()
    return next((tuple(item.ints) for item in node.attribute if item.name == "perm"), ())
