"""Takes external data back into the model file."""

from __future__ import annotations

from onnx_ci.model.container import LARGE, Model, clear_values, location
from onnx_ci.model.graph import tensors
from onnx_ci.model.proto import TensorProto
from onnx_ci.model.wire import Span


def embedded_size(model: Model) -> int:
    """About what the model takes as one file."""
    spans = (model.span(tensor) for tensor in tensors(model.proto))
    return int(model.proto.ByteSize()) + sum(span.length for span in spans if span)


def embed(model: Model) -> int:
    """Take all external tensors into the model; how many there were."""
    outside = [tensor for tensor in tensors(model.proto) if location(tensor)]
    for tensor in outside:
        span = model.span(tensor)
        if span is not None:
            take_in(model, tensor, span)
    return len(outside)


def take_in(model: Model, tensor: TensorProto, span: Span) -> None:
    """Store the bytes of a span where a model that was just opened would have them."""
    clear_values(tensor)
    if span.length < LARGE:
        tensor.raw_data = bytes(model.store.read(span))
    else:
        model.set_span(tensor, span)
