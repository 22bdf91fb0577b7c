"""Where this program keeps what it may need again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """`ONNX_CI_CACHE`, or the user's own cache folder."""
    if given := os.environ.get("ONNX_CI_CACHE"):
        return Path(given).absolute()
    general = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (general if general.is_absolute() else Path.home() / ".cache") / "onnx-ci"
