"""onnx-ci keeps ONNX models small and correct, in the commit, the pull request and the build."""

from __future__ import annotations

from onnx_ci.version import __version__

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any

    from onnx_ci.api import ShrinkResult, check, compare, diff, record, shrink


__all__ = ["ShrinkResult", "__version__", "check", "compare", "diff", "record", "shrink"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # Loaded on first use: the command line imports this package and must start at once.
    if name in __all__:
        from onnx_ci import api

        return getattr(api, name)
    raise AttributeError(f"module 'onnx_ci' has no attribute {name!r}")
