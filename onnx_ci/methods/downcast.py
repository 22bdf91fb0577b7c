"""Computes and stores float64 as float32, and int64 as int32 where every value is known to fit.

What is narrowed is decided for each type variable of each operator, by the standard's own schemas; where
narrow and wide values meet, at inputs and outputs of the model too, a Cast stands between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.element_types import Signature, TypesDoNotFit, inferred, signature
from onnx_ci.methods.narrow import Narrowing, narrow_graph, with_attribute
from onnx_ci.methods.options import Downcast
from onnx_ci.methods.quantized import encoding_parts
from onnx_ci.methods.scopes import Scope, Site, fixed_names, sites
from onnx_ci.methods.slices import Array
from onnx_ci.model.container import LARGE, Model
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.proto import NodeProto, TensorProto

# Operators whose outputs hold nothing but elements of their inputs: what fits before, fits after.
MOVING = {
    *("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Concat"),
    *("Gather", "GatherElements", "GatherND", "Expand", "Tile", "Where", "ScatterElements", "ScatterND"),
    *("Compress", "Max", "Min"),
}
# Others that onnxruntime runs on int32 as it does on int64, to the same result.
READING = {"Cast", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Shape", "Size", "NonZero"}


@dataclass(frozen=True)
class Kind:
    """One type and the narrower one that takes its place."""

    wide: int
    narrow: int
    narrow_name: str
    fits: Callable[[Array], bool]
    dtype: type[np.generic]


def float_fits(values: Array) -> bool:
    """No number becomes infinite or vanishes; whole numbers (ids, times) stay what they are."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    same_kind = np.array_equal(np.isfinite(narrow), np.isfinite(values))
    whole = bool(np.array_equal(values, np.rint(values)))
    return bool(
        same_kind
        and np.array_equal(narrow == 0, values == 0)
        and (not whole or np.array_equal(narrow, values))
    )


def int_fits(values: Array) -> bool:
    limits = np.iinfo(np.int32)
    return bool(values.min(initial=0) >= limits.min and values.max(initial=0) <= limits.max)


FLOAT = Kind(TensorProto.DOUBLE, TensorProto.FLOAT, "tensor(float)", float_fits, np.float32)
INT = Kind(TensorProto.INT64, TensorProto.INT32, "tensor(int32)", int_fits, np.int32)


def apply(model: Model, options: Downcast) -> Applied:
    if model.proto.training_info:
        return Applied(0, "left alone: it has training graphs")
    wanted = [(options.float64, FLOAT, _floats), (options.int64, INT, _integers)]
    count, notes = 0, []
    for _, kind, choose in (item for item in wanted if item[0]):
        try:
            count += _downcast(model, kind, choose)
        except TypesDoNotFit as error:
            notes.append(f"types could not be checked: {error}")
    return Applied(count, "; ".join(notes))


@dataclass(frozen=True)
class Known:
    """What is known of the main graph: types of its values, and the stored tensors of the wide type."""

    types: dict[str, int]
    fit: dict[str, Site]
    unfit: set[str]
    large: set[str]


Choose = Callable[[Model, Kind, Known], dict[int, set[str]]]


def _downcast(model: Model, kind: Kind, choose: Choose) -> int:
    """On a copy, which takes the model's place only if onnx finds its types in order."""
    found = [site for site in _stored(model) if site.tensor.data_type == kind.wide]
    if not any(_is_large(site) for site in found):
        return 0
    tried = model.copy()
    found = [site for site in _stored(tried) if site.tensor.data_type == kind.wide]
    fit = {site.name: site for site in found if kind.fits(tried.array(site.tensor))}
    large = {name for name, site in fit.items() if _is_large(site)}
    known = Known(inferred(tried.proto), fit, {site.name for site in found} - fit.keys(), large)
    if not large:
        return 0
    chosen = choose(tried, kind, known)
    narrowing = Narrowing(kind.wide, kind.narrow, kind.dtype, known.types, fit, large, chosen)
    count = narrow_graph(tried, narrowing)
    inferred(tried.proto)
    model.proto.CopyFrom(tried.proto)
    return count


def _stored(model: Model) -> list[Site]:
    fixed = fixed_names(model.proto) | encoding_parts(model.proto)
    return list(sites(Scope(model.proto.graph), fixed))


def _is_large(site: Site) -> bool:
    return (stored_bytes(site.tensor.data_type, site.tensor.dims) or 0) >= LARGE


def _floats(model: Model, kind: Kind, known: Known) -> dict[int, set[str]]:
    """The type variables, by position of their node, that can be float32 instead of float64."""
    chosen: dict[int, set[str]] = {}
    for position, node, rules in _standard_nodes(model):
        for variable in rules.allowed:
            read, made = rules.names(node, variable)
            wide = all(
                known.types.get(name) == kind.wide and name not in known.unfit for name in (*read, *made)
            )
            decided = bool(read) or (bool(made) and with_attribute(node) is not None)
            if wide and decided and kind.narrow_name in rules.allowed[variable]:
                chosen.setdefault(position, set()).add(variable)
    return chosen


def _integers(model: Model, kind: Kind, known: Known) -> dict[int, set[str]]:
    """The same for int32: only values that are known to fit, as far as large tensors reach."""
    fit, reached = set(known.fit), set(known.large)
    chosen: dict[int, set[str]] = {}
    for position, node, rules in _standard_nodes(model):
        for variable in rules.allowed:
            read, made = rules.names(node, variable)
            able = node.op_type in MOVING or (node.op_type in READING and not made)
            if not able or not fit.issuperset(read):
                continue
            fit.update(made if read else ())
            if reached.intersection(read) and kind.narrow_name in rules.allowed[variable]:
                reached.update(made)
                chosen.setdefault(position, set()).add(variable)
    return chosen


def _standard_nodes(model: Model) -> Iterator[tuple[int, NodeProto, Signature]]:
    for position, node in enumerate(model.proto.graph.node):
        rules = signature(model.proto, node)
        if rules is not None:
            yield position, node, rules
