"""External data: finds the files a model names, and refuses those it has no business with."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.model.container import Model, display_path, location
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graph import tensors
from onnx_ci.model.locations import is_inside
from onnx_ci.model.npy import recorded
from onnx_ci.model.pointers import LFS_HEADER, read_pointer
from onnx_ci.model.proto import ModelProto, TensorProto
from onnx_ci.model.store import Store

CODE = "OCI012"


def resolve(proto: ModelProto, store: Store, path: Path, root: Path) -> None:
    """Give every external tensor its span in the file it names, after all checks."""
    opened: dict[str, tuple[int, int]] = {}
    for tensor in tensors(proto):
        if tensor.data_location != TensorProto.EXTERNAL or _has_mark(tensor, store):
            continue
        where = f"{display_path(path)}: tensor {tensor.name!r}"
        name = location(tensor)
        if name not in opened:
            file = _data_file(path, name, root, where)
            opened[name] = (store.add_file(file), file.stat().st_size)
        source, size = opened[name]
        offset, length = _extent(tensor, size, where)
        tensor.external_data.add(key=store.key, value=f"{source} {offset} {length}")


def data_files(proto: ModelProto) -> list[str]:
    """The files a model names, in order of first use: external data, then .npy files of its inputs."""
    return list(dict.fromkeys([*weight_files(proto), *recorded(proto).values()]))


def weight_files(proto: ModelProto) -> list[str]:
    """Only the external data files."""
    return list(dict.fromkeys(filter(None, map(location, tensors(proto)))))


def opened_files(model: Model) -> list[str]:
    """The same, without .npy files that are missing: a model can be used without them."""
    homes = map(location, [*tensors(model.proto), *model.beside])
    return list(dict.fromkeys(filter(None, homes)))


def own_data(path: Path) -> str:
    """What a model's external data is called unless something else was asked for, as a location can be."""
    text = path.name.encode(errors="replace").decode().replace("\\", "_")
    return f"{text}.data"


def refuse_pointer(path: Path, head: bytes, user: str = "") -> None:
    """A Git LFS pointer stands where the content should be: say how to get it."""
    if not head.startswith(LFS_HEADER.encode()):
        return
    found = read_pointer(head.decode(errors="replace"))
    size = f" for {found.size:,} bytes" if found else ""
    raise ModelError(
        f"{user}{display_path(path)}: is a Git LFS pointer{size}, the content has not been downloaded",
        hint=f'run: git lfs pull --include "{display_path(path)}"',
        code="OCI007",
    )


def _has_mark(tensor: TensorProto, store: Store) -> bool:
    return any(entry.key == store.key for entry in tensor.external_data)


def _data_file(model: Path, name: str, root: Path, where: str) -> Path:
    if not name:
        raise ModelError(f"{where} is external but names no file", hint="export the model again", code=CODE)
    if not is_inside(name):
        raise ModelError(
            f"{where} names external data at {name!r}, where a model's data can't be",
            hint="external data must lie beside the model or below it, not in a hidden folder or file",
            code=CODE,
        )
    file = model.parent / name
    _refuse_missing(file, name, where)
    if not any(file.resolve().is_relative_to(folder.resolve()) for folder in (root, model.parent)):
        raise ModelError(
            f"{where} names external data at {name!r}, a link that leads outside the repository",
            hint="replace the link by the file itself",
            code=CODE,
        )
    try:
        with file.open("rb") as opened:
            refuse_pointer(file, opened.read(1024), f"{where}: ")
    except OSError as error:
        raise ModelError(
            f"{where} is stored in {name!r}, which can't be read: {error.strerror}", code=CODE
        ) from None
    return file


def _refuse_missing(file: Path, name: str, where: str) -> None:
    try:
        info = file.stat()
    except OSError as error:
        raise ModelError(
            f"{where} is stored in {name!r}, which can't be read: {error.strerror}",
            hint=f"add {name!r} beside the model, or export the model with its weights inside",
            code=CODE,
        ) from None
    if not stat.S_ISREG(info.st_mode):
        raise ModelError(f"{where} is stored in {name!r}, which is not a regular file", code=CODE)


def _extent(tensor: TensorProto, size: int, where: str) -> tuple[int, int]:
    """Offset and length as the tensor gives them; a missing length follows from type and shape."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = (_number(entries.get(key)) for key in ("offset", "length"))
    except ValueError:
        raise ModelError(
            f"{where} has external data at offset {entries.get('offset')!r}, length {entries.get('length')!r}"
            " where whole numbers from 0 are expected",
            hint="export the model again",
            code=CODE,
        ) from None
    offset = offset or 0
    if length is None:
        expected = stored_bytes(tensor.data_type, tensor.dims)
        length = size - offset if expected is None else expected
    if length < 0 or offset + length > size:
        raise ModelError(
            f"{where} needs bytes {offset:,} to {offset + length:,} of {entries['location']!r},"
            f" which has only {size:,}",
            hint="the data file is cut short or belongs to another version: restore it or export again",
            code=CODE,
        )
    return offset, length


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,19}", text):
        raise ValueError(text)
    return int(text)
