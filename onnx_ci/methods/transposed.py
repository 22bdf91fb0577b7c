"""Stores a tensor that is another one transposed as a `Transpose` of that one.

onnxruntime runs a Transpose of a stored tensor once, when a session starts (measured with 1.31, for all types
used here, in branches and loop bodies too).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from onnx_ci.methods.edit import move_to_front, remove_sites
from onnx_ci.methods.scopes import Scope, Site, defined_twice, rename_uses, sites
from onnx_ci.model.container import NUMPY_TYPES, Model
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graphs import fresh_name
from onnx_ci.model.proto import AttributeProto, NodeProto

MIN_BYTES = 1024  # a node and its names take some hundred
MOST_AXES = 4  # 5 axes already have 120 orders
MOST_TRIED = 8  # tensors of the same numbers that one is compared with


def merge_transposed(model: Model, root: Scope, fixed: set[str], taken: set[str]) -> int:
    """The number of tensors that became a Transpose."""
    shadowed = defined_twice(root)
    renames: dict[Scope, dict[str, str]] = defaultdict(dict)
    front: dict[Scope, list[NodeProto]] = defaultdict(list)
    removed: list[Site] = []
    moved: set[Site] = set()
    found = list(_transposed(model, root, fixed, shadowed))
    for site, keeper, order in found:
        if keeper.node is not None and keeper not in moved:
            moved.add(keeper)
            removed.append(keeper)
            move_to_front(keeper, front)
        # A node may not give its result a name that another graph uses too; an initializer may.
        name = fresh_name(site.name, taken) if site.name in shadowed else site.name
        renames[site.scope][site.name] = name
        front[site.scope].append(_transpose(keeper.name, name, order, taken))
        removed.append(site)
    rename_uses(root, renames)
    remove_sites(removed, front)
    return len(found)


def _transposed(
    model: Model, root: Scope, fixed: set[str], shadowed: set[str]
) -> Iterator[tuple[Site, Site, tuple[int, ...]]]:
    """Tensors with the tensor that each is made from, and the order of its axes."""
    for group in _alike(model, root, fixed):
        keepers: list[Site] = []
        for site in group:
            visible = [keeper for keeper in keepers if keeper.scope in site.scope.chain()]
            made = (
                (site, keeper, order)
                for keeper in visible[:MOST_TRIED]
                if (order := _order(model, keeper, site)) is not None
            )
            match = next(made, None)
            if match is not None:
                yield match
            elif site.name not in shadowed:
                keepers.append(site)


def _alike(model: Model, root: Scope, fixed: set[str]) -> Iterator[list[Site]]:
    """Tensors of one type with the same dimensions in any order, and the same sum of their bits."""
    by_shape = defaultdict(list)
    for scope in root.nested():
        for site in sites(scope, fixed):
            dims = sorted(site.tensor.dims)
            if _wanted(site):
                by_shape[site.tensor.data_type, tuple(dims)].append(site)
    for group in by_shape.values():
        by_sum = defaultdict(list)
        for site in group if len(group) > 1 else ():
            bits = _bits(model, site)
            by_sum[int(bits.sum(dtype=np.uint64)), int(np.bitwise_xor.reduce(bits, axis=None))].append(site)
        yield from (same for same in by_sum.values() if len(same) > 1)


def _wanted(site: Site) -> bool:
    tensor = site.tensor
    axes = sum(size > 1 for size in tensor.dims)
    size = stored_bytes(tensor.data_type, tensor.dims) or 0
    plain = tensor.HasField("raw_data") or len(tensor.external_data) > 0
    few = len(tensor.dims) <= MOST_AXES
    return plain and few and axes > 1 and size >= MIN_BYTES and tensor.data_type in NUMPY_TYPES


def _bits(model: Model, site: Site) -> np.ndarray[tuple[int, ...], np.dtype[np.unsignedinteger]]:
    values = model.array(site.tensor)
    return values.view(f"u{values.itemsize}")


def _order(model: Model, keeper: Site, site: Site) -> tuple[int, ...] | None:
    """The order of the keeper's axes that gives the other tensor bit for bit."""
    one, other = _bits(model, keeper), _bits(model, site)
    for order in itertools.permutations(range(one.ndim)):
        turned = one.transpose(order)
        if turned.shape == other.shape and np.array_equal(turned, other):
            return order
    return None


def _transpose(source: str, output: str, order: tuple[int, ...], taken: set[str]) -> NodeProto:
    name = fresh_name(f"{output}.transpose", taken)
    node = NodeProto(op_type="Transpose", input=[source], output=[output], name=name)
    node.attribute.add(name="perm", type=AttributeProto.INTS, ints=order)
    return node
