"""Sizes of a model: on disk with its external data, compressed, and in parameters."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.container import Model, element_count
from onnx_ci.model.external import data_files
from onnx_ci.model.graph import tensors
from onnx_ci.model.hashing import BackgroundHash, combined_sha256, file_sha256
from onnx_ci.model.locations import is_inside
from onnx_ci.model.npy import recorded
from onnx_ci.model.proto import ModelProto
from onnx_ci.model.store import CHUNK
from onnx_ci.results import Measure

LEVEL = 9  # of each compressor: what a careful server or packager would use


class Compressor(Protocol):
    """What zlib, brotli and zstandard have in common once they are wrapped."""

    def feed(self, data: memoryview) -> int: ...
    def finish(self) -> int: ...


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
    return Measure(
        size=sum(file.stat().st_size for file in files),
        sha256=_sha256(files, hashing) if hashing else "",
        params=parameters(proto),
        **sizes,
    )


def _sha256(files: Sequence[Path], hashing: BackgroundHash) -> str:
    """Of the file, or of all files where there is external data: other data is another content."""
    others = {name: file_sha256(file) for name, file in by_name(files).items() if file != files[0]}
    return combined_sha256({files[0].name: hashing.result(), **others})


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
    return sum(_compressed_size(COMPRESSORS[name](), file) for file in files)


def _compressed_size(compressor: Compressor, file: Path) -> int:
    return sum(map(compressor.feed, _chunks(file))) + compressor.finish()


def _chunks(file: Path) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(CHUNK))
    with file.open("rb", buffering=0) as opened:
        while count := opened.readinto(buffer):
            yield buffer[:count]


class _Gzip:
    def __init__(self) -> None:
        self.stream = zlib.compressobj(LEVEL, wbits=31)

    def feed(self, data: memoryview) -> int:
        return len(self.stream.compress(data))

    def finish(self) -> int:
        return len(self.stream.flush())


class _Brotli:
    def __init__(self) -> None:
        self.stream = _package("brotli").Compressor(quality=LEVEL)

    def feed(self, data: memoryview) -> int:
        return len(self.stream.process(bytes(data)))

    def finish(self) -> int:
        return len(self.stream.finish())


class _Zstd:
    def __init__(self) -> None:
        self.stream = _package("zstandard").ZstdCompressor(level=LEVEL).compressobj()

    def feed(self, data: memoryview) -> int:
        return len(self.stream.compress(data))

    def finish(self) -> int:
        return len(self.stream.flush())


def _package(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise EnvironmentFault(
            f"a {name.removesuffix('ard')} budget needs the package {name!r}, which is not installed",
            hint="run: pip install 'onnx-ci[compression]'",
        ) from None


COMPRESSORS: dict[str, Callable[[], Compressor]] = {"gzip": _Gzip, "brotli": _Brotli, "zstd": _Zstd}
