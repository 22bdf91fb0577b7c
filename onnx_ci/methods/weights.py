"""Stores a weight in a smaller form: nodes at the head of its graph turn it back into what it was.

onnxruntime runs `Cast` and `Mul` of stored tensors once, when a session starts, and keeps the
result: the session then runs the original float graph, at its speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import constant_node, remove_sites
from onnx_ci.methods.options import WeightOptions
from onnx_ci.methods.quantized import encoding_parts
from onnx_ci.methods.scopes import Scope, Site, defined_twice, fixed_names, rename_uses, roots, sites
from onnx_ci.methods.slices import BLOCK, Array
from onnx_ci.model.container import Model, element_count
from onnx_ci.model.graphs import all_names, fresh_name
from onnx_ci.model.proto import GraphProto, NodeProto, TensorProto

SMALLEST, LARGEST = 1e-6, 1e30  # the largest magnitude of a weight is between these
FLT_MIN = np.finfo(np.float32).tiny
# What a weight becomes: stored parts, and the nodes that rebuild it. None leaves the weight alone.
Encode = Callable[["Encoder", Array], list[NodeProto] | None]
Tables = dict[str, TensorProto]  # what the weights of one graph share, by what it is for


class Encoder:
    """Collects the parts of one encoded weight under names that are free.

    `output` is what the rebuilt weight is called: as before, unless another graph uses that name too.
    """

    def __init__(self, model: Model, site: Site, taken: set[str], tables: Tables, *, rename: bool) -> None:
        self.model = model
        self.site = site
        self.taken = taken
        self.tables = tables
        self.output = fresh_name(site.name, taken) if rename else site.name
        self.parts: list[TensorProto] = []

    def store(self, suffix: str, values: Array, data_type: int = 0) -> str:
        """A stored part; it goes where the weight was, into the same external file if it had one.

        `data_type` is given where the values are the bits of a type that numpy does not have.
        """
        tensor = self._part(suffix)
        self.model.set_array(tensor, values)
        tensor.data_type = data_type or tensor.data_type
        return tensor.name

    def store_packed(self, suffix: str, data_type: int, shape: tuple[int, ...], data: bytes) -> str:
        """A stored part of a type that numpy has not."""
        tensor = self._part(suffix)
        tensor.data_type, tensor.dims[:] = data_type, shape
        self.model.set_raw(tensor, data)
        return tensor.name

    def _part(self, suffix: str) -> TensorProto:
        tensor = TensorProto(name=self.name(suffix))
        tensor.external_data.extend(self.site.tensor.external_data)
        self.parts.append(tensor)
        return tensor

    def table(self, name: str, values: Array) -> str:
        """A tensor that many weights are decoded with: stored once, where all of them see it."""
        if name not in self.tables:
            self.tables[name] = TensorProto(name=fresh_name(f"onnx_ci.{name}", self.taken))
            self.model.set_array(self.tables[name], values)
        return self.tables[name].name

    def name(self, suffix: str) -> str:
        return fresh_name(f"{self.site.name}.{suffix}", self.taken)


def encode_weights(model: Model, options: WeightOptions, encode: Encode, *, kept: str) -> Applied:
    """Encode every float32 weight that the options choose; `kept` says why some are left as they are."""
    left: list[str] = []

    def noted(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        nodes = encode(encoder, values)
        left.extend([encoder.site.name] if nodes is None else [])
        return nodes

    left_alone = fixed_names(model.proto) | encoding_parts(model.proto)
    count = encode_tensors(model, left_alone, lambda site: is_chosen(site, options), noted)
    return Applied(count, kept_note(left, kept))


def encode_named(model: Model, encodings: Mapping[str, Encode]) -> set[str]:
    """Encode the weights of these names, each in its own way; the names of those that were."""
    done: set[str] = set()

    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        nodes = encodings[encoder.site.name](encoder, values)
        done.update([] if nodes is None else [encoder.site.name])
        return nodes

    encode_tensors(model, fixed_names(model.proto), lambda site: site.name in encodings, encode)
    return done


def encode_tensors(model: Model, left_alone: set[str], wanted: Callable[[Site], bool], encode: Encode) -> int:
    """Encode every wanted tensor that only nodes read; the number of tensors that were."""
    taken = all_names(model.proto)
    count = 0
    for root in roots(model.proto):
        removed: list[Site] = []
        front: dict[Scope, list[NodeProto]] = defaultdict(list)
        renames: dict[Scope, dict[str, str]] = defaultdict(dict)
        tables: Tables = {}
        shadowed = defined_twice(root)
        found = [site for scope in root.nested() for site in sites(scope, left_alone)]
        for site in filter(wanted, found):
            encoder = Encoder(model, site, taken, tables, rename=site.name in shadowed)
            nodes = encode(encoder, model.array(site.tensor))
            if nodes is not None:
                _place(encoder, nodes, front)
                renames[site.scope][site.name] = encoder.output
                removed.append(site)
        rename_uses(root, renames)
        _place_tables(root, tables, front)
        remove_sites(removed, front)
        count += len(removed)
    return count


def plain_weight(values: Array) -> bool:
    """Whether values are what training leaves behind, and not a mask, codes or indices stored as floats.

    Masks hold the extremes of the type, or nothing but denormals; indices are whole numbers. Rounding
    either changes what the model does, however small the error is next to the largest value.
    """
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not SMALLEST <= largest <= LARGEST:  # NaN is in no range
        return False
    flat = values.reshape(-1)
    blocks = [flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK)]
    if any((np.abs(block) == FLT_MIN).any() for block in blocks):
        return False
    return not all(np.array_equal(block, np.rint(block)) for block in blocks)


def weight_sites(root: Scope, left_alone: set[str], options: WeightOptions) -> Iterator[Site]:
    """The stored float32 tensors that the options choose."""
    found = (site for scope in root.nested() for site in sites(scope, left_alone))
    return (site for site in found if is_chosen(site, options))


def is_chosen(site: Site, options: WeightOptions) -> bool:
    large = bool(site.tensor.dims) and element_count(site.tensor) >= options.min_elements
    return site.tensor.data_type == TensorProto.FLOAT and large and _is_named(site.name, options)


def _is_named(name: str, options: WeightOptions) -> bool:
    """By patterns of names in which `*` stands for anything, slashes and dots too."""
    wanted = not options.only or any(fnmatchcase(name, pattern) for pattern in options.only)
    return wanted and not any(fnmatchcase(name, pattern) for pattern in options.skip)


def kept_note(kept: list[str], why: str) -> str:
    """What a step says of the weights it left alone."""
    return f"{len(kept)} kept as float32 ({why}): {', '.join(kept[:3])}" if kept else ""


def _place(encoder: Encoder, nodes: list[NodeProto], front: dict[Scope, list[NodeProto]]) -> None:
    """Stored parts stay what the weight was: initializers, or Constants where it was one."""
    site = encoder.site
    if site.node is None:
        site.scope.body.initializer.extend(encoder.parts)
    else:
        front[site.scope] += [constant_node(part.name, part) for part in encoder.parts]
    front[site.scope] += nodes


def _place_tables(root: Scope, tables: Tables, front: dict[Scope, list[NodeProto]]) -> None:
    if isinstance(root.body, GraphProto):
        root.body.initializer.extend(tables.values())
    elif tables:
        front[root] = [*(constant_node(table.name, table) for table in tables.values()), *front[root]]
