"""A form of the model in which weights can be exchanged from one run to the next, in one session.

An initializer that is a graph input as well is a default that a caller may override. Weights inside
branches and loops are moved out to where callers can reach them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from onnx_ci.methods.edit import remove_sites
from onnx_ci.methods.scopes import Scope, Site, defined_twice, fixed_names, rename_uses, sites
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import all_names, fresh_name
from onnx_ci.model.proto import GraphProto, TensorProto

OVERRIDABLE = 4  # the IR version from which an initializer may be a default


def probe(model: Model, names: Collection[str]) -> tuple[Model, dict[str, list[str]]]:
    """The model with these tensors as inputs that have defaults, and what the inputs are called."""
    copy = model.copy()
    graph, root = copy.proto.graph, Scope(copy.proto.graph)
    taken, shadowed = all_names(copy.proto), defined_twice(root)
    fixed = fixed_names(copy.proto)
    found = [site for scope in root.nested() for site in sites(scope, fixed) if site.name in names]
    renames: dict[Scope, dict[str, str]] = defaultdict(dict)
    inputs: dict[str, list[str]] = defaultdict(list)
    moved: list[TensorProto] = []
    for site in found:
        name = fresh_name(site.name, taken) if site.name in shadowed else site.name
        renames[site.scope][site.name] = name
        inputs[site.name].append(name)
        moved.append(_named(site, name))
    rename_uses(root, renames)
    remove_sites(found, {})
    for tensor in moved:
        _add_default(graph, tensor)
    copy.proto.ir_version = max(copy.proto.ir_version, OVERRIDABLE)
    return copy, dict(inputs)


def _named(site: Site, name: str) -> TensorProto:
    tensor = TensorProto()
    tensor.CopyFrom(site.tensor)
    tensor.name = name
    return tensor


def _add_default(graph: GraphProto, tensor: TensorProto) -> None:
    graph.initializer.append(tensor)
    kind = graph.input.add(name=tensor.name).type.tensor_type
    kind.elem_type = tensor.data_type
    kind.shape.SetInParent()
    for dim in tensor.dims:
        kind.shape.dim.add(dim_value=dim)
