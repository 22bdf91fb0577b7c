"""Digests of a whole model, apart from how it is stored, and of single tensors."""

from __future__ import annotations

import os

import xxhash

from onnx_ci.model.container import Model, clear_values
from onnx_ci.model.graph import tensors
from onnx_ci.model.npy import set_record
from onnx_ci.model.proto import TensorProto
from onnx_ci.model.receipt import without_receipt


def model_digest(model: Model) -> str:
    """The model without its receipt, wherever its tensors are kept: equal digests, equal models.

    It tells an edited model from an untouched one, and a bad disk from a good one. It proves nothing
    against someone who forges a receipt: a model that changed is run against its original.
    """
    proto = without_receipt(model.proto)
    set_record(proto, {})  # names files, which may be called otherwise
    beside = model.copy().beside
    digest = xxhash.xxh3_128()
    for tensor in [*tensors(proto), *beside]:
        span = model.span(tensor)
        if span is not None:
            for chunk in model.store.chunks(span):
                digest.update(chunk)
            clear_values(tensor)
        tensor.ClearField("data_location")
    for tensor in beside:
        digest.update(tensor.SerializeToString(deterministic=True))
    digest.update(proto.SerializeToString(deterministic=True))
    return f"xxh3:{digest.hexdigest()}"


# Another one each time the program runs: nobody can prepare two tensors that are taken for one.
SEED = int.from_bytes(os.urandom(8), "little")


def tensor_key(model: Model, tensor: TensorProto) -> bytes:
    """128 bits that two tensors share only if they store the same bytes. Good for this run alone."""
    digest = xxhash.xxh3_128(seed=SEED)
    span = model.span(tensor)
    if span is None:
        digest.update(bytes(model.raw(tensor)))
    else:
        for chunk in model.store.chunks(span):
            digest.update(chunk)
    return digest.digest()
