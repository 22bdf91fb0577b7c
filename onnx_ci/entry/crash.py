"""A bug of ours: keep the traceback in a file, and tell the user in one sentence."""

from __future__ import annotations

import platform
import tempfile
import traceback
from importlib.metadata import PackageNotFoundError, version

from onnx_ci.child.forks import lasting_folder


def report_crash(error: Exception) -> tuple[str, str]:
    """What to say, and where the details are."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="onnx-ci-crash-", suffix=".txt", delete=False, encoding="utf-8", dir=lasting_folder()
    ) as file:
        file.write(f"{_versions()}\n\n{''.join(traceback.format_exception(error))}")
    message = f"a bug in onnx-ci: {type(error).__name__}: {error}; models are as they were"
    return message, f"please report it with {file.name} ({_versions()})"


def _versions() -> str:
    found = [f"Python {platform.python_version()}", platform.system()]
    for name in ("onnx-ci", "onnx", "onnxruntime", "numpy"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)
