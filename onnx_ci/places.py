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


def state_home() -> Path:
    """The user's own folder for what is not to be lost with a cache."""
    general = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (general if general.is_absolute() else Path.home() / ".local" / "state") / "onnx-ci"


def originals_home() -> Path:
    """`ONNX_CI_ORIGINALS`, or a folder of the user's: for what models were, where there is no git."""
    given = os.environ.get("ONNX_CI_ORIGINALS")
    return Path(given).absolute() if given else state_home() / "originals"
