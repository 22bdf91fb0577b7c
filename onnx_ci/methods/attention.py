"""How many heads a model's attention has, and how wide they are, as far as the graph tells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx_ci.methods.scopes import constant_value
from onnx_ci.model.container import Model, element_count
from onnx_ci.model.proto import NodeProto, TensorProto

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
                found.add(_one(softmax, [graph.heads_above(name) for name in product.input]))
    return found


def _one(softmax: NodeProto, sides: Sequence[set[Heads | None]]) -> Heads:
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
        self.stored = _stored(model)

    def scores(self, softmax: NodeProto) -> list[NodeProto]:
        """The products of two computed values that a Softmax weighs: none, if it is no attention's."""
        above = self._above(_at(softmax.input, 0), SCORING)
        return [node for node in above if node.op_type in PRODUCTS and not self._projects(node)]

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

    def _projects(self, product: NodeProto) -> bool:
        return any(name in self.stored for name in product.input)

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
        for part in reversed(maker.input) if maker is not None and maker.op_type == "Concat" else ():
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


def _stored(model: Model) -> Mapping[str, TensorProto]:
    graph = model.proto.graph
    found = {tensor.name: tensor for tensor in graph.initializer}
    constants = ((node, constant_value(node)) for node in graph.node)
    return found | {node.output[0]: tensor for node, tensor in constants if tensor is not None}


def _at(names: Sequence[str], position: int) -> str:
    """A name of a node; empty where a broken model has none."""
    return names[position] if position < len(names) else ""


def _order(node: NodeProto) -> tuple[int, ...]:
    """Where a Transpose takes each axis from; empty for other nodes."""
    if node.op_type != "Transpose":
        return ()
    return next((tuple(item.ints) for item in node.attribute if item.name == "perm"), ())
