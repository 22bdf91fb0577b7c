"""A model as onnxruntime's quantizers have to see it: what they may round is an initializer, nothing else is.

They look for weights among the initializers only, so Constants become such. A tensor that must not be
rounded (a mask, indices, not finite) is hidden from them by the opposite: it becomes a Constant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import constant_node, remove_sites
from onnx_ci.methods.order import sort_nodes
from onnx_ci.methods.outside import rewrite
from onnx_ci.methods.scopes import Scope, Site, fixed_names, roots, sites
from onnx_ci.methods.weights import plain_weight
from onnx_ci.model.container import Model
from onnx_ci.model.graphs import bodies, tensors
from onnx_ci.model.proto import GraphProto, ModelProto, NodeProto, TensorProto

MATRIX = 2  # axes
Use = tuple[NodeProto, int]  # a node, and which of its inputs


def quantized(model: Model, tool: str, options: Mapping[str, object], *, skip: Sequence[str] = ()) -> Applied:
    """The model after a quantizer, which does not get to see tensors that patterns of `skip` name; where
    it rounded nothing, its other changes don't count either."""
    before = model.proto
    applied = rewrite(model, tool, options, given=quantizer_view(model, skip), raises_opset=True)
    if applied.failed:
        return applied
    rounded = _small_integers(model.proto) - _small_integers(before)
    if rounded <= 0:
        model.proto = before
        return Applied(0, "no weight of the operators that it rounds")
    sort_nodes(model.proto.graph)
    return Applied(rounded, applied.note)


def _small_integers(model: ModelProto) -> int:
    """8-bit tensors that are weights, not the zero points of their columns."""
    kinds = (TensorProto.INT8, TensorProto.UINT8)
    return sum(tensor.data_type in kinds and len(tensor.dims) >= MATRIX for tensor in tensors(model))


def quantizer_view(model: Model, skip: Sequence[str] = ()) -> Model:
    """A copy; what it stores is the same, in other places."""
    view = model.copy()
    fixed = fixed_names(view.proto)
    uses = _uses(view.proto)
    for root in roots(view.proto):
        if isinstance(root.body, GraphProto):
            _arrange(view, root, fixed, uses, skip)
    return view


def _arrange(
    view: Model, root: Scope, fixed: set[str], uses: Mapping[str, list[Use]], skip: Sequence[str]
) -> None:
    moved: list[Site] = []
    front: dict[Scope, list[NodeProto]] = defaultdict(list)
    shown: list[tuple[GraphProto, TensorProto]] = []
    for scope in root.nested():
        for site in sites(scope, fixed):
            skipped = any(fnmatchcase(site.name, pattern) for pattern in skip)
            plain = _may_round(view, site, uses[site.name]) and not skipped
            if plain is None or plain == (site.node is None):
                continue
            moved.append(site)
            if plain:
                shown.append((scope.body, _named(site)))
            else:
                front[scope].append(constant_node(site.name, site.tensor))
    for graph, tensor in shown:
        graph.initializer.append(tensor)
    remove_sites(moved, front)


def _uses(model: ModelProto) -> Mapping[str, list[Use]]:
    found: dict[str, list[Use]] = defaultdict(list)
    for body in bodies(model):
        for node in body.node:
            for position, name in enumerate(node.input):
                found[name].append((node, position))
    return found


def _may_round(view: Model, site: Site, uses: Sequence[Use]) -> bool | None:
    """Whether a tensor may be rounded; None for one that quantizers don't look at."""
    tensor = site.tensor
    if tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16) or not tensor.dims:
        return None
    if tensor.data_type == TensorProto.FLOAT16 or any(_mishandled(*use, tensor, uses) for use in uses):
        return False
    return plain_weight(view.array(tensor))


def _mishandled(node: NodeProto, position: int, tensor: TensorProto, uses: Sequence[Use]) -> bool:
    """Uses for which the quantizer writes a graph that does not run, or transposes what others read too."""
    if node.op_type == "MatMul":
        return position == 0 or len(tensor.dims) != MATRIX
    turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return node.op_type == "Gemm" and (position == 0 or (position == 1 and turned and len(uses) > 1))


def _named(site: Site) -> TensorProto:
    tensor = TensorProto()
    tensor.CopyFrom(site.tensor)
    tensor.name = site.name
    return tensor
