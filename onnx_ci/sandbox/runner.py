"""Run models in a worker process that may crash, hang or exhaust its memory without harming us."""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from onnx_ci.errors import EnvironmentFault, ModelError
from onnx_ci.policy.schema import Limits
from onnx_ci.results import Latency, Work
from onnx_ci.sandbox.exchange import Array, Value, read_samples, write_samples
from onnx_ci.sandbox.process import Child, Died, memory_for, processors, stored_bytes
from onnx_ci.sandbox.timing import latency_of
from onnx_ci.sandbox.versions import NO_LIBRARIES, Libraries, is_installed, packages_of, version_in
from onnx_ci.util.advice import to_run
from onnx_ci.util.text import clean

WORKER = "onnx_ci.sandbox.worker"
Feeds = Mapping[str, Value]
FailureKind = Literal["error", "crash", "timeout", "memory"]  # "error": onnxruntime said no
Stage = Literal["library", "load", "run"]
_MODEST = 1 << 28  # bytes of a model: writing its graph takes next to nothing
_METERED = ("loads", "runs", "loading", "running")  # what the worker says of its work


class RunFailed(ModelError):
    """A model could not be run. At the stage "load" no input would have helped; at the stage "library" a
    library of operators is to blame. `status` is what onnxruntime calls the error: "InvalidGraph"…"""

    def __init__(self, kind: FailureKind, message: str, *, stage: Stage = "run", status: str = "") -> None:
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


class Meter:
    """How much work was done for one model, and how long it took; see `Work`."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)

    def add(self, answer: Mapping[str, Any]) -> None:
        for name in _METERED:
            self.spent[name] += answer.get(name, 0)

    @contextmanager
    def timing(self, what: Literal["comparing", "planning"]) -> Iterator[None]:
        """Count the time that is spent here, but for loading and running."""
        before, began = self._busy, time.perf_counter()
        try:
            yield
        finally:
            self.spent[what] += time.perf_counter() - began - (self._busy - before)

    @property
    def _busy(self) -> float:
        spent = self.spent
        return spent["loading"] + spent["running"] + spent["comparing"]

    @property
    def work(self) -> Work:
        spent = self.spent
        seconds = {name: round(spent[name], 3) for name in ("loading", "running", "comparing", "planning")}
        return Work(loads=int(spent["loads"]), runs=int(spent["runs"]), **seconds)


class Runner:
    """Run models in a worker of its own, under the settings it was made with. A context manager; not for
    several threads at once."""

    def __init__(
        self, packages: Path | None = None, *, optimize: bool = True, libraries: Libraries = NO_LIBRARIES
    ) -> None:
        """`packages` is a folder with another onnxruntime than ours; `optimize` is for default optimizations
        or none at all."""
        self.host = Child(WORKER, packages=packages)
        self.optimize = optimize
        self.libraries = libraries
        self.threads = processors()
        self.meter = Meter()
        self._others: dict[str, Runner] = {}
        self._graphs: dict[tuple[object, ...], Path] = {}  # as onnxruntime runs them, of models by version

    def __enter__(self) -> Runner:
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

    def using(
        self,
        *,
        optimize: bool | None = None,
        libraries: Libraries | None = None,
        threads: int | None = None,
    ) -> Runner:
        """Return a runner with the same worker and other settings."""
        other = copy(self)
        if optimize is not None:
            other.optimize = optimize
        if libraries is not None:
            other.libraries = libraries
        if threads is not None:
            other.threads = threads
        return other

    @property
    def version(self) -> str:
        """Of its onnxruntime."""
        return version_in(self.host.packages)

    def of_version(self, wanted: str) -> Runner | None:
        """Return one with this onnxruntime and our settings, closed with us; None where we are that."""
        if is_installed(wanted):
            return None
        if wanted not in self._others:
            self._others[wanted] = self._counted(Runner(packages_of(wanted)))
        return self._like(self._others[wanted])

    def apart(self) -> Runner:
        """Return one with our settings and a process that has done nothing yet; to be closed by itself."""
        return self._like(self._counted(Runner(self.host.packages)))

    def _like(self, other: Runner) -> Runner:
        return other.using(optimize=self.optimize, libraries=self.libraries, threads=self.threads)

    def _counted(self, other: Runner) -> Runner:
        other.meter = self.meter
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
        keep: bool = False,
        may_fail: int = 0,
    ) -> list[dict[str, Array]]:
        """Return the outputs by name, one dict a sample; of the last samples, so many may fail and are left
        out. Feeds named in `spare` go to models that ask for them. `seed` is what random nodes without one
        begin with. Each call is a session of its own, unless it may be one that was kept for this path."""
        settings: dict[str, object] = {"seed": seed, "other_threads": other_threads}
        if keep and self.optimize and stored_bytes(model) <= _MODEST:
            settings["graph"] = str(self._graph_of(model))
        with self._feeding(feeds, spare) as given:
            self.ask("run", [model], limits, keep=keep, may_fail=may_fail, **settings, **given)
            return read_samples(Path(given["outputs"]))

    def draw(
        self,
        model: Path,
        feeds: Sequence[Feeds],
        *,
        runs: int,
        limits: Limits,
        spare: Collection[str] = (),
        seed: int = 0,
    ) -> tuple[list[dict[str, Array]], Mapping[str, str]]:
        """Run each sample many times in one session. Return means and draws of outputs, and which outputs
        were left out, with the reason. Random nodes without a seed begin with `seed` and draw on."""
        with self._feeding(feeds, spare) as given:
            answer = self.ask("draw", [model], limits, runs=runs, seed=seed, **given)
            return read_samples(Path(given["outputs"])), answer["left_out"]

    def moments(
        self,
        model: Path,
        feeds: Sequence[Feeds],
        weights: Sequence[Mapping[str, Any]],
        target: Path,
        *,
        limits: Limits,
        spare: Collection[str] = (),
    ) -> tuple[list[int], float]:
        """Write second moments of outputs as files to `target`; which of the weights there are some for, and
        how many numbers a run multiplies with weights."""
        with self._feeding(feeds, spare) as given:
            request = {**given, "weights": list(weights), "outputs": str(target)}
            answer = self.ask("moments", [model], limits, threads=1, **request)
            return answer["numbers"], answer["products"]

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
        """Time both on the first sample, in turns; longer where it is not plain whether `limit` is kept."""
        with self._feeding(feeds[:1], spare) as given:
            request = {"limit": limit, "threads": processors(), **given}
            before, after = self.ask("time", [a, b], limits, **request)["times"]
        return latency_of(before, after)

    def load(self, model: Path, *, limits: Limits) -> Load:
        """Measure what loading takes. Only the first answer of a runner means something."""
        answer = self.ask("load", [model], limits, threads=processors())
        return Load(answer["seconds"], answer["memory"])

    def operators(self) -> set[tuple[str, str]]:
        """Return domain and name of all operators that this onnxruntime knows. Not every build can say."""
        answer = self.ask("operators", [], Limits())
        return {(domain, name) for domain, name in answer["operators"]}

    def optimized(self, model: Path, *, limits: Limits) -> Path:
        """Return a file with the model as onnxruntime runs it, but for the values of its tensors: written
        when its session was loaded, if that was kept."""
        graph = self._graph_of(model)
        if not graph.exists():
            self.ask("optimize", [model], limits, graph=str(graph))
        return graph

    def _graph_of(self, model: Path) -> Path:
        found = model.stat()
        version = os.path.abspath(model), found.st_size, found.st_mtime_ns  # noqa: PTH100
        if version not in self._graphs:
            self._graphs[version] = self.folder() / "optimized.onnx"
        return self._graphs[version]

    def ask(self, job: str, models: Sequence[Path], limits: Limits, **more: Any) -> dict[str, Any]:
        """Return the worker's answer to one request."""
        paths = [os.path.abspath(path) for path in models]  # noqa: PTH100 - a symlink stays what it is
        try:
            libraries = [str(path) for path in self.libraries.found()]
        except ValueError as error:
            raise RunFailed("error", str(error), stage="library") from None
        settings = {"optimize": self.optimize, "libraries": libraries, "threads": self.threads}
        size = sum(map(stored_bytes, models))
        request = {"job": job, "models": paths, "bytes": size, **settings, **more}
        try:
            answer = self.host.ask(request, memory=memory_for(size, limits.memory), seconds=limits.seconds)
        except Died as death:
            raise RunFailed(cast(FailureKind, death.kind), death.said("onnxruntime")) from None
        if answer["kind"] != "ok":
            self._refuse(answer)
        self.meter.add(answer)
        return answer

    def folder(self) -> Path:
        """Make a folder to exchange files with the worker; it goes with the runner at the latest."""
        return self.host.folder()

    @contextmanager
    def _feeding(self, feeds: Sequence[Feeds], spare: Collection[str]) -> Iterator[dict[str, Any]]:
        """Write feeds for one request, and give the part of the request that says where they are."""
        folder = self.folder()
        try:
            write_feeds(folder / "feeds", feeds)
            yield {
                "feeds": str(folder / "feeds"),
                "outputs": str(folder / "outputs"),
                "spare": sorted(spare),
            }
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _refuse(self, answer: dict[str, Any]) -> None:
        message = clean(answer["message"])
        if answer["kind"] == "environment":
            self.host.stop()
            apart = self.host.packages
            upgrade = to_run("pip install --upgrade onnxruntime")
            hint = f"remove {apart}: it is made anew" if apart else upgrade
            raise EnvironmentFault(message, hint=hint)
        if answer["kind"] == "memory":
            self.host.stop()  # what is left of it is fragmented
            message = f"it needs more memory than the limit allows ({message})"
        if answer["stage"] == "library":
            message = f"its library of operators can't be loaded: {message}"
        raise RunFailed(answer["kind"], message, stage=answer["stage"], status=answer.get("status", ""))


def write_feeds(folder: Path, feeds: Sequence[Feeds]) -> None:
    try:
        write_samples(folder, feeds)
    except OSError as error:
        raise EnvironmentFault(
            f"the temporary folder {folder.parent.parent} can't be written: {error.strerror}",
            hint="free some space, or set TMPDIR to a folder that has it",
        ) from None
