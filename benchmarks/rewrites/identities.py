"""Rewrites that compute the same in another way: detours that lead back, operands that may change places."""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto, NodeProto, TensorProto, helper

from rewrites.base import Rewrite, edited, float_values, graphs, put_between


def _between(
    make: Callable[[str, str], list[NodeProto]], value: float | None = None
) -> Callable[[ModelProto], bool]:
    """Put something without effect behind a few values of the main graph."""

    def edit(model: ModelProto) -> bool:
        names = float_values(model.graph, model)
        chosen = names[:: max(1, len(names) // 5)]
        for name in chosen:
            put_between(model.graph, name, make)
        if value is not None:
            model.graph.initializer.append(helper.make_tensor("a number", TensorProto.FLOAT, [], [value]))
        return bool(chosen)

    return edit


def _identity(source: str, target: str) -> list[NodeProto]:
    return [helper.make_node("Identity", [source], [target])]


def _there_and_back(source: str, target: str) -> list[NodeProto]:
    """A Transpose without `perm` turns all axes round: twice is not at all."""
    middle = f"{target}/turned"
    return [
        helper.make_node("Transpose", [source], [middle]),
        helper.make_node("Transpose", [middle], [target]),
    ]


def _times_one(source: str, target: str) -> list[NodeProto]:
    return [helper.make_node("Mul", [source, "a number"], [target])]


def _twice_negated(source: str, target: str) -> list[NodeProto]:
    middle = f"{target}/negated"
    return [helper.make_node("Neg", [source], [middle]), helper.make_node("Neg", [middle], [target])]


def commuted(model: ModelProto) -> bool:
    """Sums and products with their operands the other way round."""
    found = [node for graph in graphs(model) for node in graph.node if node.op_type in ("Add", "Mul")]
    for node in found:
        node.input[0], node.input[1] = node.input[1], node.input[0]
    return bool(found)


IDENTITIES = (
    Rewrite(name="Identity between", write=edited(_between(_identity))),
    Rewrite(name="Transpose twice", write=edited(_between(_there_and_back))),
    Rewrite(name="times one", write=edited(_between(_times_one, 1.0))),
    Rewrite(name="negated twice", write=edited(_between(_twice_negated))),
    Rewrite(name="operands commuted", write=edited(commuted)),
)
