"""Starts, limits, asks and ends processes of our own, for code that may crash, hang or exhaust memory."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal, cast

from onnx_ci.util.files import new_folder
from onnx_ci.util.text import clean

Death = Literal["crash", "timeout", "memory"]
_GIB = 1 << 30
_FLOOR = _GIB // 2  # address space: with 8 threads a session that does nothing takes 0.4 GiB
_LEAST = 4 * _GIB
_PER_BYTE = 8  # a model in memory, its optimized copy, and its activations
_SHARE = 0.8  # of the machine's memory
_USUAL, _USUAL_PER_BYTE = 300_000_000, 6  # what the work on a model takes, measured on real ones
_CGROUPS = Path("/sys/fs/cgroup")
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
_STDERR = "stderr.txt"
_TAIL = 4096  # bytes of its last words that are looked at
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
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36  # of prctl(2)
_living: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


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


def memory_for(size: int, limit: int | None = None) -> int:
    """Bytes a child may use: the limit, or enough for models of this size but not all there is.
    With less than the floor onnxruntime itself would not start."""
    if limit is not None:
        return max(_FLOOR, limit)
    wanted = max(_LEAST, _PER_BYTE * size)
    total = _physical()
    return wanted if total is None else min(wanted, int(total * _SHARE))


def usual_memory(model: Path) -> int:
    """Bytes that the work on a model is likely to take, its worker included."""
    return _USUAL + _USUAL_PER_BYTE * stored_bytes(model)


def processors() -> int:
    """How many this process may use: those it is bound to, and no more than its container's share."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    found = len(os.sched_getaffinity(0))
    for folder in _own_cgroups():
        quota, period = [*_words(folder / "cpu.max"), "max", "max"][:2]
        if quota.isdecimal() and period.isdecimal():
            found = min(found, max(1, round(int(quota) / int(period))))
    return found


def free_memory() -> int | None:
    """Bytes that processes may still take without swapping, here or in this container; None if unknown."""
    found = [size for folder in _own_cgroups() if (size := _left_in(folder)) is not None]
    lines = _lines(Path("/proc/meminfo"))
    found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return max(0, min(found)) if found else _physical()


def _left_in(cgroup: Path) -> int | None:
    """What the limit of a cgroup leaves; the pages of files that it holds are given up when asked for."""
    limit, used = _words(cgroup / "memory.max"), _words(cgroup / "memory.current")
    if not (limit and used and limit[0].isdecimal()):
        return None
    pages = [
        int(line.split()[1]) for line in _lines(cgroup / "memory.stat") if line.startswith("inactive_file")
    ]
    return int(limit[0]) - int(used[0]) + sum(pages)


def _own_cgroups() -> list[Path]:
    """The groups that this process is in, whose limits all hold: version 2 of Linux's control groups."""
    names = [line[3:].lstrip("/") for line in _lines(Path("/proc/self/cgroup")) if line.startswith("0::")]
    own = [_CGROUPS / name for name in names]
    return [folder for each in own for folder in (each, *each.parents) if folder.is_relative_to(_CGROUPS)]


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _is_needed(name: str) -> bool:
    return name in _NEEDED or name.startswith("LC_")


def stored_bytes(model: Path) -> int:
    """The model's bytes with its external data, estimated by the names of the files beside it."""
    try:
        with os.scandir(model.parent) as near:  # names first: there may be a thousand models beside it
            called = [
                file for file in near if file.name.startswith(f"{model.name}.") or file.name.endswith(_DATA)
            ]
        return model.stat().st_size + sum(file.stat().st_size for file in called if file.is_file())
    except OSError:  # gone or unreadable: onnxruntime will say so in its own words
        return 0


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def note(process: subprocess.Popen[bytes]) -> None:
    """Know a process, the first of a group of its own, so that whoever ends the run can end it."""
    _living.add(process)
    if _ending.is_set():
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it with everything that it started, also where it is done itself, and wait for it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()
    _living.discard(process)


@contextlib.contextmanager
def ended_children() -> Iterator[None]:
    """No child goes on or is started: the threads that wait for one get their answer at once."""
    _ending.set()
    try:
        for process in list(_living):
            end(process)
        yield
    finally:
        _ending.clear()


class Died(Exception):
    """The child ended before it answered."""

    def __init__(self, kind: Death, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def said(self, culprit: str) -> str:
        """What happened, in words; a crash is put down to the library that ran."""
        return f"{culprit} {self.message}" if self.kind == "crash" else f"it {self.message}"


class Child:
    """A process that answers requests: started when needed, replaced when it dies, cleaned up after.

    `entry` is the module whose `main` it runs, `packages` a folder of packages in place of ours. Not for
    several threads at once."""

    def __init__(self, entry: str, *, repeatable: bool = False, packages: Path | None = None) -> None:
        self.entry = entry
        self.repeatable = repeatable
        self.packages = packages
        self.temp: Path | None = None  # also its working folder
        self._process: subprocess.Popen[bytes] | None = None
        self._setup: tuple[object, ...] = ()  # what the process was started for
        self._expired = False

    @property
    def pid(self) -> int | None:
        """The process id while there is a process."""
        return None if self._process is None else self._process.pid

    def ask(self, request: dict[str, Any], *, memory: int, seconds: float) -> dict[str, Any]:
        """Return the answer of a process that has loaded the request's libraries and no others: foreign code
        may do anything to the process it is loaded into. `Died` where it ended instead."""
        setup = (memory, request.get("libraries"))
        process = self._process
        if process is None or process.poll() is not None or self._setup != setup:
            self.stop()
            self._process = process = self._start(memory)
            self._setup = setup
        timer = threading.Timer(seconds, self._expire, [process])
        timer.daemon = True
        timer.start()
        try:
            line = _exchange(process, json.dumps(request).encode("ascii") + b"\n")
            if not line.endswith(b"\n"):
                raise self._death(process.wait(), seconds)
            answer: dict[str, Any] = json.loads(line)
            return answer
        except BaseException:  # dead, or interrupted halfway: the next answer would belong to this question
            self.stop()
            raise
        finally:
            timer.cancel()

    def stop(self) -> None:
        """Kill it if need be, wait for it, and close our ends: no zombie, no open file stays."""
        process, self._process = self._process, None
        if process is not None:
            end(process)
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # an unsent request can't be flushed any more
                    cast("IO[bytes]", pipe).close()

    def close(self) -> None:
        self.stop()
        if self.temp is not None:
            shutil.rmtree(self.temp, ignore_errors=True)
            self.temp = None

    def folder(self) -> Path:
        """Make a folder to exchange files with the process."""
        return Path(tempfile.mkdtemp(dir=self._home()))

    def _home(self) -> Path:
        if self.temp is None:
            self.temp = new_folder()
        return self.temp

    def _start(self, memory: int) -> subprocess.Popen[bytes]:
        self._expired = False
        home = self._home()
        with (home / _STDERR).open("wb") as stderr:
            process = subprocess.Popen(
                command(self.entry, memory, repeatable=self.repeatable, packages=self.packages),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=home,
                env=environment(os.environ),
                start_new_session=True,  # its own group, so that a kill reaches all of it
            )
        note(process)
        return process

    def _expire(self, process: subprocess.Popen[bytes]) -> None:
        self._expired = True
        end(process)

    def _death(self, code: int, seconds: float) -> Died:
        if self._expired:
            return Died("timeout", f"did not finish within {seconds:.3g} s")
        words = (self._home() / _STDERR).read_bytes()[-_TAIL:].decode("utf-8", "replace")
        if "bad_alloc" in words or "MemoryError" in words:
            return Died("memory", "needs more memory than the limit allows")
        last = clean(words.strip().splitlines()[-1]) if words.strip() else ""
        return Died("crash", f"crashed ({way_of_ending(code)})" + (f": {last}" if last else ""))


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    with contextlib.suppress(OSError):  # it died earlier: reading tells the same
        stdin.write(request)
        stdin.flush()
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(stdout, select.POLLIN)
        while not waiting.poll(200):  # in short turns: a signal that another thread got is seen between two
            pass
    return stdout.readline()


def way_of_ending(code: int) -> str:
    """A signal by its name, or an exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class Pool:
    """Any number of threads may ask; each has a child to itself while it waits for the answer."""

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self._idle: list[Child] = []
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._idle.clear)  # they are our parent's

    def ask(
        self, request: dict[str, Any], *, memory: int, seconds: float, last: bool = False
    ) -> dict[str, Any]:
        """The answer; `Died` where the child ended instead. After a `last` request it is not used again:
        what a large model leaves behind in it would count against the next one."""
        child = self._idle.pop() if self._idle else Child(self.entry, repeatable=True)
        try:
            return child.ask(request, memory=memory, seconds=seconds)
        finally:
            if last:
                child.stop()
            self._idle.append(child)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


@contextlib.contextmanager
def no_strays() -> Iterator[None]:
    """End every process that is started meanwhile and left, also one that made itself a session of its own.
    Not for a process in which other threads start some as well."""
    if sys.platform != "linux":
        yield
        return
    _prctl(_SET_CHILD_SUBREAPER, 1)  # an orphan becomes a child of ours, not of init
    before = _children()
    try:
        yield
    finally:
        while strays := _children() - before:
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        _prctl(_SET_CHILD_SUBREAPER, 0)


def keep_private() -> None:
    """Let no other process of the same user read our memory or our first environment."""
    if sys.platform == "linux":
        _prctl(_SET_DUMPABLE, 0)


def end_with_parent(parent: int) -> None:
    """Have SIGTERM sent to this process when the one that started it, with this id, is gone."""
    if sys.platform == "linux":
        _prctl(_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was faster
            sys.exit(143)


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread is gone, or the kernel does not tell
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _prctl(option: int, value: int) -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
