"""Digests of a whole model, apart from how it is stored, and of single tensors."""

from __future__ import annotations

import hashlib

import xxhash
from onnx import TensorProto

from onnx_ci.model.container import Model, clear_values
from onnx_ci.model.graphs import tensors
from onnx_ci.model.receipt import without_receipt


def model_digest(model: Model) -> str:
    """The model without its receipt, wherever its tensors are kept: equal digests, equal models."""
    proto = without_receipt(model.proto)
    digest = hashlib.sha256()
    for tensor in tensors(proto):
        span = model.span(tensor)
        if span is not None:
            for chunk in model.store.chunks(span):
                digest.update(chunk)
            clear_values(tensor)
        tensor.ClearField("data_location")
    digest.update(proto.SerializeToString(deterministic=True))
    return digest.hexdigest()


def tensor_key(model: Model, tensor: TensorProto) -> bytes:
    """A fast digest of the stored bytes; whoever merges tensors by it compares the bytes as well."""
    digest = xxhash.xxh3_128()
    span = model.span(tensor)
    if span is None:
        digest.update(bytes(model.raw(tensor)))
    else:
        for chunk in model.store.chunks(span):
            digest.update(chunk)
    return digest.digest()


def same_bytes(model: Model, one: TensorProto, other: TensorProto) -> bool:
    """Whether two tensors store the very same bytes."""
    first, second = model.span(one), model.span(other)
    if first is None or second is None:
        return bytes(model.raw(one)) == bytes(model.raw(other))
    if first == second:
        return True
    if first.length != second.length:
        return False
    pairs = zip(model.store.chunks(first), model.store.chunks(second), strict=True)
    # A bytearray compares whole buffers at once; two views would compare byte by byte.
    return all(bytearray(ours) == theirs for ours, theirs in pairs)
