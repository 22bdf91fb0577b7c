"""Children that are kept for the next request: starting one and its libraries takes longer than most work."""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path
from typing import Any

from onnx_ci.child.process import ChildProcess
from onnx_ci.scratch import new_folder


class Pool:
    """Any number of threads may ask; each has a child to itself while it waits for the answer."""

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self._idle: list[tuple[ChildProcess, Path]] = []
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._idle.clear)  # they are our parent's

    def ask(
        self, request: dict[str, Any], *, memory: int, seconds: float, last: bool = False
    ) -> dict[str, Any]:
        """The answer; `Died` where the child ended instead. After a `last` request it is not used again:
        what a large model leaves behind in it would count against the next one."""
        child, home = self._take(memory)
        kept = False
        try:
            answer = child.ask(request, seconds=seconds)
            kept = not last
        finally:
            if kept:
                self._idle.append((child, home))
            else:
                _end(child, home)
        return answer

    def close(self) -> None:
        while self._idle:
            _end(*self._idle.pop())

    def _take(self, memory: int) -> tuple[ChildProcess, Path]:
        while self._idle:
            child, home = self._idle.pop()
            if child.alive and child.memory == memory:
                return child, home
            _end(child, home)
        home = new_folder()
        return ChildProcess(self.entry, memory, home, repeatable=True), home


def _end(child: ChildProcess, home: Path) -> None:
    child.stop()
    shutil.rmtree(home, ignore_errors=True)
