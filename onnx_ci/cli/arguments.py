"""Small languages of the command line: methods, tolerances and budgets as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from onnx_ci.errors import PolicyError, UsageError
from onnx_ci.methods.catalogue import METHODS, Catalogue, method
from onnx_ci.methods.options import kinds
from onnx_ci.policy.reader import is_release
from onnx_ci.policy.schema import MethodChoice, Scalar, Tolerance
from onnx_ci.util.scalars import FILE_NAME, NAMES, from_text
from onnx_ci.util.sizes import parse_size
from onnx_ci.util.text import did_you_mean

EXAMPLE_TOLERANCE = "for example: --tolerance cosine=0.999,max_abs=1e-2"


def read_methods(text: str) -> tuple[MethodChoice, ...]:
    """`dedupe,int8-weights:min_elements=4096` as the policy would have it."""
    return tuple(_method(part.strip()) for part in text.split(",") if part.strip())


def _method(text: str) -> MethodChoice:
    name, *settings = text.split(":")
    names = [known.name for known in METHODS]
    if name not in names:
        raise UsageError(
            f"there is no method {name!r}, {did_you_mean(name, names)}", hint=f"methods: {', '.join(names)}"
        )
    options = _options(settings, name)
    try:
        method(name).read_options(options)
    except ValueError as error:
        raise UsageError(str(error), hint=f"for example: --methods {name}:min_elements=4096") from None
    return MethodChoice(name=name, options=options)


def _options(settings: list[str], name: str) -> dict[str, Scalar]:
    """Each option=value; one that takes a list is given several times, or its items are joined by `+`."""
    known = kinds(method(name).option_class)
    options: dict[str, Scalar] = {}
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{name}: expected option=value, found {text!r}")
        if known.get(key) is NAMES:
            earlier = options.get(key)
            options[key] = [*(earlier if isinstance(earlier, list) else []), *value.split("+")]
        else:
            options[key] = value if known.get(key) is FILE_NAME else from_text(value)
    return options


def read_tolerance(text: str) -> Tolerance:
    """`cosine=0.999,max_abs=1e-2,exact` as the policy would have it, checked by the policy's own rules."""
    known = [item.name for item in fields(Tolerance)]
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise UsageError(
                f"there is no tolerance {name!r}, {did_you_mean(name, known)}", hint=EXAMPLE_TOLERANCE
            )
        found[name] = value.strip() or "true"
    if not found:
        raise UsageError("the tolerance is empty", hint=EXAMPLE_TOLERANCE)
    return _by_the_policy(found)


def _by_the_policy(values: dict[str, str]) -> Tolerance:
    from onnx_ci.policy.load import parse_policy

    lines = "".join(f"      {name}: {value}\n" for name, value in values.items())
    policy = f"version: 1\nmodels:\n  - path: model.onnx\n    tolerance:\n{lines}"
    try:
        return parse_policy(policy, file="--tolerance", methods=Catalogue()).rules[0].tolerance
    except PolicyError as error:
        raise UsageError(f"--tolerance: {error.problem}", hint=EXAMPLE_TOLERANCE) from None


def read_runtimes(given: Iterable[str]) -> tuple[str, ...]:
    """Versions of onnxruntime, several joined by commas."""
    versions = [part.strip() for text in given for part in text.split(",") if part.strip()]
    for version in versions:
        if not is_release(version):
            raise UsageError(
                f"--runtime: {version!r} is not a version of onnxruntime",
                hint="for example: --runtime 1.20,1.23.2",
            )
    return tuple(dict.fromkeys(versions))


def read_libraries(given: Iterable[str]) -> tuple[str, ...]:
    """Shared libraries with custom operators, which have to be there."""
    files = tuple(map(str, given))
    for file in files:
        if not Path(file).is_file():
            raise UsageError(
                f"--library: there is no file {file!r}", hint="for example: --library ops/libmyops.so"
            )
    return files


def read_samples(given: Iterable[str]) -> tuple[str, ...]:
    """Files, folders and patterns, of which each has to be there or match."""
    samples = tuple(given)
    for sample in samples:
        path = Path(sample).absolute()
        top = Path(path.anchor)
        if not path.exists() and not any(top.glob(str(path.relative_to(top)))):
            raise UsageError(
                f"--samples: there is no file {sample!r}", hint="for example: --samples inputs/sample.npz"
            )
    return samples


def read_budget(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"--budget: {error}", hint="for example: --budget 25MB") from None


def read_dims(text: str) -> dict[str, int]:
    """`batch=1,sequence=64` as the policy would have it."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, size = part.rpartition("=")
        if not name or not size.isdecimal() or len(size) > 9:
            raise UsageError(
                f"--dims: expected NAME=SIZE, found {part!r}", hint="for example: --dims batch=1"
            )
        found[name] = int(size)
    return found
