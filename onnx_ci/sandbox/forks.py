"""Our own work on a stranger's model, in forked processes: each task has a bound on time and memory.

A call into C code can't be interrupted, and memory has no bound but that of a process; so what goes on too
long, or takes too much, is ended with its process, and another one goes on with the next task.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast

from onnx_ci.sandbox.process import no_strays
from onnx_ci.util.files import new_folder, use_folder

T = TypeVar("T")
Say = Callable[[str], None]
Work = Callable[[int, Say], T]
Start = Callable[[], AbstractContextManager[Work[T]]]

_is_fork = False
_LOOK_SECONDS = 0.1  # how often time and memory are looked at
_GRACE_SECONDS = 2.0  # to clean up after a first signal
_STOPPING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}


@dataclass(frozen=True)
class Bound:
    """What one task may take: seconds by the clock, and bytes of memory."""

    seconds: float
    memory: int


@dataclass(frozen=True)
class Stopped:
    """A task that has no result: it ran out of `seconds` or `memory`, or its process crashed."""

    why: Literal["seconds", "memory", "crash"]
    how: str = ""  # of a crash: the signal or exit code


class RemoteTraceback(Exception):
    """Where an exception came from, in the process that raised it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def in_a_fork() -> bool:
    """Whether this is a process that does tasks."""
    return _is_fork


def can_fork() -> bool:
    """Forking is safe on Linux, and only while no other thread may hold a lock."""
    return sys.platform == "linux" and threading.active_count() == 1


def run_tasks(
    bounds: Sequence[Bound],
    start: Start[T],
    *,
    jobs: int = 1,
    heard: Callable[[int, str], None] = lambda *_: None,
) -> list[T | Stopped]:
    """Do task 0, 1, … in `jobs` processes. Each enters `start` once and calls what it gives for its tasks.

    What a task says is passed on to `heard`; what it raises is raised here.
    """
    with no_strays():
        return _run_tasks(bounds, start, jobs, heard)


def _run_tasks(
    bounds: Sequence[Bound], start: Start[T], jobs: int, heard: Callable[[int, str], None]
) -> list[T | Stopped]:
    results: dict[int, T | Stopped] = {}
    waiting = list(range(len(bounds)))[::-1]
    forks: list[_Fork[T]] = []
    try:
        while waiting or forks:
            while waiting and len(forks) < jobs:
                forks.append(_Fork(start, forks))
            for fork in forks:
                if fork.task is None and waiting:
                    number = waiting.pop()
                    fork.give(number, bounds[number])
            for idle in [fork for fork in forks if fork.task is None]:
                forks.remove(idle)
                idle.end()
            ready = wait([fork.answers for fork in forks], _LOOK_SECONDS)
            for fork in forks:
                result = fork.listen(heard) if fork.answers in ready else None
                result = result or fork.looked_at()
                if result is not None and fork.task is not None:
                    results[fork.task], fork.task = result[0], None
            for ended in [fork for fork in forks if fork.dead]:
                forks.remove(ended)
    finally:
        for fork in forks:
            fork.kill()
    return [results[number] for number in range(len(bounds))]


class _Fork(Generic[T]):
    """One process that does tasks, seen from the one that forked it."""

    def __init__(self, start: Start[T], others: Sequence[_Fork[T]]) -> None:
        self.task: int | None = None
        self.dead = False
        self.pid = -1
        self.temp = new_folder()
        theirs, self._tasks = Pipe(duplex=False)
        self.answers, channel = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal must find either the parent's handlers or the child's, never the one with the other's.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's own, made for this
                self.pid = os.fork()
        finally:
            if self.pid:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if self.pid == 0:
            for end in [self._tasks, self.answers, *(o._tasks for o in others), *(o.answers for o in others)]:
                end.close()
            _serve(theirs, channel, start, self.temp, mask)
        theirs.close()
        channel.close()

    def give(self, number: int, bound: Bound) -> None:
        self.task, self.bound = number, bound
        self.deadline = time.monotonic() + bound.seconds
        with contextlib.suppress(OSError):  # it is dead: listening tells the same
            self._tasks.send(number)

    def listen(self, heard: Callable[[int, str], None]) -> tuple[T | Stopped] | None:
        try:
            kind, *what = self.answers.recv()
        except (EOFError, OSError):
            return self._crashed()
        if kind == "say" and self.task is not None:
            heard(self.task, what[0])
            return None
        if kind == "raised":
            error, trace = what
            raise error from RemoteTraceback(trace)
        return (what[0],)

    def looked_at(self) -> tuple[Stopped] | None:
        """Whether the task has to be stopped."""
        why: Literal["seconds", "memory"]
        if time.monotonic() > self.deadline:
            why = "seconds"
        elif _memory_of(self.pid) > self.bound.memory:
            why = "memory"
        else:
            return None
        self.kill()
        return (Stopped(why),)

    def end(self) -> None:
        """Let it clean up and end: it has nothing more to do."""
        with contextlib.suppress(OSError):
            self._tasks.send(None)
        self._reap()

    def kill(self) -> None:
        """First so that it can clean up, then for good."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self._reap()

    def _crashed(self) -> tuple[Stopped]:
        code = os.waitstatus_to_exitcode(self._reap())
        return (Stopped("crash", signal.Signals(-code).name if code < 0 else f"exit code {code}"),)

    def _reap(self) -> int:
        """Wait for its end, not for long; nothing of it stays."""
        self.dead = True
        until = time.monotonic() + _GRACE_SECONDS
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while not pid and time.monotonic() < until:
            time.sleep(0.005)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        self._tasks.close()
        self.answers.close()
        shutil.rmtree(self.temp, ignore_errors=True)
        return status


def _memory_of(pid: int) -> int:
    """What a process fills itself, without the pages of files."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):  # it just ended
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _serve(tasks: Connection, channel: Connection, start: Start[T], temp: Path, mask: Iterable[int]) -> None:
    """The forked process: never returns, and runs nothing that its parent meant to run at its own end."""
    global _is_fork
    _is_fork = True
    use_folder(temp)
    signal.signal(signal.SIGTERM, _leave)
    code = 0
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with start() as work:
            for number in _numbers(tasks):
                channel.send(_answer(work, number, lambda doing: channel.send(("say", doing))))
    except KeyboardInterrupt:
        code = 130
    except SystemExit:
        code = 143
    except BaseException:  # noqa: BLE001 - a fork must not go on with what its parent does
        code = 70
    finally:
        os._exit(code)


def _leave(*_: object) -> None:
    raise SystemExit


def _numbers(tasks: Connection) -> Iterator[int]:
    """Tasks, read by a thread of its own: when our parent is gone, we end even in the middle of work."""
    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                waiting.put(tasks.recv())
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return cast("Iterator[int]", iter(waiting.get, None))


def _answer(work: Work[T], number: int, say: Say) -> tuple[Any, ...]:
    import pickle

    try:
        return ("done", work(number, say))
    except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
        trace = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        except Exception:  # noqa: BLE001 - whatever an exception has in it
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return ("raised", error, trace)
