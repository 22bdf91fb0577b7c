"""Runs models in a worker process that may crash, hang or exhaust its memory without harming us."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.process import Died, memory_for
from onnx_ci.shown import Latency
from onnx_ci.util.text import clean
from onnx_ci.verify.dtypes import Array
from onnx_ci.verify.environments import is_installed, packages_of, version_in
from onnx_ci.verify.exchange import Value, read_samples, write_samples
from onnx_ci.verify.host import Host
from onnx_ci.verify.libraries import NO_LIBRARIES, Libraries
from onnx_ci.verify.timing import ratio_of

if TYPE_CHECKING:
    from typing_extensions import Self

Feeds = Mapping[str, Value]


class RunFailed(ModelError):
    """A model could not be run: `kind` is "error" (onnxruntime said no), "crash", "timeout" or "memory".
    `stage` is "load" where no input whatever would have helped, "library" where a library of operators
    is what is wrong; `status` is what onnxruntime calls the error: "InvalidGraph", "NotImplemented"…"""

    def __init__(self, kind: str, message: str, *, stage: str = "run", status: str = "") -> None:
        super().__init__(message, code="OCI005" if kind == "error" else "OCI013")
        self.kind = kind
        self.stage = stage
        self.status = status


class Unrunnable(ModelError):
    """No inputs run the original; `failure` is the first that was tried."""

    def __init__(self, message: str, *, hint: str, failure: RunFailed) -> None:
        super().__init__(message, hint=hint, code=failure.code)
        self.failure = failure


class Load(NamedTuple):
    """Seconds, and bytes of memory at the worst moment where that can be told."""

    seconds: float
    memory: int | None


class Other(NamedTuple):
    """A runner with another version of onnxruntime."""

    runner: Runner
    version: str


class Runner:
    """Runs models in a worker of its own, under the settings it was made with. Not for several threads
    at once."""

    def __init__(self, packages: Path | None = None) -> None:
        """`packages` is a folder with another onnxruntime than ours."""
        self.host = Host(packages)
        self.optimize = True  # with default optimizations, or with none at all
        self.libraries = NO_LIBRARIES
        self._others: dict[str, Runner] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.host.close()
        while self._others:
            self._others.popitem()[1].close()

    @property
    def pid(self) -> int | None:
        """The worker's process id while there is one."""
        return self.host.pid

    def using(self, *, optimize: bool | None = None, libraries: Libraries | None = None) -> Self:
        """The same worker under other settings; it goes with the runner it was asked of."""
        other = copy(self)
        other.optimize = self.optimize if optimize is None else optimize
        other.libraries = self.libraries if libraries is None else libraries
        return other

    def of_version(self, wanted: str) -> Other | None:
        """One with this onnxruntime and our settings, made and ended with us; None where we are that."""
        if is_installed(wanted):
            return None
        packages = packages_of(wanted)
        if wanted not in self._others:
            self._others[wanted] = Runner(packages)
        other = self._others[wanted].using(optimize=self.optimize, libraries=self.libraries)
        return Other(other, version_in(packages))

    def apart(self) -> Self:
        """The same settings in a process that has done nothing yet; to be closed by itself."""
        other = copy(self)
        other.host, other._others = Host(self.host.packages), {}
        return other

    def run(
        self,
        model: Path,
        feeds: Sequence[Feeds],
        *,
        limits: Limits,
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
            self.ask("run", [model], limits, **more)
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
            answer = self.ask("time", [a, b], limits, **more)
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

    def optimized(self, model: Path, target: Path, *, limits: Limits) -> None:
        """Write the model as onnxruntime would run it, but for the values of its tensors."""
        self.ask("optimize", [model], limits, target=str(target))

    def operators(self) -> set[tuple[str, str]]:
        """Domain and name of all operators that this onnxruntime knows; a RunFailed where it can't say."""
        answer = self.ask("operators", [], Limits())
        return {(domain, name) for domain, name in answer["operators"]}

    def ask(self, job: str, models: Sequence[Path], limits: Limits, **more: Any) -> dict[str, Any]:
        """The worker's answer to one request."""
        paths = [os.path.abspath(path) for path in models]  # noqa: PTH100 - a symlink stays what it is
        settings = {"optimize": self.optimize, "libraries": self._libraries()}
        request = {"job": job, "models": paths, **settings, **more}
        try:
            answer = self.host.ask(request, memory=memory_for(models, limits.memory), seconds=limits.seconds)
        except Died as death:
            raise RunFailed(death.kind, death.said("onnxruntime")) from None
        if answer["kind"] == "ok":
            return answer
        return self._refuse(answer)

    def _libraries(self) -> list[str]:
        try:
            return [str(path) for path in self.libraries.found()]
        except ValueError as error:
            raise RunFailed("error", str(error), stage="library") from None

    def _refuse(self, answer: dict[str, Any]) -> dict[str, Any]:
        message = clean(answer["message"])
        if answer["kind"] == "environment":
            self.host.stop()
            apart = self.host.packages
            hint = f"remove {apart}: it is made anew" if apart else "run: pip install --upgrade onnxruntime"
            raise EnvironmentFault(message, hint=hint)
        if answer["kind"] == "memory":
            self.host.stop()  # what is left of it is fragmented
            message = f"it needs more memory than the limit allows ({message})"
        if answer["stage"] == "library":
            message = f"its library of operators can't be loaded: {message}"
        raise RunFailed(answer["kind"], message, stage=answer["stage"], status=answer.get("status", ""))

    def folder(self) -> Path:
        """A new folder to exchange files with the worker; it goes with the runner at the latest."""
        return self.host.folder()


def write_feeds(folder: Path, feeds: Sequence[Feeds]) -> None:
    try:
        write_samples(folder, feeds)
    except OSError as error:
        raise EnvironmentFault(
            f"the temporary folder {folder.parent.parent} can't be written: {error.strerror}",
            hint="free some space, or set TMPDIR to a folder that has it",
        ) from None
