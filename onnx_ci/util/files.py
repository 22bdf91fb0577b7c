"""Atomic writes, scratch folders that go with their process, the user's own folders, and kept tracebacks."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.util.text import TEMPORARY_SUFFIX


def cache_home() -> Path:
    """`ONNX_CI_CACHE` if that is a folder, or the user's own cache folder."""
    given = os.environ.get("ONNX_CI_CACHE")
    if given and not cache_url():
        return Path(given).absolute()
    return _own_folder("XDG_CACHE_HOME", ".cache")


def cache_url() -> str:
    """`ONNX_CI_CACHE` if that is the URL of a store which others use as well; else nothing."""
    given = os.environ.get("ONNX_CI_CACHE", "")
    return given.rstrip("/") if "://" in given else ""


def state_home() -> Path:
    """The user's own folder for what is not to be lost with a cache."""
    return _own_folder("XDG_STATE_HOME", ".local/state")


def _own_folder(variable: str, usual: str) -> Path:
    parent = Path(os.environ.get(variable, ""))
    if not parent.is_absolute():
        parent = Path.home() / usual
    return parent / "onnx-ci"


def originals_home() -> Path:
    """`ONNX_CI_ORIGINALS`, or a folder of the user's: for what models were, where there is no git."""
    given = os.environ.get("ONNX_CI_ORIGINALS")
    return Path(given).absolute() if given else state_home() / "originals"


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None  # where there are none, an open file can't be renamed either
_TEMPORARY = re.compile(rf"\.(.+)\.[0-9a-f]{{8}}{re.escape(TEMPORARY_SUFFIX)}")
_RUN = "onnx-ci-run-"
_one_at_a_time = threading.Lock()


class HeldFolder:
    """A new folder, locked until it is removed or this process ends."""

    def __init__(self, parent: Path, prefix: str) -> None:
        self.process = os.getpid()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
            if not LOCKS:
                return
            try:
                self._handle = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:  # another run took it for left behind, before it was locked
                continue
            if _hold(self.path, self._handle):
                return
            os.close(self._handle)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if LOCKS:
            os.close(self._handle)


class _Run:
    """The one folder that all scratch folders of this process are in."""

    def __init__(self) -> None:
        self.folder: HeldFolder | None = None

    def home(self) -> Path:
        with _one_at_a_time:
            folder = self.folder
            if folder is None or folder.process != os.getpid() or not folder.path.is_dir():
                parent = Path(tempfile.gettempdir())
                sweep_folders(parent, _RUN)
                folder = self.folder = HeldFolder(parent, _RUN)
            return folder.path

    def leave(self) -> None:
        if self.folder is not None and self.folder.process == os.getpid():
            self.folder.remove()
            self.folder = None


_run = _Run()
atexit.register(_run.leave)


_outside = ""  # of a process that has a temporary folder of its own: the one that stays when it ends


def use_folder(folder: Path) -> None:
    """Put temporary files of this process, which was forked, into a folder that goes with it."""
    global _outside
    _outside, tempfile.tempdir = lasting_folder(), str(folder)


def lasting_folder() -> str:
    """Where temporary files stay when this process ends."""
    return _outside or tempfile.gettempdir()


def new_folder() -> Path:
    """A scratch folder; it goes with this process if it was not removed before."""
    return Path(tempfile.mkdtemp(dir=_run.home()))


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A scratch folder for as long as it is needed."""
    folder = new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def temporary_name(final: Path) -> Path:
    """What a file is called until it is whole."""
    return final.with_name(f".{final.name}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")


def create(path: Path, mode: int = 0o666) -> int:
    """A new file, open for writing and locked for as long as it, or a duplicate of it, is open."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        if _hold(path, handle):
            return handle
        os.close(handle)


def sweep_folders(parent: Path, prefix: str) -> None:
    """Remove folders that dead runs of ours left."""
    for name in _names_in(parent):
        path = parent / name
        handle = _take(path) if name.startswith(prefix) else None
        if handle is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(handle)


def make_folder(
    folder: Path, prefix: str, fill: Callable[[Path], None], is_whole: Callable[[Path], bool] = Path.is_dir
) -> None:
    """Fill a folder aside and put it in place in one step. Of two who make it at once, one wins."""
    if is_whole(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep_folders(folder.parent, prefix)
    scratch = HeldFolder(folder.parent, prefix)
    try:
        new = scratch.path / "new"
        new.mkdir()
        fill(new)
        if not is_whole(folder):  # where it is, another was faster: theirs is as good
            shutil.rmtree(folder, ignore_errors=True)
            new.rename(folder)
    except OSError:
        if not is_whole(folder):
            raise
    finally:
        scratch.remove()


def sweep_files(folder: Path, is_needed: Callable[[Path], bool], *, of: str = "") -> None:
    """Remove files that dead runs of ours left on their way to their names, or only to the name `of`."""
    for name in _names_in(folder):
        temporary = _TEMPORARY.fullmatch(name)
        if temporary and of in ("", temporary[1]):
            remove_dead(folder / name, is_needed)


def remove_dead(file: Path, is_needed: Callable[[Path], bool] = lambda _: False) -> None:
    """Remove a file of ours that nobody writes to any more."""
    handle = _take(file)
    if handle is None:
        return
    with contextlib.suppress(OSError):
        if file.is_file() and not is_needed(file):
            file.unlink(missing_ok=True)
    os.close(handle)


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _take(path: Path) -> int | None:
    """The lock of something that belongs to this user, if nobody holds it."""
    if fcntl is None:
        return None
    try:
        if path.lstat().st_uid != os.geteuid():
            return None
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, handle):
            return handle
    os.close(handle)
    return None


def _hold(path: Path, handle: int) -> bool:
    """Lock what was just made. It is gone if another run looked in between and took it for left behind."""
    if fcntl is None:
        return True
    with contextlib.suppress(OSError):  # no locks here: then nobody else gets one either
        fcntl.flock(handle, fcntl.LOCK_EX)
    return _is_at(path, handle)


def _is_at(path: Path, handle: int) -> bool:
    """Whether a name still stands for an open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def atomic_write(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """A path to write to; what is there takes the given name when all went well, and is gone if not."""
    temporary, lock = temporary_name(path), contextlib.ExitStack()
    try:
        sweep_files(path.parent, lambda _: False, of=path.name)
        lock.callback(os.close, create(temporary, mode))
        if not LOCKS:
            lock.close()
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise EnvironmentFault(f"{path} could not be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
        lock.close()


def keep_traceback(error: Exception) -> tuple[str, str]:
    """What went wrong, and a hint that names the file with the traceback. A bug of ours is rare, so what this
    takes is loaded here."""
    import traceback

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
    import platform

    names = ("onnx-ci", "onnx", "onnxruntime", "numpy")
    packages = [f"{name} {package_version(name) or 'not installed'}" for name in names]
    return ", ".join([f"Python {platform.python_version()}", platform.system(), *packages])


def package_version(name: str) -> str:
    """The version of an installed package; nothing where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""
