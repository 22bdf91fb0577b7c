"""Sizes, counts and percentages: read from what people write, shown as people read them; limits of places."""

from __future__ import annotations

import os
import re

from onnx_ci.errors import UsageError
from onnx_ci.util.text import nearest

SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
COUNT_UNITS = {"k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
NUMBER = r"[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?"

PLACES_AS_OF = "2026-11-18"  # when these figures were looked up
# Of a place: what it limits, the size on disk or that in a compressed package; how many bytes; and of what.
PLACES = {
    "pypi": ("gzip", 100 * 2**20, "a wheel or source archive, unless PyPI allowed more"),
    "npm": ("gzip", 200 * 10**6, "a package; npm names no limit, larger ones were refused"),
    "crates-io": ("gzip", 10 * 2**20, "a crate, unless crates.io allowed more"),
    "github": ("size", 100 * 2**20, "a file in git without Git LFS"),
    "github-lfs": ("size", 2 * 10**9, "a file in Git LFS, under the plans Free and Pro"),
    "github-release": ("size", 2**31, "a file of a release"),
    "cloudflare-pages": ("size", 25 * 2**20, "a file of a site, Workers' static assets too"),
    "aws-lambda": ("size", 250 * 2**20, "a function with its layers, unpacked"),
}
LEAST_PLAIN = 1_000  # bytes that may be written without a unit
_QUANTITY = re.compile(rf"({NUMBER})\s*([^\W\d_]*|%)")
_LARGEST = 2**63 - 1


def parse_size(value: str | int | float) -> int:
    """Bytes of "25 MB", "1.5 MiB", "1_000" or a plain number; upper and lower case mean the same."""
    return _quantity(value, SIZE_UNITS, kind="a size", example="25 MB")


def stated_size(text: str) -> int:
    """The same; small ones with a unit only: nobody means 25 bytes by 25."""
    size = parse_size(text)
    if 0 < size < LEAST_PLAIN and text.strip().isdigit():
        raise ValueError(f"{text!r} has no unit: did you mean {size} MB? For bytes, write {size} B")
    return size


def size_setting(variable: str, usual: str, *, example: str) -> int:
    """The size that an environment variable gives, or the usual one."""
    try:
        return parse_size(os.environ.get(variable) or usual)
    except ValueError as error:
        raise UsageError(f"{variable}: {error}", hint=f"for example: {variable}='{example}'") from None


def parse_count(value: str | int | float) -> int:
    """The number in "12M", "1.5B", "340k" or a plain number."""
    return _quantity(value, COUNT_UNITS, kind="a count", example="12M")


def parse_fraction(value: str | int | float) -> float:
    """0.05 for "5%", and for 0.05 itself."""
    text = _text(value)
    match = _QUANTITY.fullmatch(text)
    if not match or match[2] not in ("", "%"):
        raise _refusal(text, "is not a percentage", "5%")
    number = match[1].replace("_", "")
    if match[2] and "e" not in number.lower():
        return float(f"{number}e-2")  # the nearest float: 99.9 / 100 is not 0.999
    return float(number) / 100 if match[2] else float(number)


def format_size(size: int) -> str:
    """Three significant digits in powers of ten: "47.1 MB"; below 1 kB the bytes themselves."""
    value, sign = abs(size), "-" if size < 0 else ""
    if value < 1000:
        return f"{sign}{value} B"
    for unit in ("kB", "MB", "GB", "TB"):
        scaled = value / SIZE_UNITS[unit]
        if scaled < 999.5:  # from here on three digits would read "1e+03": take the next unit
            return f"{sign}{scaled:.3g} {unit}"
    return f"{sign}{scaled:.0f} TB"


def format_count(count: int) -> str:
    """Three significant digits: "25.6M"; below a thousand the number itself."""
    for unit, factor in reversed(COUNT_UNITS.items()):
        if count >= factor * 0.9995:
            return f"{count / factor:.3g}{unit}"
    return str(count)


def size_unit(size: int) -> str:
    """The largest power of ten that is not above a size."""
    return next((unit for unit in ("TB", "GB", "MB", "kB") if size >= SIZE_UNITS[unit]), "B")


def format_percent(fraction: float) -> str:
    """Three significant digits: "5%", "99.9%", "110%"; a trace is never shown as nothing."""
    percent = fraction * 100
    if 0 < abs(percent) < 0.01:
        return "<0.01%" if percent > 0 else ">-0.01%"
    return f"{percent:.3g}%" if abs(percent) < 999.5 else f"{percent:.0f}%"


def _quantity(value: str | int | float, units: dict[str, int], *, kind: str, example: str) -> int:
    text = _text(value)
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise _refusal(text, f"is not {kind}", example)
    number, unit = match[1].replace("_", ""), match[2]
    factor = {"": 1, **{name.lower(): n for name, n in units.items()}}.get(unit.lower())
    if factor is None:
        raise _refusal(text, f"is not {kind}: {_unknown_unit(unit, units)}", example)
    # Whole numbers stay integers: a float would round a size beyond 2^53.
    amount = int(number) * factor if number.isdigit() else float(number) * factor
    if amount > _LARGEST:
        raise _refusal(text, f"is too large to be {kind}", example)
    if factor == 1 and amount != int(amount):
        raise _refusal(text, "is not a whole number", example)
    return round(amount)


def _text(value: str | int | float) -> str:
    # Numbers take the same road as text, so that -1, nan and True are refused in one place.
    text = str(value).strip()
    if isinstance(value, float) and text.endswith(".0"):
        return text[:-2]
    return text if len(text) <= 40 else text[:40] + "…"  # also bounds what int() is given


def _refusal(text: str, reason: str, example: str) -> ValueError:
    return ValueError(f"{text!r} {reason} (for example {example})")


def _unknown_unit(unit: str, units: dict[str, int]) -> str:
    by_lower = {name.lower(): name for name in units}
    # "megabytes" and "million" are far from "MB" and "M" by letters, but begin alike.
    alike = (name for name in by_lower if name[0] == unit[0].lower())
    close = nearest(unit, by_lower) or next(alike, "")
    meant = f"did you mean {by_lower[close]!r}?" if close else f"known are {', '.join(units)}"
    return f"unknown unit {unit!r}, {meant}"
