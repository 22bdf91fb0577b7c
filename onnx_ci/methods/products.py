"""Where a model multiplies something with a weight and sums it up: the values to look at to learn what a
weight meets, and how the numbers of the weight lie for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from onnx_ci.methods.edit import make_node
from onnx_ci.model.graph import STANDARD_DOMAINS, all_names, fresh_name
from onnx_ci.model.model import Model
from onnx_ci.model.proto import NodeProto

Shape = tuple[int, ...]
SAME_NUMBERS = ("Cast", "Identity")  # between a weight and what it is multiplied with
GEOMETRY = ("kernel_shape", "strides", "dilations", "pads", "auto_pad")


@dataclass(frozen=True)
class Product:
    """A weight that meets a value. Reshaped to `shape` it has groups, rows and columns, or groups, columns
    and rows where it is `turned`. The value has the axes of groups and columns last once `axes` are moved
    there; of a convolution it is what `geometry` cuts out of it."""

    weight: str
    value: str
    shape: tuple[int, int, int]
    turned: bool = False
    axes: Shape = (-1,)
    geometry: Mapping[str, Any] | None = None

    @property
    def layout(self) -> tuple[tuple[int, int, int], bool]:
        """How the numbers of the weight lie; the same for all products that are added up."""
        return self.shape, self.turned

    def asked(self, number: int, output: str) -> dict[str, Any]:
        """What the worker has to know to collect moments of an output, under a number."""
        columns = self.shape[1 if self.turned else 2]
        where = {"groups": self.shape[0], "columns": columns, "axes": self.axes, "geometry": self.geometry}
        return {"number": number, "value": output, **where}


def products(model: Model, weights: Mapping[str, Shape]) -> list[Product]:
    """The products of the main graph with these weights, of which the shapes are given; values inside
    branches and loops can't be seen."""
    nodes = [node for node in model.proto.graph.node if node.domain in STANDARD_DOMAINS]
    stands_for = {name: name for name in weights}
    for node in nodes:
        if node.op_type in SAME_NUMBERS and node.input[0] in stands_for:
            stands_for[node.output[0]] = stands_for[node.input[0]]
    found: list[Product] = []
    for node in nodes:
        for position, name in enumerate(node.input):
            if name in stands_for and node.op_type in _READ:
                weight = stands_for[name]
                found += _READ[node.op_type](node, position, weight, weights[weight])
    return [one for one in found if one.value and one.value not in stands_for]


def observing(model: Model, found: list[Product]) -> tuple[Model, dict[str, str]]:
    """The model with nothing but these values as outputs, and what they are called there."""
    copy = model.copy()
    graph, taken = copy.proto.graph, all_names(copy.proto)
    graph.ClearField("output")
    names: dict[str, str] = {}
    for value in dict.fromkeys(one.value for one in found):
        names[value] = fresh_name(f"{value}.met", taken)
        graph.node.append(make_node("Identity", [value], names[value]))
        graph.output.add(name=names[value])
    return copy, names


def _matmul(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    if len(shape) == 2 and len(node.input) == 2:
        other = node.input[1 - position]
        yield Product(weight, other, (1, *shape), turned=position == 1, axes=(-1,) if position else (-2,))


def _gemm(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    if len(shape) == 2 and position < 2:
        given = _attributes(node)
        flipped = [bool(given.get(name, 0)) for name in ("transA", "transB")]
        turned = flipped[0] if position == 0 else not flipped[1]
        axis = (-2 if flipped[0] else -1) if position == 1 else (-1 if flipped[1] else -2)
        yield Product(weight, node.input[1 - position], (1, *shape), turned=turned, axes=(axis,))


def _conv(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    given = _attributes(node)
    groups = given.get("group", 1)
    if position == 1 and len(shape) > 2 and groups > 0 and shape[0] % groups == 0:
        geometry = {name: given[name] for name in GEOMETRY if name in given}
        whole = (groups, shape[0] // groups, prod(shape[1:]))
        yield Product(weight, node.input[0], whole, geometry={**geometry, "kernel_shape": shape[2:]})


def _conv_transpose(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    groups = _attributes(node).get("group", 1)
    if position == 1 and len(shape) > 2 and groups > 0 and shape[0] % groups == 0:
        whole = (groups, shape[0] // groups, prod(shape[1:]))
        yield Product(weight, node.input[0], whole, turned=True, axes=(1,))


def _recurrent(node: NodeProto, position: int, weight: str, shape: Shape) -> Iterator[Product]:
    if len(shape) == 3 and position == 1:
        yield Product(weight, node.input[0], (1, shape[0] * shape[1], shape[2]))
    elif len(shape) == 3 and position == 2:
        # What goes round is what comes out, a step later.
        axes = (2, 3) if _attributes(node).get("layout", 0) else (1, 3)
        yield Product(weight, node.output[0], (shape[0], shape[1], shape[2]), axes=axes)


_READ = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
}


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {one.name: list(one.ints) if one.ints else one.s.decode() or one.i for one in node.attribute}
