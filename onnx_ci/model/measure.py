"""Sizes of a model: on disk with its external data, compressed, and in parameters."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graph import (
    STANDARD_DOMAINS,
    Body,
    Nodes,
    Outline,
    all_nodes,
    constant_nodes,
    constant_value,
    nodes_by_body,
    opset,
    outline,
    output_names,
    tensors,
)
from onnx_ci.model.interface import fed_inputs, show_type
from onnx_ci.model.load import data_files, open_model
from onnx_ci.model.locations import is_inside
from onnx_ci.model.model import Model, element_count
from onnx_ci.model.npy import recorded
from onnx_ci.model.proto import AttributeProto, GraphProto, ModelProto, TensorProto
from onnx_ci.model.receipt import read_receipt, same_content
from onnx_ci.model.store import BackgroundHash, combined_sha256, file_chunks, file_sha256
from onnx_ci.results import Measure, ModelInfo, TensorBytes, TensorInfo, ValueInfo
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
    files: Sequence[Path] = (),
) -> Measure:
    """Measure a model where it stands: its sha256 and compressed sizes only where they are asked for. `files`
    are its own, where that is known."""
    files = files or files_of(path, proto)
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


def tensor_changes(before: Model, after: Model | None) -> tuple[TensorBytes, ...]:
    """The largest tensors of a model, and what became of each. What a tensor was encoded as is called after
    it: `weight` is stored as `weight.codes` and `weight.scale`."""
    old = _stored(before)
    if after is None:
        largest = sorted((-was[0], name, was) for name, was in old.items())[:MOST_TENSORS]
        return tuple(
            TensorBytes(name=name, dtype=was[1], shape=was[2], before=was[0]) for _, name, was in largest
        )
    new = _stored(after)
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
        change = TensorBytes(name=name, dtype=dtype, shape=shape, before=size)
        if became != [was]:
            stored = became[0][1] if became and became[0][1] != dtype else ""
            change = replace(change, stored=stored, done=_done(became))
        found.append(replace(change, after=sum(each[0] for each in became)))
    for name in added:
        size, dtype, shape = new[name]
        found.append(TensorBytes(name=name, dtype=dtype, shape=shape, before=0, after=size, done="new"))
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


_TYPE_NAMES = {number: name.lower() for name, number in TensorProto.DataType.items()}


def _described(model: Model, tensor: TensorProto) -> Stored:
    dtype = _TYPE_NAMES.get(tensor.data_type) or f"type {tensor.data_type}"
    shape = tuple(tensor.dims[:])
    span = model.span(tensor)
    size = span.length if span else stored_bytes(tensor.data_type, shape) or sum(map(len, tensor.string_data))
    return size, dtype, shape


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
    """How many numbers the model has: weights that are stored as codes count as what they stand for, scales
    and tables not at all; those that were taken out of it and are fed as inputs count too."""
    fed = recorded(proto)
    shapes = (value.type.tensor_type.shape for value in proto.graph.input if value.name in fed)
    outside: int = sum(math.prod(dim.dim_value for dim in shape.dim) for shape in shapes)
    known = outline(proto)
    stored = sum(element_count(tensor) for tensor in tensors(known))
    return stored + outside + _Encodings(known).surplus()


_CODES = (
    *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16),
    *(TensorProto.INT4, TensorProto.UINT4),
)
_AS_MANY = ("Cast", "CastLike", "Reshape", "Transpose", "DequantizeLinear")  # as their first input has
_ELEMENTWISE = ("Add", "Mul", "Sub")
# Where quantized ops read numbers of the model; what else they read are scales and zero points.
_NUMBERS_AT = {
    "QuantizeLinear": (0,),
    "DequantizeLinear": (0,),
    "QLinearConv": (0, 3, 8),
    "QLinearMatMul": (0, 3),
    "QLinearAdd": (0, 3),
    "QLinearMul": (0, 3),
    "QGemm": (0, 3, 6),
    "ConvInteger": (0, 1),
    "MatMulInteger": (0, 1),
    "MatMulIntegerToFloat": (0, 1, 6),
    "DynamicQuantizeMatMul": (0, 1, 4),
    "MatMulNBits": (0, 1, 5),
}

_READ_IN_PART = {"DynamicQuantizeLinear", "Mul", *_NUMBERS_AT}


class _Encodings:
    """Stored tensors that nodes turn into weights, by name: how many numbers go in, and how many come out."""

    def __init__(self, known: Outline) -> None:
        self.stored = _stored_once(known)
        self.dims: dict[str, list[int]] = {name: tensor.dims[:] for name, tensor in self.stored.items()}
        self.counts = {name: math.prod(dims) for name, dims in self.dims.items()}
        self.codes = {name for name, tensor in self.stored.items() if tensor.data_type in _CODES}
        self.used: set[str] = set()  # as they are
        self.scales: set[str] = set()  # found out while the model runs
        self.parts: set[str] = set()
        self.hidden = 0  # numbers in bytes that hold several
        for body, nodes in nodes_by_body(known):
            self._read(body, nodes)
            self.used.update(output_names(body))

    def surplus(self) -> int:
        """How many numbers the weights have more than what is stored for them."""
        parts = self.parts - self.used
        weights = self.counts.keys() - self.stored.keys() - parts
        stored = sum(self.counts[name] for name in parts & self.stored.keys())
        return self.hidden + sum(self.counts[name] for name in weights) - stored

    def _read(self, body: Body, nodes: Nodes) -> None:
        read: list[tuple[str, ...]] = []
        for position, names in enumerate(nodes.inputs):
            # What reads a value that is computed from inputs decodes nothing; the first name mostly tells.
            first = names[0] if names else ""
            count = None
            if (first in self.counts or not first) and nodes.outputs[position]:
                count = self._decoded(body, nodes, position)
            if count is None and nodes.ops[position] in _READ_IN_PART:
                self._use(body, nodes, position)
            elif count is None:
                read.append(names)
            if count is None:
                continue
            output = nodes.outputs[position][0]
            self.counts[output] = count
            if nodes.ops[position] == "Cast":
                self.dims[output] = self.dims.get(next(filter(None, names)), [])
            elif nodes.ops[position] == "Gather" and names[1] in self.dims:
                self.dims[output] = [*self.dims[names[1]], *self.dims.get(names[0], [1])[1:]]
            if not self.codes.isdisjoint(names):
                self.codes.add(output)
        self.used.update(chain.from_iterable(read))
        self.parts.update(filter(None, chain.from_iterable(nodes.inputs)))

    def _use(self, body: Body, nodes: Nodes, position: int) -> None:
        """What a node that is `_READ_IN_PART` reads and does more with than to decode it."""
        op, names = nodes.ops[position], nodes.inputs[position]
        if op == "DynamicQuantizeLinear":
            self.scales.update(nodes.outputs[position])
        if op == "Mul" and not self.scales.isdisjoint(names):
            return  # the scales of a weight, times those of what it is multiplied with
        if op in _NUMBERS_AT:
            names = tuple(name for index, name in enumerate(names) if index in _NUMBERS_AT[op])
        self.used.update(names)
        if op == "MatMulNBits":
            packed = sum(self.counts.get(name, 0) for name in nodes.inputs[position][1:2])
            sides = {entry.name: entry.i for entry in body.node[position].attribute}
            self.hidden += max(0, sides.get("K", 0) * sides.get("N", 0) - packed) if packed else 0

    def _decoded(self, body: Body, nodes: Nodes, position: int) -> int | None:
        """How many numbers a node makes of stored ones; None where it does more than to decode them."""
        op, names = nodes.ops[position], nodes.inputs[position]
        given = [name for name in names if name]
        if not given or not all(name in self.counts for name in given):
            return None
        counts = [self.counts[name] for name in given]
        if op in _AS_MANY:
            return counts[0]
        if op in _ELEMENTWISE:
            return max(counts)
        if op == "Gather" and len(counts) == 2 and not body.node[position].attribute:
            by_code = names[1] in self.codes
            return counts[1] * math.prod(self.dims.get(names[0], [1])[1:]) if by_code else None
        if op == "Slice" and self.dims.get(names[0]) is None:
            attributes = body.node[position].attribute
            ends = [end for entry in attributes if entry.name == "ends" for end in entry.ints]
            ends = ends or _integers(self.stored.get(next(iter(names[2:3]), "")))
            return min(counts[0], ends[0]) if len(ends) == 1 and ends[0] > 0 else None
        return None


def _stored_once(known: Outline) -> dict[str, TensorProto]:
    """What is stored under a name that nothing else has."""
    listed: list[tuple[str, TensorProto]] = []
    for body, nodes in nodes_by_body(known):
        if isinstance(body, GraphProto):
            listed += [(tensor.name, tensor) for tensor in body.initializer]
        values = ((node, constant_value(node)) for node in constant_nodes(body, nodes))
        listed += [(node.output[0], tensor) for node, tensor in values if tensor is not None]
    times = Counter(name for name, _ in listed)
    return {name: tensor for name, tensor in listed if times[name] == 1}


def _integers(tensor: TensorProto | None) -> list[int]:
    """The values of a short tensor of int64."""
    if tensor is None or tensor.data_type != TensorProto.INT64:
        return []
    if tensor.int64_data:
        return list(tensor.int64_data)
    raw = tensor.raw_data
    return [int.from_bytes(raw[at : at + 8], "little", signed=True) for at in range(0, len(raw), 8)]


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
        receipt = read_receipt(model.proto)
        ops: Counter[str] = Counter()
        weighty: Counter[str] = Counter()
        for node in all_nodes(model.proto):
            ops[node.op_type] += 1
            plain = filter(is_plain, node.attribute)
            weighty[node.op_type] += sum(attribute.ByteSize() for attribute in plain)
        attributes = {op: size for op, size in weighty.most_common() if size >= WEIGHTY}
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
            inputs=tuple(map(_value, fed_inputs(model.proto))),
            outputs=tuple(map(_value, model.proto.graph.output)),
            opsets={domain: imports[domain] for domain in imports if domain not in STANDARD_DOMAINS},
            attributes=attributes,
            estimated=not exact,
        )


def is_plain(attribute: AttributeProto) -> bool:
    """Whether an attribute holds no tensor and no graph: the splits of trees, coefficients, texts do not."""
    others = ("t", "tensors", "g", "graphs", "sparse_tensor", "sparse_tensors")
    return not any(field.name in others for field, _ in attribute.ListFields())


def _value(value: Any) -> ValueInfo:
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
            dtype=(stored := _described(model, tensor))[1],
            shape=stored[2],
            size=stored[0],
            share=stored[0] / total,
            copies=len(group),
        )
        for group in groups
        for tensor in group
    ]
