"""What a stranger's code may leave running, and what it may look at: Linux' own means against both."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36  # of prctl(2)


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
