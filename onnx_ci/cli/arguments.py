"""Values of options as text: methods, tolerances, budgets, versions, sizes of dims."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from onnx_ci.errors import PolicyError, UsageError
from onnx_ci.methods.catalogue import METHODS, Catalogue, method
from onnx_ci.methods.options import kinds
from onnx_ci.policy.fields import is_release
from onnx_ci.policy.load import parse_policy
from onnx_ci.policy.schema import DEFAULT_TOLERANCE, MethodChoice, Scalar, Tolerance
from onnx_ci.util.scalars import EXACT, EXACT_METHODS, FILE_NAME, NAMES, from_text
from onnx_ci.util.sizes import stated_size
from onnx_ci.util.text import did_you_mean

EXAMPLES = {
    "--tolerance": "cosine=0.999,max_abs=1e-2",
    "--runtime": "1.20,1.23.2",
    "--library": "ops/libmyops.so",
    "--samples": "inputs/sample.npz",
    "--budget": "25MB",
    "--dims": "batch=1",
}


def _wrong(option: str, message: str) -> UsageError:
    return UsageError(f"{option}: {message}", hint=f"for example: {option} {EXAMPLES[option]}")


def read_methods(text: str) -> tuple[MethodChoice, ...]:
    """`dedupe,int8-weights:min_elements=4096` as the policy would have it."""
    parts = _parts(text)
    if EXACT in parts:
        named, at = [part.partition(":")[0] for part in parts], parts.index(EXACT)
        parts[at : at + 1] = [name for name in EXACT_METHODS if name not in named]
    return tuple(map(_method, parts))


def _method(text: str) -> MethodChoice:
    name, *settings = text.split(":")
    names = [each.name for each in METHODS]
    if name not in names:
        message = f"there is no method {name!r}, {did_you_mean(name, names)}"
        raise UsageError(message, hint=f"methods: {', '.join(names)}")
    options = _options(settings, name)
    try:
        method(name).read_options(options)
    except ValueError as error:
        raise UsageError(str(error), hint=f"for example: --methods {name}:min_elements=4096") from None
    return MethodChoice(name=name, options=options)


def _options(settings: list[str], name: str) -> dict[str, Scalar]:
    """Each option=value; one that takes a list is given several times, or its items are joined by `+`."""
    option_kinds = kinds(method(name).option_class)
    options: dict[str, Scalar] = {}
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{name}: expected option=value, found {text!r}")
        if option_kinds.get(key) is NAMES:
            earlier = options.get(key)
            options[key] = [*(earlier if isinstance(earlier, list) else []), *value.split("+")]
        else:
            options[key] = value if option_kinds.get(key) is FILE_NAME else from_text(value)
    return options


def read_tolerance(text: str) -> Tolerance:
    """`cosine=0.999,max_abs=1e-2,exact` as the policy would have it, checked by the policy's own rules."""
    names = [field.name for field in fields(Tolerance)]
    limits: dict[str, str] = {}
    for part in _parts(text):
        name, _, value = part.partition("=")
        if name not in names:
            raise _wrong("--tolerance", f"there is no tolerance {name!r}, {did_you_mean(name, names)}")
        limits[name] = value.strip() or "true"
    if not limits:
        raise _wrong("--tolerance", "the tolerance is empty")
    lines = "".join(f"      {name}: {value}\n" for name, value in limits.items())
    policy = f"version: 1\nmodels:\n  - path: model.onnx\n    tolerance:\n{lines}"
    try:
        return parse_policy(policy, file="--tolerance", methods=Catalogue()).rules[0].tolerance
    except PolicyError as error:
        raise _wrong("--tolerance", error.problem) from None


def read_runtimes(given: Iterable[str]) -> tuple[str, ...]:
    """Versions of onnxruntime, several joined by commas."""
    versions = [version for text in given for version in _parts(text)]
    for version in versions:
        if not is_release(version):
            raise _wrong("--runtime", f"{version!r} is not a version of onnxruntime")
    return tuple(dict.fromkeys(versions))


def read_libraries(given: Iterable[str]) -> tuple[str, ...]:
    """Shared libraries with custom operators, which have to be there."""
    return _existing("--library", given, lambda file: Path(file).is_file())


def read_samples(given: Iterable[str]) -> tuple[str, ...]:
    """Files, folders and patterns, of which each has to be there or match."""

    def is_there(sample: str) -> bool:
        path = Path(sample).absolute()
        return path.exists() or any(Path(path.anchor).glob(str(path.relative_to(path.anchor))))

    return _existing("--samples", given, is_there)


def _existing(option: str, given: Iterable[str], is_there: Callable[[str], bool]) -> tuple[str, ...]:
    files = tuple(map(str, given))
    for file in files:
        if not is_there(file):
            raise _wrong(option, f"there is no file {file!r}")
    return files


def read_proof_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return what `shrink` and `compare` are told about how two models are compared."""
    return {
        "tolerance": read_tolerance(options.tolerance) if options.tolerance else DEFAULT_TOLERANCE,
        "samples": read_samples(options.samples),
        "dims": read_dims(options.dims or ""),
        "runtimes": read_runtimes(options.runtime),
        "libraries": read_libraries(options.library),
    }


def read_budget(text: str) -> int:
    try:
        return stated_size(text)
    except ValueError as error:
        raise _wrong("--budget", str(error)) from None


def read_dims(text: str) -> dict[str, int]:
    """`batch=1,sequence=64` as the policy would have it."""
    sizes = {}
    for part in _parts(text):
        name, _, size = part.rpartition("=")
        if not name or not size.isdecimal() or len(size) > 9:
            raise _wrong("--dims", f"expected NAME=SIZE, found {part!r}")
        sizes[name] = int(size)
    return sizes


def _parts(text: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
