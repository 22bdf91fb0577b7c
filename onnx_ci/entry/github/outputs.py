"""What the action hands to the workflow: step outputs and the job summary."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

SUMMARY_LIMIT = 1 << 20  # bytes; GitHub drops a summary that is larger
_CUT = "\n\n… cut here: the whole report is in the artifact.\n"


def write_outputs(values: Mapping[str, str]) -> None:
    """Each value between delimiters nobody can guess: a value with line ends can't add outputs of its own."""
    _append("GITHUB_OUTPUT", "".join(_output(name, value) for name, value in values.items()))


def _output(name: str, value: str) -> str:
    mark = f"onnx-ci-{secrets.token_hex(16)}"
    return f"{name}<<{mark}\n{value}\n{mark}\n"


def write_summary(markdown: str) -> None:
    """Added to what the step has said already, within the limit for all of it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    there = Path(path).stat().st_size if path and Path(path).exists() else 0
    _append("GITHUB_STEP_SUMMARY", cut(markdown, SUMMARY_LIMIT - there))


def cut(text: str, most: int) -> str:
    """As much as fits, at the end of a line."""
    data = text.encode(errors="backslashreplace")
    if len(data) <= most:
        return data.decode()
    kept = data[: max(0, most - len(_CUT.encode()))]
    return kept[: kept.rfind(b"\n") + 1].decode() + _CUT if most > len(_CUT) else ""


def _append(variable: str, text: str) -> None:
    path = os.environ.get(variable)
    if path and text:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
