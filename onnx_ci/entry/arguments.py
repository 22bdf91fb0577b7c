"""Small languages of the command line: methods, tolerances and budgets as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from onnx_ci.errors import UsageError
from onnx_ci.methods.catalogue import METHODS, method
from onnx_ci.policy.schema import MethodChoice, Scalar, Tolerance
from onnx_ci.policy.suggest import did_you_mean
from onnx_ci.sizes import parse_fraction, parse_size

EXAMPLE_TOLERANCE = "for example: --tolerance cosine=0.999,max_abs=1e-2"


def read_methods(text: str) -> tuple[MethodChoice, ...]:
    """`dedupe,int8-weights:min_elements=4096` as the policy would have it."""
    return tuple(_method(part.strip()) for part in text.split(",") if part.strip())


def _method(text: str) -> MethodChoice:
    name, *settings = text.split(":")
    names = [known.name for known in METHODS]
    if name not in names:
        raise UsageError(
            f"there is no method {name!r}{did_you_mean(name, names)}", hint=f"methods: {', '.join(names)}"
        )
    kinds = {item.name: item.metadata["kind"] for item in fields(method(name).option_class)}
    options = dict(_setting(setting, name, kinds) for setting in settings)
    try:
        method(name).read_options(options)
    except ValueError as error:
        raise UsageError(str(error), hint=f"for example: --methods {name}:min_elements=4096") from None
    return MethodChoice(name=name, options=options)


def _setting(text: str, name: str, kinds: Mapping[str, str]) -> tuple[str, Scalar]:
    """`option=value`; several names are joined with `+`, as commas part methods."""
    key, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"{name}: expected option=value, found {text!r}")
    if kinds.get(key) == "texts":
        return key, value.split("+")
    if kinds.get(key) == "flag" and value in ("true", "false"):
        return key, value == "true"
    return key, int(value) if value.isdigit() else value


def read_tolerance(text: str) -> Tolerance:
    """`cosine=0.999,max_abs=1e-2,exact` as the policy would have it."""
    known = [item.name for item in fields(Tolerance)]
    found: dict[str, float | bool] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise UsageError(
                f"there is no tolerance {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}",
                hint=EXAMPLE_TOLERANCE,
            )
        found[name] = _tolerance_value(name, value)
    if not found:
        raise UsageError("the tolerance is empty", hint=EXAMPLE_TOLERANCE)
    return Tolerance(**found)  # type: ignore[arg-type]


def _tolerance_value(name: str, value: str) -> float | bool:
    if name == "exact":
        return value.lower() not in ("false", "0")
    try:
        return parse_fraction(value) if name == "top1" else float(value)
    except ValueError:
        raise UsageError(f"{name}: expected a number, found {value!r}", hint=EXAMPLE_TOLERANCE) from None


def read_budget(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"--budget: {error}", hint="for example: --budget 25MB") from None
