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
from onnx_ci.model.graph import all_nodes, opset, tensors
from onnx_ci.model.load import data_files, open_model
from onnx_ci.model.locations import is_inside
from onnx_ci.model.model import Model, element_count, stored_size
from onnx_ci.model.npy import recorded
from onnx_ci.model.proto import ModelProto, TensorProto
from onnx_ci.model.receipt import read_receipt, same_content
from onnx_ci.model.store import BackgroundHash, combined_sha256, file_chunks, file_sha256
from onnx_ci.results import Measure, ModelInfo, TensorChange, TensorInfo
from onnx_ci.util.advice import to_run

SAMPLED = 8_000_000  # bytes; a model that is larger is estimated from pieces of it
PIECE, PIECES = 1 << 16, 32  # bytes of each, and about how many
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


MOST_TENSORS = 5_000  # of one model in a report


def tensor_changes(before: Model, after: Model | None) -> tuple[TensorChange, ...]:
    """The largest tensors of a model, and what became of each. What a tensor was encoded as is called after
    it: `weight` is stored as `weight.codes` and `weight.scale`."""
    old, new = _stored(before), _stored(after) if after else {}
    parts: dict[str, list[str]] = {}
    added = []
    for name in new:
        above = name.rpartition(".")[0]
        owner = next((each for each in (name, above, above.rpartition(".")[0]) if each in old), None)
        if owner is None:
            added.append(name)
        else:
            parts.setdefault(owner, []).append(name)
    found = []
    for name, was in old.items():
        became = sorted((new[part] for part in parts.get(name, ())), reverse=True)
        size, dtype, shape = was
        change = TensorChange(name=name, dtype=dtype, shape=shape, before=size)
        if after is not None and became != [was]:
            stored = became[0][1] if became and became[0][1] != dtype else ""
            change = replace(change, stored=stored, done=_done(became))
        found.append(replace(change, after=sum(each[0] for each in became)) if after else change)
    for name in added:
        size, dtype, shape = new[name]
        found.append(TensorChange(name=name, dtype=dtype, shape=shape, before=0, after=size, done="new"))
    found.sort(key=lambda change: (-max(change.before, change.after or 0), change.name))
    return tuple(found[:MOST_TENSORS])


Stored = tuple[int, str, tuple[int, ...]]  # bytes, type and shape of a tensor


def _stored(model: Model) -> dict[str, Stored]:
    """The tensors of a model by name. Those without one, in nodes, are called by their number."""
    found: dict[str, Stored] = {}
    for number, tensor in enumerate(tensors(model.proto)):
        name = tensor.name or f"(unnamed {number})"
        found[name if name not in found else f"{name} ({number})"] = _described(model, tensor)
    return found


def _described(model: Model, tensor: TensorProto) -> Stored:
    names = TensorProto.DataType.DESCRIPTOR.values_by_number
    known = names.get(tensor.data_type)
    dtype = known.name.lower() if known else f"type {tensor.data_type}"
    return _size(model, tensor), dtype, tuple(tensor.dims)


def _done(became: Sequence[Stored]) -> str:
    if not became:
        return "removed: a copy of another, or not needed"
    return f"stored as {' and '.join(dict.fromkeys(dtype for _, dtype, _ in became))}"


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
            # What storing each content once would save.
            duplicate_bytes=round(sum(info.size * (1 - 1 / info.copies) for info in infos)),
            tensors=tuple(sorted(infos, key=lambda info: -info.size)),
            shrunk_by=receipt.names if receipt else (),
            estimated=not exact,
        )


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
            dtype=(stored := _described(model, tensor))[1],
            shape=stored[2],
            size=stored[0],
            share=stored[0] / total,
            copies=len(group),
        )
        for group in groups
        for tensor in group
    ]


def _size(model: Model, tensor: TensorProto) -> int:
    span = model.span(tensor)
    return span.length if span else stored_size(tensor) or sum(map(len, tensor.string_data))
