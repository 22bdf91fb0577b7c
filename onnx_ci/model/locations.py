"""Where a model's other files may be: a model is not trusted, so neither are the names in it."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from onnx_ci.scratch import SUFFIX


def is_inside(name: str) -> bool:
    """Whether a location stays in the model's folder, and out of what is hidden there, `.git` above all."""
    pure = PurePosixPath(name)
    hidden = any(part.startswith(".") and not part.endswith(SUFFIX) for part in pure.parts)
    strange = "\\" in name or "\0" in name or PureWindowsPath(name).drive
    return bool(name) and not (pure.is_absolute() or hidden or strange)
