"""Moves large tensors to a standard external data file beside the model, or all of them back into it."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.chosen import chosen, stored, unmatched
from onnx_ci.methods.options import ExternalData
from onnx_ci.methods.scopes import Scope
from onnx_ci.model.container import LARGE, Model, location
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.embed import PROTOBUF_LIMIT, embed, embedded_size
from onnx_ci.model.external import own_data
from onnx_ci.model.proto import TensorProto
from onnx_ci.sizes import format_size, parse_size


def apply(model: Model, options: ExternalData) -> Applied:
    if options.embed:
        return _embed(model)
    root = Scope(model.proto.graph)
    sites, note = list(stored(root)), ""
    least = parse_size(options.threshold)
    if options.tensors or options.ops:
        note = unmatched(root, sites, options.tensors, options.ops)
        sites, least = chosen(root, sites, options.tensors, options.ops), 0
    moved = list(_movable((site.tensor for site in sites), max(least, LARGE)))
    for tensor in moved:
        _move(model, tensor, options.file or own_data(model.path))
    total = sum(stored_bytes(tensor.data_type, tensor.dims) or 0 for tensor in moved)
    return Applied(len(moved), f"{format_size(total)} to external data{note}" if moved else note[2:])


def _movable(tensors: Iterable[TensorProto], least: int) -> Iterable[TensorProto]:
    """Tensors inside the model with that many bytes. Smaller ones than a kilobyte are never moved: shapes
    and axes are among them, which onnxruntime has to see when it loads a model."""
    return (
        tensor
        for tensor in tensors
        if not location(tensor) and (stored_bytes(tensor.data_type, tensor.dims) or 0) >= least
    )


def _move(model: Model, tensor: TensorProto, home: str) -> None:
    span = model.span(tensor) or model.store.put(bytes(model.raw(tensor)))
    tensor.external_data.add(key="location", value=home)
    model.set_span(tensor, span)


def _embed(model: Model) -> Applied:
    size = embedded_size(model)
    if size > PROTOBUF_LIMIT:
        return Applied(0, f"left outside: {format_size(size)} in one file, protobuf reads no more than 2 GiB")
    count = embed(model)
    return Applied(count, "back into the model")
