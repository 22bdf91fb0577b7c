"""Runs models in a worker process that may crash, hang or exhaust its memory without harming us."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_ci.child.launch import memory_for
from onnx_ci.child.process import ChildProcess, Died
from onnx_ci.child.wording import clean
from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.policy.schema import Limits
from onnx_ci.results import Latency
from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.exchange import Value, read_samples, write_samples
from onnx_ci.verify.timing import ratio_of

if TYPE_CHECKING:
    from typing_extensions import Self

Feeds = Mapping[str, Value]
WORKER = "onnx_ci.verify.worker"


class RunFailed(ModelError):
    """A model could not be run: `kind` is "error" (onnxruntime said no), "crash", "timeout" or "memory".
    `stage` is "load" where no input whatever would have helped."""

    def __init__(self, kind: str, message: str, *, stage: str = "run") -> None:
        super().__init__(message, code="OCI005" if kind == "error" else "OCI013")
        self.kind = kind
        self.stage = stage


class Load(NamedTuple):
    """Seconds, and bytes of memory at the worst moment where that can be told."""

    seconds: float
    memory: int | None


class Runner:
    """A worker, started when first needed and replaced when it dies. Not for several threads at once."""

    def __init__(self) -> None:
        self._worker: ChildProcess | None = None
        self._temp: Path | None = None
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stop()
        if self._temp is not None:
            shutil.rmtree(self._temp, ignore_errors=True)
            self._temp = None

    @property
    def pid(self) -> int | None:
        """The worker's process id while there is one."""
        return None if self._worker is None else self._worker.pid

    def run(
        self,
        model: Path,
        feeds: Sequence[Feeds],
        *,
        limits: Limits,
        optimize: bool = True,
        spare: Collection[str] = (),
        seed: int = 0,
        other_threads: bool = False,
    ) -> list[dict[str, Array]]:
        """The outputs by name, one dict a sample. Feeds named in `spare` go to models that ask for them.
        Each call is a session of its own; `seed` is what random nodes without one begin with."""
        folder = self.folder()
        try:
            write_feeds(folder / "feeds", feeds)
            places = {"feeds": str(folder / "feeds"), "outputs": str(folder / "outputs")}
            more = {"spare": sorted(spare), "seed": seed, "other_threads": other_threads, **places}
            self.ask("run", [model], limits, optimize=optimize, **more)
            return read_samples(folder / "outputs")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def time(
        self,
        a: Path,
        b: Path,
        feeds: Sequence[Feeds],
        *,
        limits: Limits,
        spare: Collection[str] = (),
        limit: float | None = None,
    ) -> Latency:
        """Both on the first sample, in turns; longer where it is not plain whether `limit` is kept."""
        folder = self.folder()
        try:
            write_feeds(folder / "feeds", feeds[:1])
            places = {"feeds": str(folder / "feeds")}
            more = {"spare": sorted(spare), "limit": limit, **places}
            answer = self.ask("time", [a, b], limits, optimize=True, **more)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        before, after = answer["times"]
        ratio = ratio_of(before, after)
        return Latency(
            before=median(before),
            after=median(after),
            ratio=ratio.typical,
            low=ratio.low,
            high=ratio.high,
            rounds=len(before),
        )

    def load(self, model: Path, *, limits: Limits) -> Load:
        """What loading it takes. Only the first answer of a runner means something."""
        answer = self.ask("load", [model], limits)
        return Load(answer["seconds"], answer["memory"])

    def ask(self, job: str, models: Sequence[Path], limits: Limits, **more: Any) -> dict[str, Any]:
        """The worker's answer to one request."""
        paths = [os.path.abspath(path) for path in models]  # noqa: PTH100 - a symlink stays what it is
        worker = self._started(memory_for(models, limits.memory))
        try:
            answer = worker.ask({"job": job, "models": paths, **more}, seconds=limits.seconds)
        except Died as death:
            self._stop()
            raise RunFailed(death.kind, death.said("onnxruntime")) from None
        except BaseException:  # interrupted halfway: the next answer would belong to this question
            self._stop()
            raise
        if answer["kind"] == "ok":
            return answer
        return self._refuse(answer)

    def _refuse(self, answer: dict[str, Any]) -> dict[str, Any]:
        message = clean(answer["message"])
        if answer["kind"] == "environment":
            self._stop()
            raise EnvironmentFault(message, hint="run: pip install --upgrade onnxruntime")
        if answer["kind"] == "memory":
            self._stop()  # what is left of it is fragmented
            message = f"it needs more memory than the limit allows ({message})"
        raise RunFailed(answer["kind"], message, stage=answer["stage"])

    def _started(self, memory: int) -> ChildProcess:
        if self._worker is not None and (self._worker.memory != memory or not self._worker.alive):
            self._stop()
        if self._worker is None:
            self._worker = ChildProcess(WORKER, memory, self._home())
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _home(self) -> Path:
        if self._temp is None:
            self._temp = Path(tempfile.mkdtemp(prefix="onnx-ci-"))
        return self._temp

    def folder(self) -> Path:
        """A new folder to exchange files with the worker; it goes with the runner at the latest."""
        folder = self._home() / str(next(self._numbers))
        folder.mkdir()
        return folder


def write_feeds(folder: Path, feeds: Sequence[Feeds]) -> None:
    try:
        write_samples(folder, feeds)
    except OSError as error:
        raise EnvironmentFault(
            f"the temporary folder {folder.parent.parent} can't be written: {error.strerror}",
            hint="free some space, or set TMPDIR to a folder that has it",
        ) from None
