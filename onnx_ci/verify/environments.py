"""Other versions of onnxruntime, each in a folder of packages of its own, made with pip or uv and kept."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.places import cache_home
from onnx_ci.scratch import HeldFolder, sweep_folders
from onnx_ci.util.text import clean

PACKAGE = "onnxruntime"
SECONDS = 900  # for one installation
UNFINISHED = "unfinished-"
NUMPY_2 = (1, 19)  # the first that was built for it; older ones don't load beside it
# What a user may have set for environments of their own, and what would get in the way here.
_SETTINGS = {
    "PIP_CONSTRAINT": "",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
}
_UNREACHABLE = r"[Ff]ailed to fetch|dns error|error sending request"  # in the words of uv
AGAIN = "run it once where packages can be installed: what was installed is kept in the cache folder"
_one_at_a_time = threading.Lock()


def installed() -> str:
    """The version that runs our own worker; empty where it comes in a package of another name."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def is_installed(wanted: str) -> bool:
    """Whether our own is the version asked for, or one of the series asked for."""
    return installed() == wanted or installed().startswith(f"{wanted}.")


def packages_of(wanted: str) -> Path:
    """The folder with this version (`1.20`: the newest 1.20.x), made if it is not there yet. It appears
    whole or not at all; of two who make it at once, one wins."""
    folder = cache_home() / "runtimes" / f"{wanted}-{sys.implementation.cache_tag}-{platform.machine()}"
    with _one_at_a_time:
        if not folder.is_dir():
            _make(folder, wanted)
    return folder


def version_in(folder: Path) -> str:
    """The version that is in such a folder."""
    found = distributions(name=PACKAGE, path=[str(folder)])
    return next((one.version for one in found), "")


def _make(folder: Path, wanted: str) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        sweep_folders(folder.parent, UNFINISHED)
        made = HeldFolder(folder.parent, UNFINISHED)
        try:
            _install(made.path, wanted)
            _put(made.path, folder)
        finally:
            made.remove()
    except OSError as error:
        raise EnvironmentFault(
            f"no room for onnxruntime {wanted} in {folder.parent}: {error.strerror or error}",
            hint="free some space, or set ONNX_CI_CACHE to a folder that has it",
        ) from None


def _put(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # where it is, another was faster: theirs is as good
            raise


def _install(folder: Path, wanted: str) -> None:
    command = [*_installer(wanted), "--target", str(folder), *requirements(wanted)]
    try:
        # Not in the user's folder: there may be modules in it that are called like those of pip.
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **_SETTINGS},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unavailable(wanted, f"that took longer than {SECONDS} s", AGAIN) from None
    if done.returncode:
        raise _unavailable(wanted, *_reason(done.stderr))


def requirements(wanted: str) -> list[str]:
    """What is to be installed; what else onnxruntime asks for, its tools need and running models does not."""
    numbers = tuple(map(int, wanted.split(".")))
    exact = len(numbers) > 2
    numpy = "numpy>=1.26" if numbers >= NUMPY_2 else "numpy>=1.26,<2"
    return [f"{PACKAGE}=={wanted}" if exact else f"{PACKAGE}=={wanted}.*", numpy]


def _installer(wanted: str) -> list[str]:
    only = ["--no-deps", "--only-binary", ":all:", "--quiet"]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--no-input", "--retries", "2", *only]
    uv = shutil.which("uv")
    if uv is None:
        raise EnvironmentFault(
            f"onnxruntime {wanted} can't be installed: there is neither pip nor uv",
            hint="run: python -m ensurepip",
        )
    return [uv, "pip", "install", "--python", sys.executable, *only]


def _reason(said: str) -> tuple[str, str]:
    """What pip or uv says in the end, made short, and what to do; without an index it knows no version."""
    if "from versions: none" in said or re.search(_UNREACHABLE, said):
        return "the package index can't be reached", AGAIN
    known = re.search(r"\(from versions: (.*?)\)", said, re.DOTALL)
    if known:
        series = dict.fromkeys(re.findall(r"(\d+\.\d+)\.", known[1]))
        return f"there is none for {_here()}", f"there are {', '.join(series)}"
    if re.search(r"no wheels|no version of|unsatisfiable", said):
        return f"there is none for {_here()}", "ask for another version"
    last = [line for line in said.strip().splitlines() if line.strip()]
    return clean(last[-1]) if last else "the installer gave no reason", AGAIN


def _here() -> str:
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform} {platform.machine()}"


def _unavailable(wanted: str, why: str, hint: str) -> EnvironmentFault:
    return EnvironmentFault(f"onnxruntime {wanted} can't be installed: {why}", hint=hint)
