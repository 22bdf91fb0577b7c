"""An environment of our own for the action: named after all that went into it, and made once."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.action.inputs import Event, Inputs, append_to, write_outputs, wrong
from onnx_ci.errors import EnvironmentFault
from onnx_ci.util.files import make_folder, scratch_folder
from onnx_ci.version import __version__

HOME = Path(__file__).resolve().parents[2]  # where the action is: our own source
MARKER = "complete"
_UNUSED_SECONDS = 60 * 24 * 3600
_LAUNCHER = '#!/bin/sh\nexec "$(dirname "$0")/../{python}" -I -m onnx_ci "$@"\n'
_LAUNCHER_WINDOWS = '@"%~dp0..\\Scripts\\python.exe" -I -m onnx_ci %*\r\n'


def prepare(inputs: Inputs, event: Event) -> None:
    """Tell the next steps where the environment belongs, whether it is there, and what to cache how."""
    key = _key(inputs.extras)
    folder = _tools() / key
    cached = inputs.cache and event.trusts_cache
    light = inputs.mode == "comment"  # needs no model library, so nothing is installed
    # Gone after the job: what is in it came from this job or from the cache of this repository.
    results = str(Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "onnx-ci" / "results")
    if given := os.environ.get("ONNX_CI_CACHE"):
        results = given if "://" in given else str(Path(given).absolute())
    write_outputs(
        {
            "python": sys.executable if light else str(_python(folder)),
            "folder": str(folder),
            "key": key,
            "install": str(not light and not is_complete(folder)).lower(),
            "cache": str(cached and not light).lower(),
            "results": results,
            "results-key": f"onnx-ci-results-{key.removeprefix('onnx-ci-')}",
        }
    )
    if inputs.cache and not cached:
        sys.stdout.write(
            "onnx-ci: no cache is used, since strangers may have written what this event would get\n"
        )


def install(inputs: Inputs) -> None:
    """Make the environment aside and put it in place in one step: other jobs may do the same now."""
    folder = _tools() / _key(inputs.extras)
    make_folder(folder, "new-", lambda new: _fill(new, inputs.extras), is_complete)
    os.utime(folder / MARKER)
    _forget_unused(folder.parent)
    append_to("GITHUB_PATH", f"{folder / 'command'}\n")


def is_complete(folder: Path) -> bool:
    """Whether everything was installed, and the Python it was made with is still there."""
    if not (folder / MARKER).is_file():
        return False
    command = [str(_python(folder)), "-I", "-c", "import onnx_ci"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _key(extras: Sequence[str]) -> str:
    """All that decides what is installed: Python, system, architecture, our own source, extras."""
    system = f"{platform.system()}-{platform.machine()}".lower()
    python = f"{sys.version}\n{sys.base_prefix}\n{sysconfig.get_platform()}\n{','.join(sorted(extras))}\n"
    digest = hashlib.sha256(python.encode())
    package = (HOME / "onnx_ci").rglob("*.*")
    source = [file for file in package if file.is_file() and file.suffix != ".pyc"]
    for file in [HOME / "pyproject.toml", *sorted(source)]:
        digest.update(f"{file.relative_to(HOME).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"onnx-ci-{__version__}-py{platform.python_version()}-{system}-{digest.hexdigest()[:16]}"


def _tools() -> Path:
    """The runner's folder for tools, which stays on machines of one's own; or a temporary one."""
    for name in ("RUNNER_TOOL_CACHE", "RUNNER_TEMP"):
        folder = Path(os.environ.get(name, ""))
        there = next((each for each in (folder, *folder.parents) if each.exists()), folder)
        if os.environ.get(name) and os.access(there, os.W_OK):
            return folder / "onnx-ci"
    return Path(tempfile.gettempdir()) / "onnx-ci"


def _python(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def _fill(folder: Path, extras: Sequence[str]) -> None:
    for name in extras:
        if name not in _known_extras():
            raise wrong("extras", name, "one that onnx-ci has: compression, fuse, simplify")
    _run([sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], "make a virtual environment")
    wanted = f"{HOME}[{','.join(extras)}]" if extras else str(HOME)
    python = str(_python(folder))
    uv = shutil.which("uv")
    with_uv = [str(uv), "pip", "install", "--quiet", "--python", python, wanted]
    if uv is None or _started(with_uv).returncode:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-compile", "--no-input")
        pip = [sys.executable, "-I", "-m", "pip", "--python", python, "install", *quiet, wanted]
        _run(pip, "install onnx-ci with pip")
    _write_launcher(folder)
    (folder / MARKER).write_text(f"{__version__}\n", encoding="utf-8")


def _known_extras() -> list[str]:
    """Python 3.10 has no TOML: the lines of one section are read."""
    text = (HOME / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    return re.findall(r"^([a-z0-9-]+) = \[", section, re.MULTILINE)


def _run(command: Sequence[str], purpose: str) -> None:
    done = _started(command)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise EnvironmentFault(
            f"could not {purpose}: {lines[-1] if lines else f'it ended with {done.returncode}'}",
            hint="the runner needs Python 3.10 or later with pip 22.3 or later, or uv, and a package index",
        )


def _started(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Outside of the repository: neither pip nor uv reads a configuration that came with it."""
    with scratch_folder() as empty:
        return subprocess.run(command, cwd=empty, check=False, capture_output=True, text=True)


def _forget_unused(home: Path) -> None:
    """On a machine that is kept, every version would leave an environment behind."""
    for marker in home.glob(f"onnx-ci-*/{MARKER}"):
        if time.time() - marker.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(marker.parent, ignore_errors=True)


def _write_launcher(folder: Path) -> None:
    """A command for later steps that brings neither our Python nor our packages with it."""
    place = folder / "command"
    place.mkdir()
    if os.name == "nt":
        (place / "onnx-ci.cmd").write_text(_LAUNCHER_WINDOWS, encoding="utf-8")
    script = place / "onnx-ci"
    python = _python(folder).relative_to(folder).as_posix()
    script.write_text(_LAUNCHER.format(python=python), encoding="utf-8", newline="\n")
    script.chmod(0o755)
