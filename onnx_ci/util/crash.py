"""A bug of ours: its traceback is kept in a file, and the user is told in one sentence where."""

from __future__ import annotations

import platform
import tempfile
import traceback
from importlib.metadata import PackageNotFoundError, version

from onnx_ci.util.files import lasting_folder


def keep_traceback(error: Exception) -> tuple[str, str]:
    """What went wrong, and a hint that names the file with the traceback."""
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="onnx-ci-crash-",
        suffix=".txt",
        delete=False,
        encoding="utf-8",
        errors="backslashreplace",
        dir=lasting_folder(),
    ) as file:
        file.write(f"{_versions()}\n\n{''.join(traceback.format_exception(error))}")
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return f"a bug in onnx-ci: {words}", f"please report it with {file.name} ({_versions()})"


def _versions() -> str:
    versions = [f"Python {platform.python_version()}", platform.system()]
    for name in ("onnx-ci", "onnx", "onnxruntime", "numpy"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} not installed")
    return ", ".join(versions)
