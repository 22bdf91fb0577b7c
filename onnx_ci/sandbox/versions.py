"""What models are run with: other versions of onnxruntime, each in a folder of its own, made with pip or uv
and kept; and libraries of custom operators, files that the policy or the user names, never the model."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.graph import all_nodes
from onnx_ci.model.proto import ModelProto
from onnx_ci.util.advice import to_run
from onnx_ci.util.files import cache_home, make_folder
from onnx_ci.util.text import clean, first_of

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


def version_in(folder: Path | None = None) -> str:
    """The version that is in a folder of packages, or that runs our own worker; empty where that comes in a
    package of another name."""
    path = sys.path if folder is None else [str(folder)]
    return next((package.version for package in distributions(name=PACKAGE, path=path)), "")


def is_installed(wanted: str) -> bool:
    """Whether our own is the version asked for, or one of the series asked for."""
    return f"{version_in()}.".startswith(f"{wanted}.")


def packages_of(wanted: str) -> Path:
    """The folder with this version (`1.20`: the newest 1.20.x), made if it is not there yet. It appears
    whole or not at all; of two who make it at once, one wins."""
    folder = cache_home() / "runtimes" / f"{wanted}-{sys.implementation.cache_tag}-{platform.machine()}"
    with _one_at_a_time:
        try:
            make_folder(folder, UNFINISHED, lambda new: _install(new, wanted))
        except OSError as error:
            raise EnvironmentFault(
                f"no room for onnxruntime {wanted} in {folder.parent}: {error.strerror or error}",
                hint="free some space, or set ONNX_CI_CACHE to a folder that has it",
            ) from None
    return folder


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
        raise _unavailable(wanted, "there is neither pip nor uv", to_run("python -m ensurepip"))
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


@dataclass(frozen=True)
class Libraries:
    """Libraries of custom operators: names relative to `home`. Each has to lead to a file inside of it,
    whatever links are on the way."""

    names: tuple[str, ...] = ()
    home: Path = Path()

    def found(self) -> Iterator[Path]:
        """The files; a ValueError where one is missing or elsewhere."""
        home = self.home.resolve()
        for name in self.names:
            path = (home / name).resolve()
            if not path.is_relative_to(home):
                raise ValueError(f"the library {name!r} leads out of the folder it has to be in")
            if not path.is_file():
                raise ValueError(f"the library {name!r} is not there")
            yield path


NO_LIBRARIES = Libraries()
NAME_IT = (
    "name the library that has them, a file inside the repository:"
    ' libraries: ["ops/libmyops.so"] in the rule, or --library'
)
REPLACE_IT = "name one that is there and was built for this system and this onnxruntime: libraries: [...]"
# Domains whose operators come with onnxruntime.
_KNOWN = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "org.pytorch.aten")
_KNOWN_FAMILIES = ("com.microsoft", "com.ms.")
_SHOWN = 3


def custom_operators(proto: ModelProto) -> list[str]:
    """The operators that neither onnxruntime nor the model itself brings along, each with its domain."""
    own = {(function.domain, function.name) for function in proto.functions}
    nodes = ((node.domain, node.op_type) for node in all_nodes(proto))
    custom = dict.fromkeys(node for node in nodes if node not in own and node[0] not in _KNOWN)
    return [f"{domain}.{op}" for domain, op in custom if not domain.startswith(_KNOWN_FAMILIES)]


def needs_library(operators: Sequence[str]) -> str:
    named = clean(first_of(operators, _SHOWN))
    return f"it has custom operators, and no library was given for them: {named}"
