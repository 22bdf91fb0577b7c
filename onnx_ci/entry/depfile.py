"""Dependency files as Make, Ninja and CMake read them: what a written file was made from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.whole import whole

UNWRITABLE_NAMES = {"\n": "a line break", "\r": "a line break", "\t": "a tab"}
# They make a rule, a command, a variable or a pattern of a line; no way to write them is read by all.
UNWRITABLE = {*UNWRITABLE_NAMES, *":;=%|"}


def write_depfile(depfile: Path, target: str, needed: Iterable[Path | str]) -> None:
    """Every needed file gets an empty rule as well: one that is gone tomorrow then means "build again"."""
    names = [_escaped(os.fspath(path)) for path in dict.fromkeys(needed)]
    lines = [f"{_escaped(target)}: \\\n  " + " \\\n  ".join(names), *(f"{name}:" for name in names), ""]
    with whole(depfile) as temporary:
        temporary.write_bytes(os.fsencode("\n".join(lines)))


def check_depfile(depfile: Path, *named: str | Path) -> None:
    """Whether it can be written, as far as that can be told before."""
    for name in named:
        _escaped(os.fspath(name))
    if depfile.is_dir() or not depfile.parent.is_dir():
        what = "it is a folder" if depfile.is_dir() else "its folder does not exist"
        raise EnvironmentFault(f"the depfile {str(depfile)!r} can't be written: {what}")


def _escaped(path: str) -> str:
    _, rest = os.path.splitdrive(path)
    if odd := sorted(set(rest) & UNWRITABLE):
        told = " and ".join(UNWRITABLE_NAMES.get(character, repr(character)) for character in odd)
        raise UsageError(
            f"{path!r} has {told} in it, which Make would read otherwise in a dependency file",
            hint="give the file or its folder another name, or leave --depfile out",
        )
    for character, written in (("$", "$$"), ("#", "\\#"), (" ", "\\ ")):
        path = path.replace(character, written)
    return path
