"""Opens a model file: skeleton parsed, large tensors left on disk, everything checked before use."""

from __future__ import annotations

import mmap
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import DecodeError

from onnx_ci.errors import ModelError
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graph import tensors
from onnx_ci.model.locations import LFS_HEADER, is_inside, read_pointer
from onnx_ci.model.model import EXTERNAL, LARGE, Model, display_path, location
from onnx_ci.model.npy import KEY as RECORD
from onnx_ci.model.npy import open_beside, recorded
from onnx_ci.model.proto import ModelProto, StrictModelProto, TensorProto
from onnx_ci.model.store import Store, file_state
from onnx_ci.model.wire import Span, WireError, strip
from onnx_ci.util.advice import fetch_from_lfs, to_run

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
KNOWN_TYPES = set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


def open_model(path: Path, *, root: Path | None = None) -> Model:
    """The model at `path`. External data must lie inside `root` (by default the model's own folder)."""
    _refuse_other_files(path)
    if root is not None and not path.resolve().is_relative_to(root.resolve()):
        raise _data_fault(
            f"{display_path(path)}: is a link that leads outside the repository",
            "replace the link by the file itself",
        )
    store = Store()
    try:
        return _read(path, store, root or path.parent)
    except BaseException:
        store.close()
        raise


def adopt_model(store: Store, path: Path) -> Model:
    """Another file over a store that is there already: what a tool made of a model, or a cache kept.

    The file has to stay until the store is closed.
    """
    _refuse_other_files(path)
    return _read(path, store, path.parent)


def read_skeleton(path: Path) -> ModelProto:
    """Only the skeleton, without looking at external data: enough to see what a model names."""
    _refuse_other_files(path)
    return _parse(path, Store().key, 0)


def open_skeleton(path: Path) -> Model:
    """The model without its external data, which need not be there: those tensors have no bytes."""
    _refuse_other_files(path)
    store = Store()
    try:
        return Model(path, _parse(path, store.key, store.add_file(path)), store)
    except BaseException:
        store.close()
        raise


def _read(path: Path, store: Store, root: Path) -> Model:
    model = Model(path, _parse(path, store.key, store.add_file(path)), store)
    found = list(tensors(model.proto))
    _resolve_external_data(model, found, root)
    files = [path, *(path.parent / name for name in data_files(model.proto))]
    model.seen = {file: file_state(file) for file in files}
    model.beside = open_beside(model, root)
    for tensor in found:
        problem = _problem(model, tensor)
        if problem:
            raise _not_a_model(path, f"tensor {tensor.name!r} {problem}")
        _settle(model, tensor)
    return model


def _refuse_other_files(path: Path) -> None:
    head = _start_of(path)
    if isinstance(head, str):
        hint = "check the path and its permissions; name the .onnx file itself"
        raise ModelError(f"{display_path(path)}: {head}", hint=hint)
    if path.stat().st_size == 0:
        raise _not_a_model(path, "is empty (0 bytes), not an ONNX model")
    refuse_pointer(path, head)
    if head[4:8] == b"ORTM":
        raise ModelError(
            f"{display_path(path)}: is an onnxruntime .ort file (a flatbuffer), not an ONNX model",
            hint="keep the .onnx it was made from, or exclude this path with `ignore: true`",
        )


def _start_of(path: Path) -> bytes | str:
    """The first bytes of a regular file, or why there are none, in words."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "is not a regular file"
        with path.open("rb") as file:
            return file.read(1024)
    except OSError as error:
        return f"can't be read: {error.strerror}"


def refuse_pointer(path: Path, head: bytes, user: str = "") -> None:
    """A Git LFS pointer stands where the content should be: say how to get it."""
    if not head.startswith(LFS_HEADER.encode()):
        return
    found = read_pointer(head.decode(errors="replace"))
    size = f" for {found.size:,} bytes" if found else ""
    raise ModelError(
        f"{user}{display_path(path)}: is a Git LFS pointer{size}, the content has not been downloaded",
        hint=fetch_from_lfs(to_run(f'git lfs pull --include "{display_path(path)}"')),
        code="OCI007",
    )


def may_name_data(path: Path) -> bool:
    """Whether the model may name other files, without parsing it."""
    _refuse_other_files(path)
    skeleton = _skeleton(path, "", 0)
    return may_have_data(skeleton) or RECORD.encode() in skeleton


def _skeleton(path: Path, key: str, source: int) -> bytes:
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return strip(memoryview(mapped), key=key, source=source, large=LARGE)
    except WireError as error:
        raise _not_a_model(path, f"is not an ONNX model, or is cut short: {error}") from None


def _parse(path: Path, key: str, source: int) -> ModelProto:
    proto = ModelProto()
    skeleton = _skeleton(path, key, source)
    try:
        proto.ParseFromString(skeleton)
        is_text = True
    except UnicodeDecodeError:  # by protobuf in Python, which is strict at once
        is_text = False
    except DecodeError:
        raise _not_a_model(path, "is not an ONNX model: it does not decode as one") from None
    try:
        StrictModelProto().ParseFromString(skeleton)
    except (DecodeError, UnicodeDecodeError):
        is_text = False
    if not is_text:  # nobody knows what such a name is called, and no report could say it
        words = "holds text that is not UTF-8: the name of something, or a description"
        raise _not_a_model(path, words) from None
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise _not_a_model(path, "holds no graph, so it is not an ONNX model")
    if not proto.opset_import and proto.ir_version >= 3:
        raise _not_a_model(path, "names no opset version; it may be cut short")
    return proto


def _not_a_model(path: Path, what: str) -> ModelError:
    hint = "export it again, or exclude the path with `ignore: true` if it is not meant to be a model"
    return ModelError(f"{display_path(path)}: {what}", hint=hint)


def _problem(model: Model, tensor: TensorProto) -> str:
    """Why a tensor does not hold as many bytes as its type and shape say: it would be read past the end."""
    dims = list(tensor.dims)
    if min(dims, default=0) < 0:
        return f"has a negative dimension: {dims}"
    if tensor.data_type not in KNOWN_TYPES:
        return f"has type {tensor.data_type}, which onnx does not know"
    span = model.span(tensor)
    marks = sum(entry.key == model.store.key for entry in tensor.external_data) if span else 0
    if marks > 1 or (tensor.data_location == EXTERNAL and not marks):
        return "is stored in two ways at once, or nowhere"
    if span is None and not tensor.HasField("raw_data"):
        return ""
    found = span.length if span else len(tensor.raw_data)
    expected = stored_bytes(tensor.data_type, dims)
    if expected is not None and found != expected:
        file = f" in {location(tensor)!r}" if location(tensor) else ""
        return f"holds {found:,} bytes{file} where shape {dims} needs {expected:,}"
    return ""


def _settle(model: Model, tensor: TensorProto) -> None:
    """Large values that are stored number by number become plain bytes, as they would be when written."""
    kind = tensor.data_type
    floats = kind == FLOAT and len(tensor.float_data) * 4 >= LARGE
    doubles = kind == DOUBLE and len(tensor.double_data) * 8 >= LARGE
    if floats or doubles:
        model.set_array(tensor, model.array(tensor))


def _resolve_external_data(model: Model, found: Iterable[TensorProto], root: Path) -> None:
    """Give every external tensor its span in the file it names, after all checks."""
    opened: dict[str, tuple[int, int]] = {}
    for tensor in found:
        if tensor.data_location != EXTERNAL or model.span(tensor) is not None:
            continue
        where = f"{display_path(model.path)}: tensor {tensor.name!r}"
        name = location(tensor)
        if name not in opened:
            file = _data_file(model.path, name, root, where)
            opened[name] = (model.store.add_file(file), file.stat().st_size)
        source, size = opened[name]
        model.set_span(tensor, Span(source, *_extent(tensor, size, where)))


def _data_file(model: Path, name: str, root: Path, where: str) -> Path:
    if not name:
        raise _data_fault(f"{where} is external but names no file", "export the model again")
    if not is_inside(name):
        raise _data_fault(
            f"{where} names external data at {name!r}, where a model's data can't be",
            "external data must lie beside the model or below it, not in a hidden folder or file",
        )
    file = model.parent / name
    head = _start_of(file)
    if isinstance(head, str):
        raise _data_fault(
            f"{where} is stored in {name!r}, which {head}",
            f"add {name!r} beside the model, or export the model with its weights inside",
        )
    if not any(file.resolve().is_relative_to(folder.resolve()) for folder in (root, model.parent)):
        raise _data_fault(
            f"{where} names external data at {name!r}, a link that leads outside the repository",
            "replace the link by the file itself",
        )
    refuse_pointer(file, head, f"{where}: ")
    return file


def _extent(tensor: TensorProto, size: int, where: str) -> tuple[int, int]:
    """Offset and length as the tensor gives them; a missing length follows from type and shape."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    numbers = {key: entries[key] for key in ("offset", "length") if key in entries}
    if not all(re.fullmatch(r"[0-9]{1,19}", number) for number in numbers.values()):
        raise _data_fault(
            f"{where} has external data at offset {entries.get('offset')!r}, length {entries.get('length')!r}"
            " where whole numbers from 0 are expected",
            "export the model again",
        )
    offset = int(numbers.get("offset", 0))
    expected = stored_bytes(tensor.data_type, tensor.dims)
    length = int(numbers.get("length", size - offset if expected is None else expected))
    if length < 0 or offset + length > size:
        raise _data_fault(
            f"{where} needs bytes {offset:,} to {offset + length:,} of {entries['location']!r},"
            f" which has only {size:,}",
            "the data file is cut short or belongs to another version: restore it or export again",
        )
    return offset, length


def _data_fault(message: str, hint: str) -> ModelError:
    return ModelError(message, hint=hint, code="OCI012")


def data_files(proto: ModelProto) -> list[str]:
    """The files a model names, in order of first use: external data, then .npy files of its inputs."""
    return list(dict.fromkeys([*weight_files(proto), *recorded(proto).values()]))


def weight_files(proto: ModelProto) -> list[str]:
    """Only the external data files."""
    if not may_have_data(proto.SerializeToString()):
        return []
    return list(dict.fromkeys(filter(None, map(location, tensors(proto)))))


def may_have_data(skeleton: bytes) -> bool:
    """Whether any tensor may name an external data file: to look for the word takes less than to ask all."""
    return b"location" in skeleton


def opened_files(model: Model) -> list[str]:
    """The same, without .npy files that are missing: a model can be used without them."""
    return list(dict.fromkeys([*weight_files(model.proto), *map(location, model.beside)]))


def own_data(path: Path) -> str:
    """What a model's external data is called unless something else was asked for, as a location can be."""
    text = path.name.encode(errors="replace").decode().replace("\\", "_")
    return f"{text}.data"
