"""Single values, wherever they are written: options of methods, flags, inputs of the action, build tables.

A policy is read by the same rules, with lines and hints of its own. Plain classes: reading a policy loads
neither dataclasses nor typing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from onnx_ci.util.sizes import parse_size

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any

EXACT = "exact"  # among methods: all of the catalogue that keep every bit and gain size, in its order
EXACT_METHODS = ("dedupe", "drop-unused", "strip-docs", "freeze-inputs", "fold-constants", "compact")
_WHOLE = re.compile(r"[-+]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")


class Scalar:
    """One kind of value: what a message says was expected, which values fit, and its JSON schema."""

    __slots__ = ("expected", "fits", "schema")

    def __init__(self, expected: str, fits: Callable[[Any], bool], schema: dict[str, Any]) -> None:
        self.expected = expected
        self.fits = fits
        self.schema = schema


def choice(words: Sequence[str]) -> Scalar:
    """One of a few words."""
    return Scalar(f"one of {', '.join(words)}", lambda value: value in words, {"enum": list(words)})


def whole(least: int, most: int | None = None) -> Scalar:
    """A whole number within bounds."""
    expected, schema = f"a whole number from {least}", {"type": "integer", "minimum": least}
    if most is not None:
        expected += f" to {most}"
        schema["maximum"] = most

    def fits(value: object) -> bool:
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return value >= least and (most is None or value <= most)

    return Scalar(expected, fits, schema)


def from_text(text: str) -> bool | int | float | str:
    """Return what a word stands for: true, false, a decimal number, or the word itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return number_or_text(text)


def number_or_text(text: str) -> int | float | str:
    """Return a decimal number, or else the text; 1e-2 counts as one, 1:30 and 0x10 do not."""
    digits = text.replace("_", "")
    if _WHOLE.fullmatch(digits):
        return int(digits)
    if _DECIMAL.fullmatch(digits):
        return float(digits)
    return text


def _is_size(value: Any) -> bool:
    try:
        parse_size(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_file_name(value: object) -> bool:
    if not isinstance(value, str) or not value.isprintable() or set(value) & set("/\\:"):
        return False
    return value not in (".", "..") and not value.endswith(".onnx")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_names(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_text, value))


FLAG = Scalar("true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
TEXT = Scalar("text", _is_text, {"type": "string"})
SIZE = Scalar("a size, for example 1 MB", _is_size, {"type": ["string", "integer"]})
NAMES = Scalar("a list of names", _are_names, {"type": "array", "items": {"type": "string"}})
# Empty for the usual one.
FILE_NAME = Scalar(
    "the name of a data file beside the model, without folders", _is_file_name, {"type": "string"}
)
