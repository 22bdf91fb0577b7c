"""Our own work on a stranger's model, in forked processes: each task has a bound on time and memory.

A call into C code can't be interrupted, and memory has no bound but that of a process; so what goes on too
long, or takes too much, is ended with its process, and another one goes on with the next task.
"""

from __future__ import annotations

import contextlib
import math
import os
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
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from onnx_ci.sandbox.process import no_strays, way_of_ending
from onnx_ci.sandbox.server import read_ahead
from onnx_ci.util.files import new_folder, use_folder

T = TypeVar("T")
Say = Callable[[str], None]
# The number of a task, and what is being done: nothing where it goes on, None where it has ended.
Heard = Callable[[int, str | None], None]
Work = Callable[[int, Say], T]
Start = Callable[[], AbstractContextManager[Work[T]]]

_is_fork = False
_LOOK_SECONDS = 0.1  # how often time and memory are looked at
_SOON = 0.001  # seconds; 0 would be never
_GRACE_SECONDS = 2.0  # to clean up after a first signal
_STOPPING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}


@dataclass(frozen=True)
class Bound:
    """What one task may take: seconds by the clock, and bytes of memory; and what it is likely to take."""

    seconds: float
    memory: int
    likely: float = 0  # bytes of memory; infinite for what has to run alone


@dataclass(frozen=True)
class Stopped:
    """A task that has no result: it ran out of `seconds` or `memory`, or its process crashed."""

    why: Literal["seconds", "memory", "crash"]
    how: str = ""  # of a crash: the signal or exit code


class OutOfTime(BaseException):
    """The moment has come at which work is to end, so that what it found can still be told."""


@contextlib.contextmanager
def interrupted_at(moment: float) -> Iterator[None]:
    """Raise OutOfTime at a moment of the monotonic clock; only in a process that does tasks, which would be
    ended soon after. Whatever is being done then is not finished."""
    if not _is_fork or math.isinf(moment):
        yield
        return

    def ring(*_: object) -> None:
        raise OutOfTime

    began, outer = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)[0]
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(moment - began, _SOON))
    try:
        yield
    finally:
        left = outer and max(outer - (time.monotonic() - began), _SOON)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)


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


@no_strays()
def run_tasks(
    bounds: Sequence[Bound],
    start: Start[T],
    *,
    jobs: int = 1,
    room: float = math.inf,
    heard: Heard = lambda *_: None,
) -> list[T | Stopped]:
    """Do task 0, 1, … in up to `jobs` processes. Each enters `start` once and calls what it gives for its
    tasks. A task waits until what it is likely to take fits into `room` bytes beside the others', or there
    is no other; where there are several processes, the largest come first.

    What a task says is passed on to `heard`, which is told as well that it goes on, and that it has ended;
    what it raises is raised here.
    """
    results: dict[int, T | Stopped] = {}
    waiting = list(range(len(bounds)))
    if jobs > 1:
        waiting.sort(key=lambda number: -bounds[number].likely)
    forks: list[_Fork[T]] = []
    try:
        while waiting or forks:
            while (number := _next(waiting, bounds, forks, room)) is not None:
                fork = next((fork for fork in forks if fork.task is None), None)
                if fork is None and len(forks) == jobs:
                    break
                if fork is None:
                    fork = _Fork(start, forks, results)
                    forks.append(fork)
                waiting.remove(number)
                fork.give(number, bounds[number])
            for idle in [fork for fork in forks if fork.task is None]:
                forks.remove(idle)
                idle.end()
            ready = wait([fork.answers for fork in forks], _LOOK_SECONDS)
            for fork in forks:
                fork.attend(heard, said=fork.answers in ready)
            forks = [fork for fork in forks if not fork.dead]
    finally:
        for fork in forks:
            fork.kill()
    return [results[number] for number in range(len(bounds))]


def _next(
    waiting: Sequence[int], bounds: Sequence[Bound], forks: Sequence[_Fork[T]], room: float
) -> int | None:
    """The first task that may start now."""
    taken = [fork.bound.likely for fork in forks if fork.task is not None]
    fitting = (number for number in waiting if not taken or sum(taken) + bounds[number].likely < room)
    return next(fitting, None)


class _Fork(Generic[T]):
    """One process that does tasks, seen from the one that forked it."""

    def __init__(self, start: Start[T], others: Sequence[_Fork[T]], results: dict[int, T | Stopped]) -> None:
        self.results = results
        self.task: int | None = None
        self.dead = False
        self.temp = new_folder()
        theirs, self._tasks = Pipe(duplex=False)
        self.answers, channel = Pipe(duplex=False)
        ours = [self._tasks, self.answers, *(o._tasks for o in others), *(o.answers for o in others)]
        # A signal must find either the parent's handlers or the child's, never the one with the other's.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)

        def work() -> None:
            for end in ours:
                end.close()
            _serve(theirs, channel, start, self.temp, mask)

        self._process = get_context("fork").Process(target=work)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's own, made for this
                self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        channel.close()

    def give(self, number: int, bound: Bound) -> None:
        self.task, self.bound = number, bound
        self.deadline = time.monotonic() + bound.seconds
        with contextlib.suppress(OSError):  # it is dead: listening tells the same
            self._tasks.send(number)

    def attend(self, heard: Heard, *, said: bool) -> None:
        """Hear what it says, if it `said` something, and see that it keeps to its bounds."""
        task = self.task
        if said:
            self.listen(heard)
        self.check_bound()
        if task is not None:
            heard(task, "" if self.task == task else None)

    def listen(self, heard: Heard) -> None:
        try:
            kind, *what = self.answers.recv()
        except (EOFError, OSError):
            self._reap()
            self._finish(Stopped("crash", way_of_ending(self._process.exitcode or 0)))
            return
        if kind == "raised":
            error, trace = what
            raise error from RemoteTraceback(trace)
        if kind == "done":
            self._finish(what[0])
        elif self.task is not None:
            heard(self.task, what[0])

    def check_bound(self) -> None:
        """Stop the task, if there is one, where it takes too much."""
        if self.task is None:
            return
        if time.monotonic() > self.deadline:
            self.kill()
            self._finish(Stopped("seconds"))
        elif _memory_of(self._process.pid) > self.bound.memory:
            self.kill()
            self._finish(Stopped("memory"))

    def _finish(self, result: T | Stopped) -> None:
        if self.task is not None:
            self.results[self.task], self.task = result, None

    def end(self) -> None:
        """Let it clean up and end: it has nothing more to do."""
        with contextlib.suppress(OSError):
            self._tasks.send(None)
        self._reap()

    def kill(self) -> None:
        """First so that it can clean up, then for good."""
        self._process.terminate()
        self._reap()

    def _reap(self) -> None:
        """Wait for its end, not for long; nothing of it stays."""
        self.dead = True
        self._process.join(_GRACE_SECONDS)
        self._process.kill()
        self._process.join()
        self._tasks.close()
        self.answers.close()
        shutil.rmtree(self.temp, ignore_errors=True)


def _memory_of(pid: int | None) -> int:
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    code = 0
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with start() as work:
            waiting = read_ahead(iter(tasks.recv, object()))
            for number in iter(waiting.get, None):
                channel.send(_answer(work, number, lambda doing: channel.send(("say", doing))))
    except KeyboardInterrupt:
        code = 130
    except SystemExit:
        code = 143
    except BaseException:  # noqa: BLE001 - a fork must not go on with what its parent does
        code = 70
    finally:
        os._exit(code)


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
