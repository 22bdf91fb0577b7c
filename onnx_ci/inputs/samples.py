"""The user's own inputs: .npz and .npy files and folders of ONNX test data, inside the repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from onnx_ci.errors import ModelError
from onnx_ci.inputs.generate import fed_inputs
from onnx_ci.verify.sample_files import read_folder, read_npy, read_npz
from onnx_ci.verify.sample_types import fitted, is_optional
from onnx_ci.verify.sample_writing import KEYS, VALUES

_KINDS = "a sample is an .npz file, an .npy file, or a folder with input_0.pb, input_1.pb, …"


def load_samples(patterns: Sequence[str], root: Path, proto: onnx.ModelProto) -> list[dict[str, Any]]:
    """One dict a sample: arrays by input name, a list for a sequence, None for an absent optional."""
    home = root.resolve()
    found = [path for pattern in patterns for path in _matches(pattern, home)]
    if not found:
        where = "" if _is_top(home) else f" in {home}"
        wanted = ", ".join(repr(_shown(home / pattern, home)) for pattern in patterns)
        raise _error(f"no sample matches {wanted}{where}", f"check inputs.samples; {_KINDS}")
    values = fed_inputs(proto)
    return [_sample(path, _shown(path, home), values) for path in dict.fromkeys(found)]


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


def _sample(path: Path, where: str, values: Sequence[onnx.ValueInfoProto]) -> dict[str, Any]:
    names = [value.name for value in values]
    if path.is_dir():
        for part in path.glob("input_*.pb"):
            _refuse_outside(part, path.resolve())
        given = dict(zip(names, read_folder(path, where, values), strict=True))
    elif path.suffix == ".npz":
        given = _grouped(read_npz(path, where), names)
    elif path.suffix == ".npy":
        if len(names) != 1:
            raise _error(f"{where}: holds one array, the model has {len(names)} inputs", "store them as .npz")
        given = {names[0]: read_npy(path, where)}
    else:
        raise _error(f"{where}: is not a sample", _KINDS)
    return _checked(given, where, values)


def _grouped(arrays: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """NAME[0], NAME[1], … are the items of one sequence, NAME{keys} and NAME{values} those of a map."""
    given = dict(arrays)
    for keys in [key for key in given if key.endswith(KEYS) and f"{key.removesuffix(KEYS)}{VALUES}" in given]:
        name = keys.removesuffix(KEYS)
        pairs = (given.pop(f"{name}{part}").reshape(-1).tolist() for part in (KEYS, VALUES))
        given[name] = dict(zip(*pairs, strict=False))
    for name in names:
        items: list[Any] = []
        while name not in given and f"{name}[{len(items)}]" in given:
            items.append(given.pop(f"{name}[{len(items)}]"))
        if items:
            given[name] = items
    return given


def _checked(given: dict[str, Any], where: str, values: Sequence[onnx.ValueInfoProto]) -> dict[str, Any]:
    expected = {value.name: value for value in values}
    listed = ", ".join(expected)
    unknown = [name for name in given if name not in expected]
    if unknown:
        raise _error(f"{where}: the model has no input {unknown[0]!r}", f"its inputs are {listed}")
    missing = [name for name, value in expected.items() if name not in given and not is_optional(value)]
    if missing:
        raise _error(f"{where}: input {missing[0]!r} is missing", f"store all inputs in it: {listed}")
    return {name: fitted(value, given.get(name), where) for name, value in expected.items()}


def _shown(path: Path, root: Path) -> str:
    inside = path.is_relative_to(root) and not _is_top(root)
    return str(path.relative_to(root)) if inside else str(path)


def _is_top(root: Path) -> bool:
    """Of the file system: then files were named by the user, and nothing is relative to it in their eyes."""
    return root == Path(root.anchor)


def _error(message: str, hint: str) -> ModelError:
    return ModelError(message, hint=hint, code="OCI005")
