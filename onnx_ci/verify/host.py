"""The worker process of a runner: started when needed, replaced when it dies, ended with all it left."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx_ci.sandbox.process import ChildProcess
from onnx_ci.scratch import new_folder

WORKER = "onnx_ci.verify.worker"


class Host:
    """Not for several threads at once. `packages` is a folder with another onnxruntime than ours."""

    def __init__(self, packages: Path | None = None) -> None:
        self.packages = packages
        self.temp: Path | None = None
        self._worker: ChildProcess | None = None
        self._loaded: tuple[str, ...] = ()
        self._numbers = itertools.count()

    @property
    def pid(self) -> int | None:
        """The worker's process id while there is one."""
        return None if self._worker is None else self._worker.pid

    def started(self, memory: int, libraries: Sequence[str] = ()) -> ChildProcess:
        """The worker. One that has loaded other code than these libraries is not used again: what that does
        to a process is its own affair."""
        worker = self._worker
        if worker is not None and (
            worker.memory != memory or not worker.alive or self._loaded != tuple(libraries)
        ):
            self.stop()
        if self._worker is None:
            self._worker = ChildProcess(WORKER, memory, self._home(), packages=self.packages)
            self._loaded = tuple(libraries)
        return self._worker

    def ask(self, request: dict[str, Any], *, memory: int, seconds: float) -> dict[str, Any]:
        worker = self.started(memory, request["libraries"])
        try:
            return worker.ask(request, seconds=seconds)
        except BaseException:  # dead, or interrupted halfway: the next answer would belong to this question
            self.stop()
            raise

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def close(self) -> None:
        self.stop()
        if self.temp is not None:
            shutil.rmtree(self.temp, ignore_errors=True)
            self.temp = None

    def folder(self) -> Path:
        """A new folder to exchange files with the worker."""
        folder = self._home() / str(next(self._numbers))
        folder.mkdir()
        return folder

    def _home(self) -> Path:
        if self.temp is None:
            self.temp = new_folder()
        return self.temp
