"""Stores identical tensors once: same type, same shape, same bytes, wherever the copies are.

If asked, a tensor that is another one transposed is stored as a `Transpose` of that one. onnxruntime runs it
once, when a session starts (measured with 1.31, for all types used here, in branches and loop bodies too).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.edit import Edits, make_node
from onnx_ci.methods.options import Dedupe
from onnx_ci.methods.selection import quantization_parameters, quantized_inputs, same_content, type_and_shape
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.graph import Scope, Site, all_names, common_scope, fixed_names, fresh_name, outline, roots
from onnx_ci.model.model import Model, stored_size
from onnx_ci.model.proto import TensorProto

if TYPE_CHECKING:
    from onnx_ci.methods.rounding import Array

STRING = TensorProto.STRING
MIN_BYTES = 1024  # of what becomes a Transpose: a node and its names take some hundred
MOST_AXES = 4  # 5 axes already have 120 orders
MOST_TRIED = 8  # tensors of the same numbers that one is compared with


def dedupe(model: Model, options: Dedupe) -> Applied:
    taken: set[str] = set()
    known = outline(model.proto)
    fixed = fixed_names(known) | quantization_parameters(known)
    merged = 0
    for root in roots(known):
        groups = _identical(model, root.nested_sites(fixed))
        merged += sum(len(group) - 1 for group in groups)
        if groups:
            taken = taken or all_names(model.proto)
            _merge(model, root, groups, taken)
    if options.transposed:
        taken = taken or all_names(model.proto)
        fixed |= quantized_inputs(model.proto)
        # In scopes that are read anew: the copies are gone by now.
        merged += sum(_merge_transposed(model, root, fixed, taken) for root in roots(model.proto))
    return Applied(merged)


def _identical(model: Model, found: Iterable[Site]) -> list[list[Site]]:
    """Groups of two or more sites with the very same content, those of one type and shape together."""
    filled = [s for s in found if s.tensor.data_type != STRING and 0 not in s.tensor.dims[:]]
    groups = [group for group in same_content(model, filled) if len(group) > 1]
    if not groups:
        return []
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(map(type_and_shape, filled)))}
    return sorted(groups, key=lambda group: kinds[type_and_shape(group[0])])


def _merge(model: Model, root: Scope, groups: list[list[Site]], taken: set[str]) -> None:
    edits = Edits(root)
    for group in groups:
        home = common_scope(site.scope for site in group)
        keeper = _keeper(group, home, edits.shadowed)
        if keeper is None:
            name = fresh_name(group[0].name, taken)
            edits.store(home, name, group[0].tensor, model.proto.ir_version)
        else:
            name = keeper.name
            if keeper.node is not None:
                edits.move_to_front(keeper)
        for site in group:
            if site is not keeper:
                edits.replace(site, name)
    edits.make()


def _keeper(group: list[Site], home: Scope, shadowed: set[str]) -> Site | None:
    """The copy that stays: one that all the others can see, an initializer rather than a node."""
    fit = [site for site in group if site.scope is home and site.name not in shadowed]
    return min(fit, key=lambda site: site.node is not None, default=None)


def _merge_transposed(model: Model, root: Scope, fixed: set[str], taken: set[str]) -> int:
    """Return the number of tensors that became a Transpose."""
    edits = Edits(root)
    moved: set[Site] = set()
    found = list(_transposed(model, root, fixed, edits.shadowed))
    for site, keeper, order in found:
        if keeper.node is not None and keeper not in moved:
            moved.add(keeper)
            edits.move_to_front(keeper)
        # A node may not give its result a name that another graph uses too; an initializer may.
        name = edits.name_for(site, taken)
        node = make_node("Transpose", [keeper.name], name, perm=order)
        node.name = fresh_name(f"{name}.transpose", taken)
        edits.front[site.scope].append(node)
        edits.replace(site, name)
    edits.make()
    return len(found)


def _transposed(
    model: Model, root: Scope, fixed: set[str], shadowed: set[str]
) -> Iterator[tuple[Site, Site, tuple[int, ...]]]:
    """Tensors with the tensor that each is made from, and the order of its axes."""
    for group in _alike(model, root, fixed):
        keepers: list[Site] = []
        for site in group:
            visible = [keeper for keeper in keepers if keeper.scope in site.scope.chain()]
            for keeper in visible[:MOST_TRIED]:
                order = _order(model, keeper, site)
                if order is not None:
                    yield site, keeper, order
                    break
            else:
                if site.name not in shadowed:
                    keepers.append(site)


def _alike(model: Model, root: Scope, fixed: set[str]) -> Iterator[list[Site]]:
    """Tensors of one type with the same dimensions in any order, and the same sum of their bits."""
    import numpy as np  # late: nothing else here computes

    by_shape = defaultdict(list)
    for site in root.nested_sites(fixed):
        if _may_be_turned(site.tensor):
            by_shape[site.tensor.data_type, tuple(sorted(site.tensor.dims))].append(site)
    for group in by_shape.values():
        by_sum = defaultdict(list)
        for site in group if len(group) > 1 else ():
            bits = _bits(model, site)
            by_sum[int(bits.sum(dtype=np.uint64)), int(np.bitwise_xor.reduce(bits, axis=None))].append(site)
        yield from (same for same in by_sum.values() if len(same) > 1)


def _may_be_turned(tensor: TensorProto) -> bool:
    axes = sum(size > 1 for size in tensor.dims)
    plain = tensor.HasField("raw_data") or len(tensor.external_data) > 0
    few = len(tensor.dims) <= MOST_AXES
    return plain and few and axes > 1 and stored_size(tensor) >= MIN_BYTES and tensor.data_type in NUMPY_TYPES


def _bits(model: Model, site: Site) -> Array:
    values = model.array(site.tensor)
    return values.view(f"u{values.itemsize}")


def _order(model: Model, keeper: Site, site: Site) -> tuple[int, ...] | None:
    """The order of the keeper's axes that gives the other tensor bit for bit."""
    one, other = _bits(model, keeper), _bits(model, site)
    for order in itertools.permutations(range(one.ndim)):
        turned = one.transpose(order)
        if turned.shape == other.shape and (turned == other).all():
            return order
    return None
