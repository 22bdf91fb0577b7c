"""One child process: started in a group of its own, asked, timed, killed and reaped."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx_ci.child.launch import command, environment
from onnx_ci.child.wording import clean

_TAIL = 4096  # bytes of its last words that are looked at


_living: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


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
    """The child ended before it answered: "crash", "timeout" or "memory"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def said(self, culprit: str) -> str:
        """What happened, in words; a crash is put down to the library that ran."""
        return f"{culprit} {self.message}" if self.kind == "crash" else f"it {self.message}"


class ChildProcess:
    """Owns the process and its pipes; `entry` is the module whose `main` it runs,
    `home` a private folder, also its working folder, `packages` a folder of packages in place of ours."""

    def __init__(
        self, entry: str, memory: int, home: Path, *, repeatable: bool = False, packages: Path | None = None
    ) -> None:
        self.memory = memory
        self._stderr = home / "stderr.txt"
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                command(entry, memory, repeatable=repeatable, packages=packages),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=home,
                env=environment(os.environ),
                start_new_session=True,  # its own group, so that a kill reaches all of it
            )
        self._expired = False
        note(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            line = self._exchange(json.dumps(request).encode("ascii") + b"\n")
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise self._death(seconds)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Kill it if need be, wait for it, and close our ends: no zombie, no open file stays."""
        end(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # an unsent request can't be flushed any more
                    pipe.close()

    def _exchange(self, request: bytes) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            return b""
        with contextlib.suppress(OSError):  # it died earlier: reading tells the same
            stdin.write(request)
            stdin.flush()
        _await(stdout.fileno())
        return stdout.readline()

    def _expire(self) -> None:
        self._expired = True
        end(self._process)

    def _death(self, seconds: float) -> Died:
        code = self._process.wait()
        if self._expired:
            return Died("timeout", f"did not finish within {seconds:.3g} s")
        words = self._last_words()
        if "bad_alloc" in words or "MemoryError" in words:
            return Died("memory", "needs more memory than the limit allows")
        how = _signal_name(-code) if code < 0 else f"exit code {code}"
        last = clean(words.strip().splitlines()[-1]) if words.strip() else ""
        return Died("crash", f"crashed ({how})" + (f": {last}" if last else ""))

    def _last_words(self) -> str:
        with self._stderr.open("rb") as file:
            file.seek(max(0, self._stderr.stat().st_size - _TAIL))
            return file.read().decode("utf-8", "replace")


def _await(pipe: int) -> None:
    """Wait for an answer in short turns: a signal that another thread got is seen between two of them."""
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        while not waiting.poll(200):
            pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
