"""Sizes of a model: on disk with its external data, compressed, and in parameters."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.graph import STANDARD_DOMAINS, all_nodes, default_inputs, opset, tensors
from onnx_ci.model.load import data_files, open_model
from onnx_ci.model.locations import is_inside
from onnx_ci.model.model import Model, element_count, stored_size
from onnx_ci.model.npy import recorded
from onnx_ci.model.proto import AttributeProto, ModelProto, TensorProto
from onnx_ci.model.receipt import read_receipt, same_content
from onnx_ci.model.store import BackgroundHash, combined_sha256, file_chunks, file_sha256
from onnx_ci.results import Measure, ModelInfo, TensorInfo, ValueInfo
from onnx_ci.util.advice import to_run

SAMPLED = 8_000_000  # bytes; a model that is larger is estimated from pieces of it
PIECE, PIECES = 1 << 16, 32  # bytes of each, and about how many
WEIGHTY = 1024  # bytes of attributes that are worth a line
LEVEL = 9  # of each compressor: what a careful server or packager would use


def measure(
    path: Path,
    proto: ModelProto,
    *,
    hashing: BackgroundHash | None,
    compressed: Iterable[str] = (),
) -> Measure:
    """Measure a model where it stands: its sha256 and compressed sizes only where they are asked for."""
    files = files_of(path, proto)
    sizes: dict[str, Any] = {name: compressed_size(name, files) for name in compressed}
    sha256 = ""
    if hashing:  # of all files where there is external data: other data is another content
        data = {name: file_sha256(file) for name, file in by_name(files).items() if file != path}
        sha256 = combined_sha256({path.name: hashing.result(), **data})
    size = sum(file.stat().st_size for file in files)
    return Measure(size=size, sha256=sha256, params=parameters(proto), **sizes)


def by_name(files: Sequence[Path]) -> dict[str, Path]:
    """A model and its data by their names as the model has them: two folders may have files of one name."""
    return {file.relative_to(files[0].parent).as_posix(): file for file in files}


def largest_tensors(model: Model, count: int = 3) -> tuple[tuple[str, int], ...]:
    """The tensors that take most of a model, by name, with their bytes."""
    stored = {tensor.name: model.span(tensor) for tensor in tensors(model.proto) if tensor.name}
    sizes = {name: span.length for name, span in stored.items() if span is not None}
    return tuple(sorted(sizes.items(), key=lambda item: -item[1])[:count])


def files_of(path: Path, proto: ModelProto) -> list[Path]:
    """The .onnx file, its external data, and the .npy files of its inputs that are there: each file once, and
    no names that no data may have."""
    missing = {name for name in recorded(proto).values() if not (path.parent / name).is_file()}
    named = (name for name in data_files(proto) if name not in missing and is_inside(name))
    return list(dict.fromkeys([path, *(path.parent / name for name in named)]))


def parameters(proto: ModelProto) -> int:
    """How many numbers the model stores, those that were taken out of it and are fed as inputs included."""
    fed = recorded(proto)
    shapes = (value.type.tensor_type.shape for value in proto.graph.input if value.name in fed)
    outside: int = sum(math.prod(dim.dim_value for dim in shape.dim) for shape in shapes)
    return sum(element_count(tensor) for tensor in tensors(proto)) + outside


def compressed_size(name: str, files: Iterable[Path]) -> int:
    """Bytes after compression, file by file, without keeping any of them."""
    size = 0
    for file in files:
        compress, finish = COMPRESSORS[name]()
        size += sum(len(compress(chunk)) for chunk in file_chunks(file)) + len(finish())
    return size


# A stream of each compressor: what compresses a piece, and what gives the rest at the end.
Stream = tuple[Callable[[memoryview], bytes], Callable[[], bytes]]


def _gzip() -> Stream:
    stream = zlib.compressobj(LEVEL, wbits=31)
    return stream.compress, stream.flush


def _brotli() -> Stream:
    stream = _package("brotli").Compressor(quality=LEVEL)
    return lambda piece: stream.process(bytes(piece)), stream.finish


def _zstd() -> Stream:
    stream = _package("zstandard").ZstdCompressor(level=LEVEL).compressobj()
    return stream.compress, stream.flush


def _package(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise EnvironmentFault(
            f"a {name.removesuffix('ard')} budget needs the package {name!r}, which is not installed",
            hint=to_run("pip install 'onnx-ci[compression]'"),
        ) from None


COMPRESSORS: dict[str, Callable[[], Stream]] = {"gzip": _gzip, "brotli": _brotli, "zstd": _zstd}


def estimated_size(name: str, files: Sequence[Path]) -> int:
    """About the bytes after compression, from pieces at even distances."""
    sizes = [file.stat().st_size for file in files]
    compress, finish = COMPRESSORS[name]()
    distance = max(PIECE, sum(sizes) // PIECES)
    seen = made = 0
    for file, size in zip(files, sizes, strict=True):
        with file.open("rb") as content:
            for start in range(0, size, distance):
                content.seek(start + max(0, min(distance, size - start) - PIECE) // 2)
                piece = content.read(PIECE)
                made += len(compress(memoryview(piece)))
                seen += len(piece)
    made += len(finish())
    return round(sum(sizes) * made / seen)


def inspect_model(path: Path, name: str, *, exact: bool = False) -> ModelInfo:
    """What the bytes of a model are. Its sha256 and its compressed size to the byte take reading and
    compressing everything: large models have them only where they are to be `exact`."""
    with open_model(path) as model:
        files = files_of(path, model.proto)
        exact = exact or sum(file.stat().st_size for file in files) <= SAMPLED
        if exact:
            found = measure(path, model.proto, hashing=BackgroundHash(path), compressed=["gzip"])
        else:
            found = measure(path, model.proto, hashing=None)
            found = replace(found, gzip=estimated_size("gzip", files))
        infos = _tensors(model, found.size)
        types: Counter[str] = Counter()
        for info in infos:
            types[info.dtype] += info.size
        stored = sum(types.values())
        ops = Counter(node.op_type for node in all_nodes(model.proto))
        receipt = read_receipt(model.proto)
        weighty: Counter[str] = Counter()
        for node in all_nodes(model.proto):
            weighty[node.op_type] += sum(map(_plain_bytes, node.attribute))
        attributes = {op: size for op, size in weighty.most_common() if size >= WEIGHTY}
        defaults = set(default_inputs(model.proto.graph))
        inputs = [value for value in model.proto.graph.input if value.name not in defaults]
        imports = {entry.domain: entry.version for entry in model.proto.opset_import}
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
            other_bytes=max(found.size - stored - sum(attributes.values()), 0),
            # What storing each content once would save.
            duplicate_bytes=round(sum(info.size * (1 - 1 / info.copies) for info in infos)),
            tensors=tuple(sorted(infos, key=lambda info: -info.size)),
            shrunk_by=receipt.names if receipt else (),
            inputs=tuple(map(_value, inputs)),
            outputs=tuple(map(_value, model.proto.graph.output)),
            opsets={domain: imports[domain] for domain in imports if domain not in STANDARD_DOMAINS},
            attributes=attributes,
            estimated=not exact,
        )


def _plain_bytes(attribute: AttributeProto) -> int:
    """What an attribute takes that holds no tensor and no graph: the splits of trees, coefficients, texts."""
    others = ("t", "tensors", "g", "graphs", "sparse_tensor", "sparse_tensors")
    return 0 if any(field.name in others for field, _ in attribute.ListFields()) else attribute.ByteSize()


def _value(value: Any) -> ValueInfo:
    from onnx_ci.model.interface import show_type  # which loads all of onnx

    tensor, shape = value.type.tensor_type, None
    if tensor.HasField("shape"):
        sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim]
        shape = tuple("?" if size == "" else size for size in sizes)
    return ValueInfo(name=value.name, type=show_type(value.type), shape=shape)


def _tensors(model: Model, total: int) -> list[TensorInfo]:
    plain: list[TensorProto] = []
    others: list[TensorProto] = []
    for tensor in tensors(model.proto):
        filled = tensor.data_type != TensorProto.STRING and element_count(tensor)
        (plain if filled else others).append(tensor)
    groups = [*same_content(model, plain, lambda tensor: tensor), *([tensor] for tensor in others)]
    return [
        TensorInfo(
            name=tensor.name,
            dtype=TensorProto.DataType.Name(tensor.data_type).lower(),
            shape=tuple(tensor.dims),
            size=(size := _size(model, tensor)),
            share=size / total,
            copies=len(group),
        )
        for group in groups
        for tensor in group
    ]


def _size(model: Model, tensor: TensorProto) -> int:
    span = model.span(tensor)
    return span.length if span else stored_size(tensor) or sum(map(len, tensor.string_data))
