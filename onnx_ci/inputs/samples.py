"""The user's own inputs: .npz and .npy files and folders of ONNX test data, read, checked and written.

Files lie inside the repository and are never unpickled; whatever is wrong becomes one error that names it.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import OptionalProto, SequenceProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from onnx_ci.errors import ModelError
from onnx_ci.inputs.graph import dims_of, fed_inputs
from onnx_ci.inputs.sample_paths import recorded_from
from onnx_ci.model.graph import default_inputs
from onnx_ci.model.interface import show_type
from onnx_ci.model.load import refuse_pointer
from onnx_ci.model.model import users_name
from onnx_ci.model.npy import recorded
from onnx_ci.sandbox.exchange import Array, exotic_name, is_text, numpy_dtype, type_name
from onnx_ci.util.advice import CHECK_SAMPLES
from onnx_ci.util.files import atomic_write
from onnx_ci.util.sizes import format_size

_LARGEST = 2**31  # bytes of one file, unpacked
_BROKEN = (ValueError, TypeError, OSError, EOFError, MemoryError, KeyError, zipfile.BadZipFile, DecodeError)
_NUMBERED = re.compile(r"input_(\d{1,6})\.pb")
_KINDS = "a sample is an .npz file, an .npy file, or a folder with input_0.pb, input_1.pb, …"
_KEYS, _VALUES = "{keys}", "{values}"  # after the name of an input that is a map


def load_samples(patterns: Sequence[str], root: Path, proto: onnx.ModelProto) -> list[dict[str, Any]]:
    """Read one dict a sample: arrays by input name, a list for a sequence, None for an absent optional."""
    home = root.resolve()
    paths = _sample_paths(patterns, home)
    if not paths:
        where = "" if _is_top(home) else f" in {home}"
        wanted = ", ".join(repr(_shown(home / pattern, home)) for pattern in patterns)
        raise _error(f"no sample matches {wanted}{where}", CHECK_SAMPLES + f"; {_KINDS}")
    values = fed_inputs(proto)
    for path in paths:
        if not path.is_dir():
            _refuse_no_file(path, _shown(path, home))
    try:
        return [_sample(path, _shown(path, home), values) for path in paths]
    except ModelError as error:
        if recorded_from(patterns) and error.code == "OCI005":  # nobody wrote these by hand
            hint = "it was recorded: record again (onnx-ci record -- COMMAND), or remove it"
            raise _error(error.message, f"{hint}; {error.hint}") from None
        raise


def sample_names(patterns: Sequence[str], root: Path) -> list[str]:
    """Return what samples are called, in the order in which they are read."""
    home = root.resolve()
    return [_shown(path, home) for path in _sample_paths(patterns, home)]


def _sample_paths(patterns: Sequence[str], home: Path) -> list[Path]:
    return list(dict.fromkeys(path for pattern in patterns for path in _matches(pattern, home)))


def described_inputs(proto: onnx.ModelProto) -> str:
    """Return what a model is fed, in words."""
    return ", ".join(f"{value.name} {show_type(value.type)}" for value in fed_inputs(proto))


def read_recorded(path: Path, proto: onnx.ModelProto) -> dict[str, Any]:
    """Read what a session was fed as a sample for a model, without what the model has of its own."""
    own = recorded(proto)
    values = [value for value in fed_inputs(proto) if value.name not in own]
    given = _grouped(_read_npz(path, path.name), [value.name for value in values])
    for value in values:
        array, dtype = given.get(value.name), numpy_dtype(value.type.tensor_type.elem_type)
        if isinstance(array, np.ndarray) and array.dtype in (np.float64, np.int64) and dtype is not None:
            given[value.name] = array.astype(dtype)  # it was a list, which onnxruntime converts
    return _checked({v.name: given[v.name] for v in values if v.name in given}, path.name, values)


def overridden_inputs(path: Path, proto: onnx.ModelProto) -> list[str]:
    """Return the inputs that a session was fed although the model has a value for them."""
    fed = _read_npz(path, path.name)
    return [name for name in default_inputs(proto.graph) if name in fed]


def sample_digest(sample: Mapping[str, Any]) -> str:
    """Return a name for what a sample holds."""
    digest = hashlib.sha256()
    for name, array in sorted(entries(sample), key=lambda entry: entry[0]):
        digest.update(f"{name}\n{type_name(array.dtype)} {array.shape}\n".encode(errors="replace"))
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _matches(pattern: str, root: Path) -> Iterator[Path]:
    try:
        paths = sorted(root.glob(pattern))
    except (ValueError, NotImplementedError, IndexError):  # empty or absolute; Python versions differ
        hint = "write it relative to the policy file"
        raise _error(f"{pattern!r} is not a pattern inside the repository", hint) from None
    for path in paths:
        _refuse_outside(path, root)
        inner = sorted(path.glob("test_data_set_*")) if path.is_dir() else []
        for folder in inner:
            _refuse_outside(folder, root)
        yield from inner or [path]


def _refuse_outside(path: Path, root: Path) -> None:
    try:
        inside = path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # a link that leads nowhere, or in a circle
        inside = False
    if not inside:
        raise _error(f"{_shown(path, root)}: leads outside of the repository", "copy the sample into it")


def _refuse_no_file(path: Path, where: str) -> None:
    """Reading a FIFO or a device may never end."""
    if not path.is_file():
        raise _error(f"{where}: is not a regular file", _KINDS)


def _sample(path: Path, where: str, values: Sequence[ValueInfoProto]) -> dict[str, Any]:
    names = [value.name for value in values]
    if path.is_dir():
        for part in path.glob("input_*.pb"):
            _refuse_outside(part, path.resolve())
            _refuse_no_file(part, f"{where}/{part.name}")
        given = dict(zip(names, _read_folder(path, where, values), strict=True))
    elif path.suffix == ".npz":
        given = _grouped(_read_npz(path, where), names)
    elif path.suffix == ".npy":
        if len(names) != 1:
            raise _error(f"{where}: holds one array, the model has {len(names)} inputs", "store them as .npz")
        given = {names[0]: _read_npy(path, where)}
    else:
        raise _error(f"{where}: is not a sample", _KINDS)
    return _checked(given, where, values)


def _grouped(arrays: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Join NAME[0], NAME[1], … to one sequence, NAME{keys} and NAME{values} to a map."""
    given = dict(arrays)
    for key in arrays:
        name = key.removesuffix(_KEYS)
        if key.endswith(_KEYS) and f"{name}{_VALUES}" in given:
            keys, values = (given.pop(name + part).reshape(-1).tolist() for part in (_KEYS, _VALUES))
            given[name] = dict(zip(keys, values, strict=False))
    for name in names:
        items: list[Any] = []
        while name not in given and f"{name}[{len(items)}]" in given:
            items.append(given.pop(f"{name}[{len(items)}]"))
        if items:
            given[name] = items
    return given


def _checked(given: dict[str, Any], where: str, values: Sequence[ValueInfoProto]) -> dict[str, Any]:
    expected = {value.name: value for value in values}
    listed = ", ".join(expected)
    unknown = [name for name in given if name not in expected]
    if unknown:
        raise _error(f"{where}: the model has no input {unknown[0]!r}", f"its inputs are {listed}")
    for name, value in expected.items():
        if name not in given and value.type.WhichOneof("value") != "optional_type":
            raise _error(f"{where}: input {name!r} is missing", f"store all inputs in it: {listed}")
    return {n: _fit(v.type, given.get(n), f"{where}: input {n!r}") for n, v in expected.items()}


def _shown(path: Path, root: Path) -> str:
    name = users_name(path)
    inside = name == str(path) and path.is_relative_to(root) and not _is_top(root)
    return str(path.relative_to(root)) if inside else name


def _is_top(root: Path) -> bool:
    """Tell whether it is the file system's: then the user named files, and nothing is relative to it."""
    return root == Path(root.anchor)


def _error(message: str, hint: str) -> ModelError:
    return ModelError(message, hint=hint, code="OCI005")


# Reading.


def _read_npy(path: Path, where: str) -> Array:
    try:
        # Mapped, so that a header with an absurd shape is refused instead of allocated.
        return np.lib.format.open_memmap(path, mode="r").view(np.ndarray)
    except _BROKEN as error:
        raise _unreadable(where, error) from None


def _read_npz(path: Path, where: str) -> dict[str, Array]:
    try:
        with path.open("rb") as file:
            refuse_pointer(path, file.read(1024))
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _LARGEST:
            raise ValueError(f"{format_size(size)} unpacked, at most {format_size(_LARGEST)} are read")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except _BROKEN as error:
        raise _unreadable(where, error) from None


def _read_folder(path: Path, where: str, values: Sequence[ValueInfoProto]) -> list[Any]:
    """Read input_0.pb for the model's first input, and so on."""
    files = {int(m[1]): file for file in path.iterdir() if (m := _NUMBERED.fullmatch(file.name))}
    if sorted(files) != list(range(len(values))):
        names = ", ".join(value.name for value in values)
        raise _error(
            f"{where}: has {len(files)} files input_N.pb, the model has {len(values)} inputs",
            f"number them from 0, one for each input: {names}",
        )
    return [_read_pb(files[index], where, value.type) for index, value in enumerate(values)]


def _read_pb(path: Path, where: str, kind: TypeProto) -> Any:
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {format_size(_LARGEST)}")
        return _parse(path.read_bytes(), kind)
    except _BROKEN as error:
        raise _unreadable(f"{where}/{path.name}", error) from None


def _parse(data: bytes, kind: TypeProto) -> Any:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return _sequence(SequenceProto.FromString(data))
    if which == "optional_type":
        optional = OptionalProto.FromString(data)
        if optional.elem_type == OptionalProto.UNDEFINED:
            return None
        if optional.elem_type == OptionalProto.SEQUENCE:
            return _sequence(optional.sequence_value)
        return _array(optional.tensor_value)
    return _array(TensorProto.FromString(data))


def _sequence(sequence: SequenceProto) -> list[Array]:
    return [_array(tensor) for tensor in sequence.tensor_values]


def _array(tensor: TensorProto) -> Array:
    if tensor.data_location == TensorProto.EXTERNAL:
        raise ValueError("its data is in another file, which is not read")
    array: Array = np.asarray(numpy_helper.to_array(tensor))
    return array


def _unreadable(where: str, error: Exception) -> ModelError:
    what = str(error).split("\n")[0] or type(error).__name__
    hint = "save it with numpy.savez(file, NAME=array, …); arrays of Python objects are not read"
    return _error(f"{where}: can't be read as a sample: {what}", hint)


# Does an array fit the input it is meant for?


def _fit(kind: TypeProto, value: Any, where: str) -> Any:
    """Return a value as it can be fed, or raise an error that says what it has and what is needed."""
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return None if value is None else _fit(kind.optional_type.elem_type, value, where)
    if which == "sequence_type" and isinstance(value, list):
        return [_fit(kind.sequence_type.elem_type, item, where) for item in value]
    if which == "tensor_type" and isinstance(value, np.ndarray):
        return _fit_tensor(kind, value, where)
    if which == "map_type" and isinstance(value, dict):
        return value
    if which == "sparse_tensor_type":
        raise _error(f"{where} is {show_type(kind)}, which can't be fed", "such a model can't be verified")
    how = "a sequence is stored as NAME[0], NAME[1], … in an .npz, a map as NAME{keys} and NAME{values}"
    raise _error(f"{where} needs {show_type(kind)}", how)


def _fit_tensor(kind: TypeProto, stored: Array, where: str) -> Array:
    tensor = kind.tensor_type
    dtype = numpy_dtype(tensor.elem_type)
    dims = dims_of(tensor)
    array = _as_stored(stored, dtype)
    if dtype is None or type_name(array.dtype) != type_name(dtype):
        raise _unlike(where, stored, kind, "save it with that type: array.astype(...)")
    if dims is not None and len(dims) != array.ndim:
        raise _unlike(where, stored, kind, "save it with that many axes, the batch included")
    for dim, size in zip(dims or (), array.shape, strict=False):
        if isinstance(dim, int) and dim != size:
            raise _unlike(where, stored, kind, "save it with that shape")
    return array.astype(np.str_) if is_text(array.dtype) else array


def _as_stored(stored: Array, dtype: np.dtype[Any] | None) -> Array:
    """Restore the type of bfloat16 and its like, which numpy saves as nameless bytes of that width."""
    nameless = stored.dtype.kind == "V" and exotic_name(stored.dtype) is None
    if dtype is not None and nameless and exotic_name(dtype) and stored.itemsize == dtype.itemsize:
        return stored.view(dtype)
    return stored


def _unlike(where: str, stored: Array, kind: TypeProto, hint: str) -> ModelError:
    has = f"{type_name(stored.dtype)}{list(stored.shape)}"
    return _error(f"{where} needs {show_type(kind)}, the sample has {has}", hint)


# Writing.


def sample_paths_for(target: Path, count: int) -> list[Path]:
    """Return the file that was asked for, and for further samples NAME-1, NAME-2, … beside it."""
    return [target if i == 0 else target.with_name(f"{target.stem}-{i}{target.suffix}") for i in range(count)]


def numbered_samples(target: Path) -> list[Path]:
    """Return the files that are there under the names of further samples, in their order."""
    pattern = re.compile(re.escape(target.stem) + r"-([1-9][0-9]*)" + re.escape(target.suffix))
    found = [(path, pattern.fullmatch(path.name)) for path in target.parent.iterdir()]
    return [path for _, path in sorted((int(match[1]), path) for path, match in found if match)]


def write_npz(path: Path, sample: Mapping[str, Any]) -> None:
    """Write one sample, whole or not at all, and the same bytes for the same sample."""
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in entries(sample):
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def entries(sample: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """Yield tensors by name; the items of a sequence as NAME[0], NAME[1], …; what is absent is left out."""
    for name, value in sample.items():
        if isinstance(value, np.ndarray):
            yield name, value
        elif isinstance(value, Mapping):
            yield f"{name}{_KEYS}", np.array(list(value))
            yield f"{name}{_VALUES}", np.array(list(value.values()))
        elif isinstance(value, Sequence):
            for index, item in enumerate(value):
                yield from entries({f"{name}[{index}]": item})
