"""The cache folder of the benchmarks, and the virtual environments kept in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

READY = "onnx-ci-ready.txt"


class SetupError(Exception):
    """Something a benchmark needs is missing or could not be made."""


def cache_folder() -> Path:
    """Where models and environments live: never inside the repository."""
    chosen = os.environ.get("ONNX_CI_MODELS")
    folder = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "onnx-ci" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def run(command: Sequence[str | os.PathLike[str]]) -> str:
    """Run a helper program quietly; when it fails, its last words are the error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SetupError(f"{command[0]} is not installed") from error
    if done.returncode:
        words = " ".join(map(str, command))
        raise SetupError(f"`{words}` ended with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def environment(name: str, requirements: Sequence[str], python: str = sys.executable) -> Path:
    """The Python of an environment that holds these requirements, built when it is not there yet."""
    folder = cache_folder() / "venvs" / name
    interpreter = folder / "bin" / "python"
    ready, wanted = folder / READY, "\n".join(requirements) + "\n"
    # Scripts of an environment hold its path, so it can't be built elsewhere and renamed: a marker
    # written last tells a finished one from one that was interrupted or is of another version.
    if ready.is_file() and ready.read_text() == wanted:
        return interpreter
    print(f"building the environment {name}: {', '.join(requirements)}", file=sys.stderr)
    run([python, "-m", "venv", "--clear", folder])
    run([interpreter, "-m", "pip", "install", "--quiet", *requirements])
    ready.write_text(wanted)
    return interpreter
