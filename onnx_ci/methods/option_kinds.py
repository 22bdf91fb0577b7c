"""Kinds of method options: how each is declared, checked, and described to an editor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field
from typing import Any


def choice(default: str, *others: str) -> Any:
    """One of a few words."""
    return field(default=default, metadata={"kind": "choice", "choices": (default, *others)})


def count(default: int, *, least: int, most: int | None = None) -> Any:
    """A whole number within bounds."""
    return field(default=default, metadata={"kind": "count", "least": least, "most": most})


def flag(default: bool = False) -> Any:
    """true or false."""
    return field(default=default, metadata={"kind": "flag"})


def size(default: str) -> Any:
    """Bytes as a policy writes them: 1 kB, 2 MiB, 4096."""
    return field(default=default, metadata={"kind": "size"})


def text(default: str = "") -> Any:
    """Any text."""
    return field(default=default, metadata={"kind": "text"})


def file_name() -> Any:
    """The name of a file beside the model; empty for the usual one."""
    return field(default="", metadata={"kind": "file"})


def texts() -> Any:
    """A list of texts."""
    return field(default=(), metadata={"kind": "texts"})


def check_option(what: str, value: object, allowed: Mapping[str, Any]) -> None:
    """A ValueError in plain words where a value is not of its kind."""
    wanted = _CHECKS[allowed["kind"]](value, allowed)
    if wanted:
        raise ValueError(f"{what}: expected {wanted}, found {value!r}")


def _not_a_choice(value: object, allowed: Mapping[str, Any]) -> str:
    return "" if value in allowed["choices"] else f"one of {', '.join(allowed['choices'])}"


def _not_a_count(value: object, allowed: Mapping[str, Any]) -> str:
    least, most = allowed["least"], allowed["most"]
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and value >= least and (most is None or value <= most):
        return ""
    return f"a whole number from {least}" + (f" to {most}" if most is not None else "")


def _not_a_flag(value: object, _: Mapping[str, Any]) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _not_a_size(value: object, _: Mapping[str, Any]) -> str:
    from onnx_ci.sizes import parse_size

    try:
        parse_size(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "a size, for example 1 MB"
    return ""


def _not_a_text(value: object, _: Mapping[str, Any]) -> str:
    return "" if isinstance(value, str) else "text"


def _not_a_file(value: object, _: Mapping[str, Any]) -> str:
    plain = isinstance(value, str) and value.isprintable() and not set(value) & set("/\\:")
    fits = plain and value not in (".", "..") and not str(value).endswith(".onnx")
    return "" if fits else "the name of a data file beside the model, without folders"


def _not_texts(value: object, _: Mapping[str, Any]) -> str:
    listed = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    return "" if listed else "a list of names"


_CHECKS = {
    "choice": _not_a_choice,
    "count": _not_a_count,
    "file": _not_a_file,
    "flag": _not_a_flag,
    "size": _not_a_size,
    "text": _not_a_text,
    "texts": _not_texts,
}
_SCHEMAS: dict[str, dict[str, object]] = {
    "count": {"type": "integer"},
    "file": {"type": "string"},
    "flag": {"type": "boolean"},
    "size": {"type": ["string", "integer"]},
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
}


def option_schema(item: Field[Any]) -> dict[str, object]:
    """The JSON schema of one option."""
    kind = item.metadata["kind"]
    if kind == "choice":
        return {"enum": list(item.metadata["choices"]), "default": item.default}
    bounds = {"minimum": item.metadata.get("least"), "maximum": item.metadata.get("most")}
    default: object = [] if kind == "texts" else item.default
    return {**_SCHEMAS[kind], **{k: v for k, v in bounds.items() if v is not None}, "default": default}
