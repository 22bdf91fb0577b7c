"""The receipt a shrunk model carries: its source, what was done, and a digest that shows later edits.

It holds nothing that depends on the machine or the moment, so the same input gives the same bytes
everywhere: sizes and methods are in it, timings and measured outputs are in the report.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import xxhash

from onnx_ci.model.graph import metadata_entry, set_metadata_entry, tensors
from onnx_ci.model.model import Model, clear_values
from onnx_ci.model.npy import set_record
from onnx_ci.model.proto import ModelProto, TensorProto
from onnx_ci.model.wire import Span

Item = TypeVar("Item")
KEY = "onnx_ci.receipt"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """`policy` is the fingerprint of the rule it was made under; `lossy` whether values were changed."""

    tool: str
    policy: str
    source_sha256: str
    source_size: int
    source_data: dict[str, str] = field(default_factory=dict)
    methods: list[dict[str, Any]] = field(default_factory=list)
    lossy: bool = False
    verified: bool = False
    digest: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The methods, in the order they were run."""
        return tuple(entry["name"] for entry in self.methods)


def read_receipt(proto: ModelProto) -> Receipt | None:
    """The receipt of a model, or None if it has none that this version understands."""
    text = metadata_entry(proto, KEY)
    if text is None:
        return None
    try:
        receipt = Receipt(**json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return None
    return receipt if _is_plausible(receipt) else None


def _is_plausible(receipt: Receipt) -> bool:
    """Whether the fields are what their types say: anyone can write a receipt."""
    texts = (receipt.tool, receipt.policy, receipt.source_sha256, receipt.digest)
    lists = isinstance(receipt.methods, list) and isinstance(receipt.source_data, dict)
    if not (lists and all(isinstance(text, str) for text in texts)):
        return False
    named = all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in receipt.methods)
    digests = all(isinstance(digest, str) for digest in receipt.source_data.values())
    return named and digests and isinstance(receipt.source_size, int)


def without_receipt(proto: ModelProto) -> ModelProto:
    """A copy of the skeleton that carries no receipt."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    set_metadata_entry(copy, KEY, "")
    return copy


def attach_receipt(proto: ModelProto, receipt: Receipt) -> None:
    """Put the receipt into the model, in place of an older one."""
    content = {name: value for name, value in asdict(receipt).items() if value}
    set_metadata_entry(proto, KEY, json.dumps(content, separators=(",", ":")))


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


SAMPLE = 1 << 12  # bytes at the start, in the middle and at the end of a tensor


def same_content(
    model: Model, items: Sequence[Item], tensor_of: Callable[[Item], TensorProto]
) -> list[list[Item]]:
    """The items in groups whose tensors have equal type, shape and bytes, most of them alone. Only
    look-alikes are read, and whole only those whose samples are the same."""
    found = [tensor_of(item) for item in items]
    kinds: list[Hashable] = [(tensor.data_type, *tensor.dims[:]) for tensor in found]
    for key_of in (_sample_key, tensor_key):
        alike = {kind for kind, count in Counter(kinds).items() if count > 1}
        keyed = zip(found, kinds, strict=True)
        kinds = [(kind, key_of(model, tensor)) if kind in alike else kind for tensor, kind in keyed]
    groups: dict[Hashable, list[Item]] = defaultdict(list)
    for item, kind in zip(items, kinds, strict=True):
        groups[kind].append(item)
    return list(groups.values())


def _sample_key(model: Model, tensor: TensorProto) -> bytes:
    span = model.span(tensor)
    if span is None or span.length <= 3 * SAMPLE:
        return b""
    last = span.length - SAMPLE
    pieces = [model.store.read(Span(span.source, span.offset + at, SAMPLE)) for at in (0, last // 2, last)]
    return xxhash.xxh3_128(b"".join(pieces), seed=SEED).digest()


def tensor_key(model: Model, tensor: TensorProto) -> bytes:
    """128 bits that two tensors share only if they store the same bytes. Good for this run alone."""
    span = model.span(tensor)
    if span is None:
        return xxhash.xxh3_128_digest(bytes(model.raw(tensor)), seed=SEED)
    digest = xxhash.xxh3_128(seed=SEED)
    for chunk in model.store.chunks(span):
        digest.update(chunk)
    return digest.digest()
