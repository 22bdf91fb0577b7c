"""How many heads a model's attention has, and how wide they are, as far as the graph tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx_ci.methods.scopes import constant_value
from onnx_ci.model.container import Model
from onnx_ci.model.proto import NodeProto, TensorProto

# Where a head's axis goes after a Reshape to (batch, sequence, heads, size), or with 3 for q, k and v before
# heads. Any other order would make a guess of it which number is which.
LAYOUTS = {(0, 2, 1, 3): 1, (0, 2, 3, 1): 1, (2, 0, 3, 1, 4): 3}
PRODUCTS = ("MatMul", "Einsum")
# From a Softmax up to the product it is taken of: scales, masks and what guards them.
SCORING = ("Add", "Sub", "Mul", "Div", "Where", "Cast", "Identity", "Clip", "Min", "Max", "Tanh", "Expand")
# From a product up to the heads anything may stand (rotary embeddings, a cache) but these.
ENDS = (*PRODUCTS, "Gemm", "Conv", "Softmax", "Shape", "Size")
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


def find_heads(model: Model) -> Heads | None:
    """The heads of the main graph's attention, None where it has no attention, Unsure where that is open."""
    graph = _Graph(model)
    found: set[Heads] = set()
    for softmax in model.proto.graph.node:
        if softmax.op_type == "Softmax":
            for product in graph.scores(softmax):
                found.add(_one(softmax, [graph.heads_above(name) for name in product.input]))
    if len(found) > 1:
        numbers = ", ".join(sorted({f"{heads.number} of {heads.size}" for heads in found}))
        raise Unsure(f"its attention has heads of different kinds: {numbers}")
    return found.pop() if found else None


def _one(softmax: NodeProto, sides: Sequence[set[Heads | None]]) -> Heads:
    """The heads that both sides of the product of queries and keys agree on."""
    heads = set.union(*sides)
    agreed = next(iter(heads), None)
    if len(heads) == 1 and agreed is not None and all(sides):
        return agreed
    raise Unsure(
        f"the graph does not tell how many heads the attention has that {softmax.output[0]!r} is computed for"
    )


class _Graph:
    """The main graph of a model: who computes a value, and what is stored."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.makers = {name: node for node in model.proto.graph.node for name in node.output}
        self.stored = _stored(model)

    def scores(self, softmax: NodeProto) -> list[NodeProto]:
        """The products of two computed values that a Softmax weighs: none, if it is no attention's."""
        above = self._above(softmax.input[0], SCORING)
        return [node for node in above if node.op_type in PRODUCTS and not self._projects(node)]

    def heads_above(self, name: str) -> set[Heads | None]:
        """The heads that a value was split into; None among them where a split can't be read."""
        found: set[Heads | None] = set()
        for node in self._above(name, None):
            layout = _order(node)
            maker = self.makers.get(node.input[0]) if layout in LAYOUTS else None
            if maker is not None and maker.op_type == "Reshape":
                found.add(self._split(maker, LAYOUTS[layout]))
        return found

    def _above(self, name: str, through: tuple[str, ...] | None) -> Iterator[NodeProto]:
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
        known = self._last_dims(reshape.input[1])
        if not known or (packed > 1 and known[-3:-2] != [packed]):
            return None
        width = self._width(reshape.input[0]) // packed
        number, size = [-1, *known][-2:]
        if number < 1 <= size and width % size == 0:
            number = width // size
        if size < 1 <= number and width % number == 0:
            size = width // number
        fits = number > 0 and size > 0 and width in (0, number * size)
        return Heads(number, size) if fits else None

    def _last_dims(self, name: str) -> list[int]:
        """The end of the shape that a Reshape makes, as far as it is stored."""
        if name in self.stored:
            return [int(value) for value in self.model.array(self.stored[name]).ravel()]
        maker = self.makers.get(name)
        known: list[int] = []
        for part in reversed(maker.input) if maker is not None and maker.op_type == "Concat" else ():
            if part not in self.stored:
                break
            known = self._last_dims(part) + known
        return known

    def _width(self, name: str) -> int:
        """How many columns the projection has that a value comes from; 0 if that is open."""
        maker = self.makers.get(name)
        while maker is not None and maker.op_type in PLAIN:
            made = [item for item in maker.input if item not in self.stored]
            maker = self.makers.get(made[0]) if len(made) == 1 else None
        if maker is None or maker.op_type not in ("MatMul", "Gemm") or maker.input[1] not in self.stored:
            return 0
        turned = any(attribute.name == "transB" and attribute.i for attribute in maker.attribute)
        dims = self.stored[maker.input[1]].dims
        return int(dims[0 if turned else -1]) if dims else 0


def _stored(model: Model) -> Mapping[str, TensorProto]:
    graph = model.proto.graph
    found = {tensor.name: tensor for tensor in graph.initializer}
    constants = ((node, constant_value(node)) for node in graph.node)
    return found | {node.output[0]: tensor for node, tensor in constants if tensor is not None}


def _order(node: NodeProto) -> tuple[int, ...]:
    """Where a Transpose takes each axis from; empty for other nodes."""
    if node.op_type != "Transpose":
        return ()
    return next((tuple(item.ints) for item in node.attribute if item.name == "perm"), ())
