"""Takes constants out of the model into .npy files; the model gets them as inputs."""

from __future__ import annotations

from collections import defaultdict

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.chosen import chosen, same_content, unmatched
from onnx_ci.methods.edit import remove_sites
from onnx_ci.methods.options import ExtractNpy
from onnx_ci.methods.quantized import encoding_parts
from onnx_ci.methods.scopes import Scope, Site, defined_twice, fixed_names, rename_uses, sites
from onnx_ci.model.container import LARGE, Model, element_count
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graphs import all_names, fresh_name
from onnx_ci.model.npy import (
    FLOATS,
    TYPES,
    header,
    npy_names,
    recorded,
    recorded_inner,
    set_inner,
    set_record,
)
from onnx_ci.model.proto import TensorProto
from onnx_ci.sizes import format_size

Group = list[Site]  # sites with the very same content: one file, one input


def apply(model: Model, options: ExtractNpy) -> Applied:
    root = Scope(model.proto.graph)
    fixed = fixed_names(model.proto)
    found = [site for scope in root.nested() for site in sites(scope, fixed) if _fits_npy(site.tensor)]
    named = chosen(root, found, options.tensors, options.ops)
    groups = same_content(model, named)
    if options.repeated or not (options.tensors or options.ops):
        taken = {id(site) for site in named} | _encoded(model, found)
        rest = [site for site in found if id(site) not in taken and _is_data(site.tensor)]
        groups += [group for group in same_content(model, rest) if _is_worth_it(group)]
    _extract(model, root, groups)
    total = sum(_bytes(group[0].tensor) for group in groups)
    note = unmatched(root, found, options.tensors, options.ops)
    moved = f"{format_size(total)} to .npy files, fed as inputs{note}"
    return Applied(sum(map(len, groups)), moved if groups else note[2:])


def _fits_npy(tensor: TensorProto) -> bool:
    return tensor.data_type in TYPES and _bytes(tensor) > 0


def _is_data(tensor: TensorProto) -> bool:
    """Not a scalar, a shape or a list of axes: onnxruntime has to see those when it loads a model."""
    return _bytes(tensor) >= LARGE or (tensor.data_type in FLOATS and element_count(tensor) > 1)


def _bytes(tensor: TensorProto) -> int:
    return stored_bytes(tensor.data_type, tensor.dims) or 0


def _encoded(model: Model, found: list[Site]) -> set[int]:
    """Scales, zero points and codes: onnxruntime wants them inside, so nothing but a name takes them out."""
    parts = encoding_parts(model.proto)
    return {id(site) for site in found if site.name in parts}


def _is_worth_it(group: Group) -> bool:
    """Whether the copies take more than a file of their own, an input and a line of the record."""
    tensor = group[0].tensor
    overhead = len(header(tensor)) + 4 * len(group[0].name) + 128
    return (len(group) - 1) * _bytes(tensor) > overhead


def _extract(model: Model, root: Scope, groups: list[Group]) -> None:
    taken, shadowed = all_names(model.proto), defined_twice(root)
    record, inner = recorded(model.proto), recorded_inner(model.proto)
    files = {name.lower() for name in record.values()}
    renames: dict[Scope, dict[str, str]] = defaultdict(dict)
    for group in groups:
        keeper = next((s for s in group if s.scope is root and s.name not in shadowed), None)
        name = keeper.name if keeper else fresh_name(group[0].name, taken)
        inner += [] if any(site.scope is root for site in group) else [name]
        record[name] = next(file for file in npy_names(model.path, name) if file.lower() not in files)
        files.add(record[name].lower())
        _put_beside(model, group[0].tensor, name, record[name])
        for site in group:
            renames[site.scope][site.name] = name
    rename_uses(root, renames)
    remove_sites([site for group in groups for site in group], {})
    set_record(model.proto, record)
    set_inner(model.proto, inner)


def _put_beside(model: Model, tensor: TensorProto, name: str, file: str) -> None:
    """Declare the input, last of all, and keep the values for the file."""
    span = model.span(tensor) or model.store.put(bytes(model.raw(tensor)))
    beside = TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims)
    beside.external_data.add(key="location", value=file)
    model.set_span(beside, span)
    model.beside.append(beside)
    value = model.proto.graph.input.add(name=name)
    value.type.tensor_type.elem_type = tensor.data_type
    shape = value.type.tensor_type.shape
    shape.SetInParent()
    for dim in tensor.dims:
        shape.dim.add(dim_value=dim)
