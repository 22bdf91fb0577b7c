"""What the bytes of a model are: by kind of thing, by type, by tensor, and how many are there twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from onnx_ci.model.container import Model, element_count
from onnx_ci.model.digest import tensor_key
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graph import bodies, opset, tensors
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.model.load import open_model
from onnx_ci.model.measure import measure
from onnx_ci.model.proto import TensorProto
from onnx_ci.model.receipt import read_receipt
from onnx_ci.results import ModelInfo, TensorInfo


def inspect_model(path: Path, name: str) -> ModelInfo:
    with open_model(path) as model:
        found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=["gzip"])
        infos = _tensors(model, found.size)
        types: Counter[str] = Counter()
        for info in infos:
            types[info.dtype] += info.size
        stored = sum(types.values())
        ops = Counter(node.op_type for body in bodies(model.proto) for node in body.node)
        receipt = read_receipt(model.proto)
        return ModelInfo(
            path=name,
            measure=found,
            opset=opset(model.proto),
            ir_version=model.proto.ir_version,
            producer=f"{model.proto.producer_name} {model.proto.producer_version}".strip(),
            nodes=sum(ops.values()),
            ops=dict(ops.most_common()),
            types=dict(types.most_common()),
            tensor_bytes=stored,
            other_bytes=max(found.size - stored, 0),
            duplicate_bytes=_duplicates(infos),
            tensors=tuple(sorted(infos, key=lambda info: -info.size)),
            shrunk_by=tuple(entry["name"] for entry in receipt.methods) if receipt else (),
        )


def _tensors(model: Model, total: int) -> list[TensorInfo]:
    groups: dict[object, list[TensorProto]] = defaultdict(list)
    for tensor in tensors(model.proto):
        groups[_identity(model, tensor)].append(tensor)
    return [
        TensorInfo(
            name=tensor.name,
            dtype=TensorProto.DataType.Name(tensor.data_type).lower(),
            shape=tuple(tensor.dims),
            size=(size := _size(model, tensor)),
            share=size / total,
            copies=len(group),
        )
        for group in groups.values()
        for tensor in group
    ]


def _identity(model: Model, tensor: TensorProto) -> object:
    if tensor.data_type == TensorProto.STRING or not element_count(tensor):
        return id(tensor)
    return tensor.data_type, tuple(tensor.dims), tensor_key(model, tensor)


def _size(model: Model, tensor: TensorProto) -> int:
    span = model.span(tensor)
    if span is not None:
        return span.length
    expected = stored_bytes(tensor.data_type, tensor.dims)
    return sum(map(len, tensor.string_data)) if expected is None else expected


def _duplicates(infos: list[TensorInfo]) -> int:
    """Bytes that storing each content once would save."""
    return round(sum(info.size * (1 - 1 / info.copies) for info in infos))
