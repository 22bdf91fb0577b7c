"""Kinds of single values: how each is read from the file, and how the same is described to an editor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from math import isfinite

from onnx_ci.policy.glob import check_pattern
from onnx_ci.policy.nodes import Place
from onnx_ci.policy.suggest import did_you_mean
from onnx_ci.sizes import NUMBER, parse_count, parse_fraction, parse_size
from onnx_ci.util import scalars

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from typing import Any, TypeAlias

Schema: TypeAlias = "dict[str, Any]"
_LARGEST = 2**63 - 1
_ROOTS = ("etc", "home", "mnt", "opt", "root", "tmp", "usr", "var", "Users")
_ELSEWHERE = ("//", "\\\\", "~/", *(f"/{root}/" for root in _ROOTS))


class Kind:
    """One kind of value."""

    __slots__ = ("read", "schema")

    def __init__(self, read: Callable[[Place], Any], schema: Schema) -> None:
        self.read = read
        self.schema = schema


def _text(place: Place) -> str:
    text = place.scalar("text")
    if not text.strip():
        raise place.expected("text")
    # `on`, `yes` and 1:30 are text to YAML 1.2 and to who reads the file; 42 and true are not.
    number = place.tag in ("int", "float") and ":" not in text
    if number or (place.tag == "bool" and text.lower() in ("true", "false")):
        hint = f'quote what is meant as text, for example: {place.name}: "{place.found}"'
        raise place.error(f"found {place.found}, expected text", hint=hint)
    return text


def _boolean(place: Place) -> bool:
    text = place.scalar("true or false").lower()
    if place.tag != "bool" or text not in ("true", "yes", "on", "false", "no", "off"):
        raise place.expected("true or false")
    return text in ("true", "yes", "on")


def whole(low: int, high: int = _LARGEST) -> Kind:
    """An integer, always read as decimal: YAML 1.1 would make 8 of 010 and 90 of 1:30."""
    what = f"a whole number, at least {low}" + (f" and at most {high}" if high < _LARGEST else "")
    scalar = scalars.whole(low, high)

    def read(place: Place) -> int:
        value = scalars.number_or_text(place.scalar(what))
        if place.tag != "int" or not isinstance(value, int) or value < low:
            raise place.expected(what)
        if not scalar.fits(value):
            raise place.expected(what if high < _LARGEST else "a smaller number")
        return value

    return Kind(read, scalar.schema)


def number(low: float | None = None, high: float | None = None, *, above: float | None = None) -> Kind:
    """A finite number. 1e-2 is text to YAML 1.1, and a number to everybody else."""
    bounds = {"minimum": low, "maximum": high, "exclusiveMinimum": above}
    words = {"from": low, "above": above, "up to": high}
    what = " ".join(
        ["a number", *(f"{word} {bound:g}" for word, bound in words.items() if bound is not None)]
    )

    def read(place: Place) -> float:
        text = place.scalar(what)
        if place.tag not in ("int", "float") and not (place.tag == "str" and "e" in text.lower()):
            raise place.expected(what)
        value = _float(text)
        too_low = (low is not None and value < low) or (above is not None and value <= above)
        if not isfinite(value) or too_low or (high is not None and value > high):
            raise place.expected(what)
        return value

    scientific = {"type": "string", "pattern": r"^[-+]?[0-9.]+[eE][-+]?[0-9]+$"}
    plain = {"type": "number", **{name: bound for name, bound in bounds.items() if bound is not None}}
    return Kind(read, {"anyOf": [plain, scientific]})


def _float(text: str) -> float:
    try:
        return float(text.replace("_", "")) if text.isascii() else float("nan")
    except ValueError:
        return float("nan")


def _quantity(parse: Callable[[str], int], what: str, units: str, high: int = _LARGEST) -> Kind:
    def read(place: Place) -> int:
        try:
            value = parse(place.scalar(what))
        except ValueError as error:
            raise place.error(str(error)) from None
        if value == 0:
            raise place.expected(f"{what} above zero")
        if value > high:
            raise place.expected(what)
        return value

    written = {"type": "string", "pattern": f"^{NUMBER} *(?:{units})?$"}
    return Kind(read, {"anyOf": [{"type": "integer", "minimum": 1, "maximum": high}, written]})


def fraction(high: float | None = None, *, plain: float = 1.0, above_zero: bool = False) -> Kind:
    """A percentage, or the fraction itself up to `plain`: beyond that the % was forgotten."""
    what = (
        "a percentage"
        + (" above 0%" if above_zero else "")
        + (f" up to {high:.0%}" if high is not None else "")
    )

    def read(place: Place) -> float:
        text = place.scalar(what).strip()
        try:
            value = parse_fraction(text)
        except ValueError as error:
            raise place.error(str(error)) from None
        if "%" not in text and value > plain:
            raise place.error(f"found {text}, expected {what}: did you mean {text}%?")
        if (high is not None and value > high) or (above_zero and value == 0):
            raise place.expected(what)
        return value

    least = {"exclusiveMinimum": 0} if above_zero else {"minimum": 0}
    written = {"type": "string", "pattern": f"^{NUMBER} *%?$"}
    return Kind(read, {"anyOf": [{"type": "number", **least, "maximum": plain}, written]})


def word(choices: Sequence[str]) -> Kind:
    """One of a few words."""
    scalar = scalars.choice(choices)

    def read(place: Place) -> str:
        text = place.scalar(f"one of: {', '.join(choices)}")
        if not scalar.fits(text):
            raise place.error(f"found {place.found}, {did_you_mean(text, choices)}")
        return text

    return Kind(read, scalar.schema)


def _pattern(place: Place) -> str:
    text = _text(place)
    if _absolute(text, place.reading.folder):
        raise place.error(f"found the absolute {place.found}, expected a pattern relative to the policy file")
    try:
        check_pattern(text)
    except ValueError as error:
        raise place.error(f"the pattern {place.found} {error}") from None
    return text


def _absolute(text: str, folder: str) -> bool:
    """A leading `/` means the policy's folder, so only what is surely from elsewhere is absolute."""
    drive = text[1:3] in (":/", ":\\") and text[0].isalpha()
    below = folder.rstrip("/") + "/"
    return drive or text.startswith(_ELSEWHERE) or (below != "/" and text.startswith(below))


def _file(place: Place) -> str:
    text = _text(place)
    if text.startswith(("/", "\\")) or _absolute(text, place.reading.folder):
        raise place.error(f"found the absolute {place.found}, expected a path relative to the policy file")
    if ".." in text.replace("\\", "/").split("/"):
        raise place.error(f"found {place.found}, expected a path that stays below the policy file: no `..`")
    return text


def is_release(text: str) -> bool:
    """Whether it is a version as `1.20` or `1.23.2`, and nothing that an installer could take for more."""
    numbers = text.split(".")
    return len(numbers) in (2, 3) and all(n.isascii() and n.isdigit() and len(n) <= 4 for n in numbers)


def _release(place: Place) -> str:
    what = "a version as 1.20 or 1.23.2, in quotes"  # to YAML, 1.20 is the number 1.2
    text = place.scalar(what)
    if place.tag != "str" or not is_release(text):
        raise place.expected(what)
    return text


def _variable(place: Place) -> str:
    what = "the name of an environment variable"
    text = place.scalar(what)
    if not (text.isascii() and text.isidentifier()):
        raise place.expected(what)
    return text


def _sha256(place: Place) -> str:
    text = place.scalar("a sha256: 64 hexadecimal digits").lower()
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise place.error(
            f"found {place.found} of length {len(text)}, expected a sha256: 64 hexadecimal digits"
        )
    return text


def _date(place: Place) -> date:
    what = "a day that exists, as year-month-day"
    text = place.scalar(what)
    try:
        if len(text) != 10 or text[4] + text[7] != "--":
            raise place.expected(what)
        return date.fromisoformat(text)
    except ValueError:
        raise place.expected(what) from None


FILE = Kind(
    _file,
    {
        "type": "string",
        "pattern": r"\S",
        "not": {"pattern": r"(^|[/\\])\.\.([/\\]|$)|^[/\\]|^~/|^[A-Za-z]:[/\\]"},
    },
)
RELEASE = Kind(_release, {"type": "string", "pattern": r"^[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?$"})
VARIABLE = Kind(_variable, {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})
TEXT = Kind(_text, {"type": "string", "pattern": r"\S"})
BOOLEAN = Kind(_boolean, scalars.FLAG.schema)
SIZE = _quantity(parse_size, "a size", "(?:[kKmMgGtT][iI]?)?[bB]")
MEMORY = _quantity(parse_size, "a size up to 1 TiB", "(?:[kKmMgGtT][iI]?)?[bB]", 1 << 40)
COUNT = _quantity(parse_count, "a count", "[kKmMbBtT]")
PATTERN = Kind(
    _pattern, {"type": "string", "minLength": 1, "not": {"pattern": r"(^|/)\.\.(/|$)|^//|^[A-Za-z]:[/\\]"}}
)
SHA256 = Kind(_sha256, {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"})
DATE = Kind(_date, {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})
