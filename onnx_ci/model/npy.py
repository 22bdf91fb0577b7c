"""Tensors kept in .npy files beside a model and fed to it as inputs: the record of them, names, headers.

The record is an entry of the model's metadata, so that sizes count those files and `restore` finds them.
"""

from __future__ import annotations

import ast
import json
import re
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from onnx_ci.model.graph import metadata_entry, set_metadata_entry
from onnx_ci.model.locations import is_inside
from onnx_ci.model.model import Model, stored_size
from onnx_ci.model.proto import ModelProto, TensorProto
from onnx_ci.model.wire import Span
from onnx_ci.util.text import TEMPORARY_SUFFIX

KEY = "onnx_ci.npy"
INNER = "onnx_ci.npy.inner"
SUFFIXES = (".npy", TEMPORARY_SUFFIX)
# ONNX element types that every numpy can read from a file, as its headers write them.
FLOATS = {1: "<f4", 10: "<f2", 11: "<f8", 14: "<c8", 15: "<c16"}
INTEGERS = {2: "|u1", 3: "|i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "|b1", 12: "<u4", 13: "<u8"}
TYPES = {**FLOATS, **INTEGERS}
MAGIC = b"\x93NUMPY\x01\x00"
LONGEST = 80, 120  # bytes of a tensor's name and of a model's that go into a file name
LONGEST_FILE = 255


def recorded(proto: ModelProto) -> dict[str, str]:
    """File by input, as far as the record is one that this program may have written."""
    found = _entry(proto, KEY)
    inputs = {value.name for value in proto.graph.input}
    entries = found.items() if isinstance(found, dict) else ()
    return {name: file for name, file in entries if name in inputs and _is_plain(file)}


def recorded_inner(proto: ModelProto) -> list[str]:
    """Inputs that were constants of branches and loop bodies, and of no graph around them."""
    found = _entry(proto, INNER)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _entry(proto: ModelProto, key: str) -> object:
    try:
        return json.loads(metadata_entry(proto, key) or "null")
    except (ValueError, RecursionError):
        return None


def _is_plain(file: object) -> bool:
    """A name in the model's own folder, not hidden: a hostile model must not lead anywhere else."""
    if not isinstance(file, str) or not file.isprintable() or len(file.encode()) > LONGEST_FILE:
        return False
    return is_inside(file) and file.endswith(SUFFIXES) and not re.search(r"[/\\:]", file)


def set_record(proto: ModelProto, record: dict[str, str], inner: list[str] | None = None) -> None:
    """Write the record anew, and where they are given, which of the inputs were inner constants."""
    set_metadata_entry(proto, KEY, json.dumps(record, separators=(",", ":")) if record else "")
    if inner is not None:
        set_metadata_entry(proto, INNER, json.dumps(inner, separators=(",", ":")) if inner else "")


def npy_names(model: Path, tensor: str) -> Iterator[str]:
    """`<model>.<tensor>.npy` in letters that every file system takes, then the same with numbers."""
    plain = f"{own_start(model)}{re.sub(r'[^A-Za-z0-9._-]', '_', tensor)[: LONGEST[0]]}"
    yield f"{plain}.npy"
    yield from (f"{plain}-{number}.npy" for number in count(2))


def own_start(model: Path) -> str:
    """How the names of all .npy files of a model start."""
    stem = "".join(letter if letter.isprintable() and letter not in "\\:" else "_" for letter in model.stem)
    return stem.encode()[: LONGEST[1]].decode(errors="ignore") + "."


def header(tensor: TensorProto) -> bytes:
    """What stands before the values in an .npy file, as numpy writes it."""
    shape = tuple(tensor.dims)
    text = f"{{'descr': '{TYPES[tensor.data_type]}', 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(len(MAGIC) + 2 + len(text) + 1) % 64
    line = text.encode() + b" " * padding + b"\n"
    return MAGIC + len(line).to_bytes(2, "little") + line


def open_beside(model: Model, root: Path) -> list[TensorProto]:
    """The recorded tensors whose files are there and hold what the model's inputs say."""
    record = recorded(model.proto)
    beside = []
    for value in model.proto.graph.input:
        if value.name not in record:
            continue
        file = model.path.parent / record[value.name]
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        tensor = TensorProto(name=value.name, data_type=value.type.tensor_type.elem_type, dims=dims)
        offset = _values_offset(file, tensor, root)
        if offset is not None:
            tensor.external_data.add(key="location", value=file.name)
            model.set_span(tensor, Span(model.store.add_file(file), offset, stored_size(tensor)))
            beside.append(tensor)
    return beside


def _values_offset(file: Path, tensor: TensorProto, root: Path) -> int | None:
    """Where the values start in a file that is inside the repository and of this type and shape."""
    inside = any(file.resolve().is_relative_to(folder.resolve()) for folder in (root, file.parent))
    if not inside or not file.exists() or not stat.S_ISREG(file.stat().st_mode):
        return None
    with file.open("rb") as opened:
        start = opened.read(len(MAGIC) + 2)
        length = int.from_bytes(start[len(MAGIC) :], "little")
        words = opened.read(length)
    expected = {"descr": TYPES.get(tensor.data_type), "fortran_order": False, "shape": tuple(tensor.dims)}
    size = len(start) + length + stored_size(tensor)
    fits = start.startswith(MAGIC) and _parsed(words) == expected and file.stat().st_size == size
    return len(start) + length if fits else None


def _parsed(words: bytes) -> object:
    try:
        return ast.literal_eval(words.decode("latin-1").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
