"""Walks a model: its graphs, nodes, functions and tensors, wherever they are nested."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_ci.model.proto import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

Body = GraphProto | FunctionProto
# Operators that give other numbers each time, unless a node has a seed.
RANDOM_OPERATORS = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs directly inside a node's attributes: branches and loop bodies."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nested(body: Body) -> Iterator[Body]:
    """A graph or function and every graph inside it, outer ones first."""
    yield body
    for node in body.node:
        for graph in subgraphs(node):
            yield from nested(graph)


def bodies(model: ModelProto) -> Iterator[Body]:
    """Every list of nodes in the model: the main graph, functions, training graphs, and all inside them."""
    yield from nested(model.graph)
    for function in model.functions:
        yield from nested(function)
    for training in model.training_info:
        yield from nested(training.initialization)
        yield from nested(training.algorithm)


def attribute_tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    for sparse in [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []:
        yield from (sparse.values, sparse.indices)
    for sparse in attribute.sparse_tensors:
        yield from (sparse.values, sparse.indices)


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that the model stores, in a fixed order."""
    for body in bodies(model):
        if isinstance(body, GraphProto):
            yield from body.initializer
            for sparse in body.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        else:
            for attribute in body.attribute_proto:
                yield from attribute_tensors(attribute)
        for node in body.node:
            for attribute in node.attribute:
                yield from attribute_tensors(attribute)


def all_names(model: ModelProto) -> set[str]:
    """Every value name used anywhere, so that a new one can be chosen that clashes with none."""
    names: set[str] = set()
    for body in bodies(model):
        for node in body.node:
            names.update(node.input, node.output)
        if isinstance(body, GraphProto):
            for values in (body.input, body.output, body.value_info):
                names.update(value.name for value in values)
            names.update(tensor.name for tensor in body.initializer)
            names.update(sparse.values.name for sparse in body.sparse_initializer)
        else:
            names.update(body.input, body.output)
    return names


def fresh_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted` with the first number that makes it new; the result counts as taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}.{number}"
    taken.add(name)
    return name


def opset(model: ModelProto | FunctionProto, domain: str = "") -> int:
    """The version of a domain the model or function imports; of two imports the last counts, 0 if none."""
    wanted = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
    versions = [entry.version for entry in model.opset_import if entry.domain in wanted]
    return versions[-1] if versions else 0
