"""Dependency files as Make, Ninja and CMake read them: what a written file was made from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.whole import whole


def write_depfile(depfile: Path, target: str, needed: Iterable[Path | str]) -> None:
    """Every needed file gets an empty rule as well: one that is gone tomorrow then means "build again"."""
    names = [_escaped(os.fspath(path)) for path in dict.fromkeys(needed)]
    lines = [f"{_escaped(target)}: \\\n  " + " \\\n  ".join(names), *(f"{name}:" for name in names), ""]
    with whole(depfile) as temporary:
        temporary.write_bytes(os.fsencode("\n".join(lines)))


def _escaped(path: str) -> str:
    if "\n" in path or "\r" in path:
        raise UsageError(f"{path!r} has a line break in it, which no dependency file can name")
    for character, written in (("$", "$$"), ("#", "\\#"), (" ", "\\ ")):
        path = path.replace(character, written)
    return path
