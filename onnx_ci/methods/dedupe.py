"""Stores identical tensors once: same type, same shape, same bytes, wherever the copies are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import constant_node, move_to_front, remove_sites
from onnx_ci.methods.options import Dedupe
from onnx_ci.methods.quantized import quantization_parameters, quantized_inputs
from onnx_ci.methods.scopes import Scope, Site, defined_twice, fixed_names, rename_uses, roots, sites
from onnx_ci.model.container import Model, element_count
from onnx_ci.model.digest import tensor_key
from onnx_ci.model.graphs import all_names, fresh_name
from onnx_ci.model.proto import GraphProto, NodeProto, TensorProto


def apply(model: Model, options: Dedupe) -> Applied:
    taken = all_names(model.proto)
    fixed = fixed_names(model.proto) | quantization_parameters(model.proto)
    merged = 0
    for root in roots(model.proto):
        found = [site for scope in root.nested() for site in sites(scope, fixed)]
        groups = list(_identical(model, found))
        merged += sum(len(group) - 1 for group in groups)
        _merge(model, root, groups, taken)
    return Applied(merged + (_merge_transposed(model, fixed, taken) if options.transposed else 0))


def _merge_transposed(model: Model, fixed: set[str], taken: set[str]) -> int:
    """In scopes that are read anew: the copies are gone by now."""
    from onnx_ci.methods.transposed import merge_transposed  # it computes, so it needs numpy

    left_alone = fixed | quantized_inputs(model.proto)
    return sum(merge_transposed(model, root, left_alone, taken) for root in roots(model.proto))


def _identical(model: Model, found: Iterable[Site]) -> Iterator[list[Site]]:
    """Groups of two or more sites with the very same content. Only look-alikes are read at all."""
    alike = defaultdict(list)
    for site in found:
        if site.tensor.data_type != TensorProto.STRING and element_count(site.tensor):
            alike[site.tensor.data_type, tuple(site.tensor.dims)].append(site)
    for candidates in alike.values():
        if len(candidates) < 2:
            continue
        by_key = defaultdict(list)
        for site in candidates:
            by_key[tensor_key(model, site.tensor)].append(site)
        yield from (group for group in by_key.values() if len(group) > 1)


def _merge(model: Model, root: Scope, groups: list[list[Site]], taken: set[str]) -> None:
    renames: dict[Scope, dict[str, str]] = defaultdict(dict)
    removed: list[Site] = []
    front: dict[Scope, list[NodeProto]] = defaultdict(list)
    shadowed = defined_twice(root)
    for group in groups:
        home = _common_scope(group)
        keeper = _keeper(group, home, shadowed)
        if keeper is None:
            name = fresh_name(group[0].name, taken)
            _hoist(model, group[0], home, name, front)
        else:
            name = keeper.name
            if keeper.node is not None:
                move_to_front(keeper, front)
                removed.append(keeper)
        for site in group:
            if site is not keeper:
                renames[site.scope][site.name] = name
                removed.append(site)
    rename_uses(root, renames)
    remove_sites(removed, front)


def _common_scope(group: list[Site]) -> Scope:
    """The innermost scope around all copies."""
    chains = [site.scope.chain() for site in group]
    return next(scope for scope in chains[0] if all(scope in chain for chain in chains))


def _keeper(group: list[Site], home: Scope, shadowed: set[str]) -> Site | None:
    """The copy that stays: one that all the others can see, an initializer rather than a node."""
    fit = [site for site in group if site.scope is home and site.name not in shadowed]
    return min(fit, key=lambda site: site.node is not None, default=None)


def _hoist(model: Model, site: Site, home: Scope, name: str, front: dict[Scope, list[NodeProto]]) -> None:
    """Store the tensor in a scope that all its users can see."""
    if isinstance(home.body, GraphProto) and model.proto.ir_version >= 4:
        tensor = home.body.initializer.add()
        tensor.CopyFrom(site.tensor)
        tensor.name = name
        return
    # Before IR 4 every initializer is an input as well; in a function there are none at all.
    front[home].append(constant_node(name, site.tensor))
