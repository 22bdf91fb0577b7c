"""How a child is started: which Python path, which environment, how much memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_GIB = 1 << 30
_FLOOR = _GIB // 2  # address space: with 8 threads a session that does nothing takes 0.4 GiB
_LEAST = 4 * _GIB
_PER_BYTE = 8  # a model in memory, its optimized copy, and its activations
_SHARE = 0.8  # of the machine's memory
_BOOT = (
    "import sys; sys.path[:] = sys.argv[3:]; import importlib;"
    " importlib.import_module(sys.argv[1]).main(int(sys.argv[2]))"
)
# Our package by its place: the packages beside it are those of this process, which the other must not see.
_BOOT_APART = (
    "import sys; from importlib import import_module, util; entry, memory, packages, home = sys.argv[1:];"
    " sys.path.append(packages); found = util.spec_from_file_location('onnx_ci', home + '/__init__.py');"
    " sys.modules['onnx_ci'] = package = util.module_from_spec(found); found.loader.exec_module(package);"
    " import_module(entry).main(int(memory))"
)
_DATA = (".data", "_data", ".bin", ".weights")
# What a process needs of its surroundings. Everything else may be a secret, or change what a library does.
_NEEDED = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    *("PROGRAMDATA", "PROGRAMFILES", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
}
# What a user's own command may need beside that: which Python and which devices it runs on.
_NEEDED_BY_USERS = {"CI", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONIOENCODING"}
_NEEDED_BY_USERS |= {"CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CUDA_VISIBLE_DEVICES", "CUDA_HOME"}


def command(entry: str, memory: int, *, repeatable: bool = False, packages: Path | None = None) -> list[str]:
    """Python running `main` of a module, with our own module path in place of the default: that finds a
    checkout, a user's site and site-packages alike.

    -I isolates it from the folder it is started in and from PYTHON* variables. It also makes the order of
    sets a matter of chance; where that shows, `repeatable` leaves isolation to `environment`, which passes
    none of these variables on but the one that fixes the order.

    With `packages`, a folder, the child sees those, the standard library and our own package only.
    """
    if packages is not None:
        home = str(Path(__file__).resolve().parents[1])
        return [sys.executable, "-I", "-S", "-c", _BOOT_APART, entry, str(memory), str(packages), home]
    flag = "-s" if repeatable else "-I"
    return [sys.executable, flag, "-c", _BOOT, entry, str(memory), *module_path(sys.path, Path.cwd())]


def module_path(path: Iterable[str], cwd: Path) -> list[str]:
    """Our path without the working folder: modules of the repository under test must not be imported."""
    home = Path(__file__).resolve().parents[2]
    kept = [entry for entry in path if entry and (cwd / entry).resolve() != cwd.resolve()]
    # Our own home comes last: in a checkout it holds more than the package.
    return list(dict.fromkeys([*(str(cwd / entry) for entry in kept), str(home)]))


def environment(current: Mapping[str, str]) -> dict[str, str]:
    """What a child of ours inherits: what it needs to start, and nothing else."""
    kept = {name: value for name, value in current.items() if _is_needed(name.upper())}
    # Each malloc arena and each BLAS thread reserves address space that counts against the limit.
    return {**kept, "MALLOC_ARENA_MAX": "4", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def users_environment(current: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """What a command of the policy inherits: what it needs to start, and what the policy names."""
    wanted = {*_NEEDED_BY_USERS, *also}
    return {name: value for name, value in current.items() if _is_needed(name.upper()) or name in wanted}


def memory_for(models: Iterable[Path], limit: int | None = None) -> int:
    """Bytes a child may use: the limit, or enough for these models but not all there is.
    With less than the floor onnxruntime itself would not start."""
    if limit is not None:
        return max(_FLOOR, limit)
    wanted = max(_LEAST, _PER_BYTE * sum(map(_stored, models)))
    total = _physical()
    return wanted if total is None else min(wanted, int(total * _SHARE))


def _is_needed(name: str) -> bool:
    return name in _NEEDED or name.startswith("LC_")


def _stored(model: Path) -> int:
    """The model's bytes with its external data, estimated by the names of the files beside it."""
    try:
        near = [path for path in model.parent.iterdir() if path == model or _is_data(path, model)]
        return sum(path.stat().st_size for path in near if path.is_file())
    except OSError:  # gone or unreadable: onnxruntime will say so in its own words
        return 0


def _is_data(path: Path, model: Path) -> bool:
    return path.name.endswith(_DATA) or path.name.startswith(f"{model.name}.")


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
