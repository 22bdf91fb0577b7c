"""Models judged by the workers of a Dask cluster: sent as values, each judged in a process of its own.

Workers see the repository under the same path. What a worker reads is compared with what this machine read,
and its versions with ours: a verdict about other bytes, or by other code, would be another verdict.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.errors import EnvironmentFault, OnnxCiError
from onnx_ci.gate.cache import makers
from onnx_ci.gate.project import Judging
from onnx_ci.gate.run import Asked, Judged, Progress, judge_each, ran_out
from onnx_ci.inputs.sample_paths import sample_files
from onnx_ci.model.store import file_sha256
from onnx_ci.results import Outcome
from onnx_ci.sandbox.forks import Stopped
from onnx_ci.sandbox.process import command, end_with_parent, way_of_ending

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
ALONE_SECONDS = 60.0  # without any worker, until nobody is waited for any more
SAME = "all workers need the same onnx-ci and the same libraries: pip install the same versions"
SHARED = "all workers need the repository under the same path, as on a shared folder"


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that it takes to judge one model elsewhere."""

    asked: Asked
    contents: dict[str, str]  # files, and their sha256
    made_by: tuple[str, ...]

    @classmethod
    def of(cls, asked: Asked) -> Job:
        how = asked.plan.how
        there = Judging(only_new=how.only_new, cache=how.cache, runtimes=how.runtimes)
        plan = replace(asked.plan, how=there, look=None)
        return cls(asked=replace(asked, plan=plan), contents=contents(asked), made_by=makers())

    def judge(self) -> Judged:
        """On a worker: the same walk as at home, once it is clear that it starts from the same."""
        ours = [
            f"{name!r} instead of {wanted!r}"
            for name, wanted in zip_longest(makers(), self.made_by)
            if name != wanted
        ]
        if ours:
            raise EnvironmentFault(f"worker {_here()} has {', '.join(ours)}", hint=SAME)
        plan = self.asked.plan
        with plan.sources, plan.baseline:
            found = contents(self.asked)
            for name in sorted({*found, *self.contents}):
                if found.get(name) != self.contents.get(name):
                    message = f"worker {_here()} does not see the same {name!r} as where the run was started"
                    raise EnvironmentFault(message, hint=SHARED)
            (outcome,) = judge_each([self.asked], jobs=1)
            return Judged(outcome, plan.seconds.get(self.asked.path, 0.0), tuple(plan.notes))


def contents(asked: Asked) -> dict[str, str]:
    """The files that a verdict is about: the model's own, and the samples of its rule."""
    plan = asked.plan
    files = {str(part.path): part.content for part in plan.sources.of(asked.path).parts}
    with suppress(OSError, ValueError, IndexError):  # what is wrong with samples is told where they are read
        samples = sample_files(asked.rule.inputs.samples, plan.context.folder)
        files |= {str(file): file for file in samples}
    return {name: file_sha256(file) for name, file in files.items() if file and file.is_file()}


def _here() -> str:
    return f"{socket.gethostname()} ({os.getpid()})"


class Cluster:
    """The workers of one scheduler, asked as `judge_each` is."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self, asked: Sequence[Asked], *, progress: Progress) -> Iterator[Outcome]:
        """The outcomes in order. Dask gives the models of a worker that is lost to others."""
        if not asked:
            return
        with self._client() as client:
            futures = {
                client.submit(
                    judge_there,
                    str(each.plan.context.here),
                    pickle.dumps(Job.of(each)),
                    pure=False,
                    priority=min(each.bound.likely, 1e18),  # the largest first
                ): each
                for each in asked
            }
            self._wait(client, futures, progress)
            for future, each in futures.items():
                yield self._outcome(future, each)

    @contextmanager
    def _client(self) -> Iterator[Client]:
        try:
            from distributed import Client
        except ImportError:
            hint = "pip install 'onnx-ci[dask]'"
            raise EnvironmentFault("--executor dask needs the package distributed", hint=hint) from None
        try:
            client = Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            message = f"no Dask scheduler answers at {self.address!r}: {error}"
            raise EnvironmentFault(
                message, hint="start one with `dask scheduler`, and workers with `dask worker ADDRESS`"
            ) from None
        with client:
            yield client

    def _wait(self, client: Client, futures: dict[Future, Asked], progress: Progress) -> None:
        """Until all are done; not for workers that never come."""
        alive = time.monotonic()
        while running := [future for future in futures if not future.done()]:
            done = len(futures) - len(running)
            progress(done, len(futures), futures[running[0]].name, f"on {self.address}")
            time.sleep(0.2)
            if client.scheduler_info()["workers"]:
                alive = time.monotonic()
            elif client.status != "running" or time.monotonic() - alive > ALONE_SECONDS:
                hint = f"start some with `dask worker {self.address}`"
                raise EnvironmentFault(f"the scheduler at {self.address} has no workers", hint=hint)

    def _outcome(self, future: Future, asked: Asked) -> Outcome:
        from distributed import KilledWorker

        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker):
            return ran_out(asked, Stopped("crash", "several workers were lost over it"))
        if isinstance(error, OnnxCiError):
            raise error
        if future.status != "finished":
            message = (
                f"{asked.name}: the workers of {self.address} could not judge it: {error or future.status}"
            )
            raise EnvironmentFault(message, hint=SAME)
        result: Judged | Stopped = future.result()
        return ran_out(asked, result) if isinstance(result, Stopped) else result.noted(asked)


def judge_there(here: str, job: bytes) -> Judged | Stopped:
    """On a worker: a model that crashes ends a process of ours, not the worker."""
    if not Path(here).is_dir():
        raise EnvironmentFault(f"worker {_here()} has no folder {here!r}", hint=SHARED)
    done = subprocess.run(
        command(__name__, os.getpid()), input=job, stdout=subprocess.PIPE, cwd=here, check=False
    )
    if done.returncode:
        return Stopped("crash", way_of_ending(done.returncode))
    kind, result = pickle.loads(done.stdout)  # noqa: S301 - of our own process
    if kind == "raised":
        raise result
    return result  # type: ignore[no-any-return]


def main(parent: int) -> None:
    """The process that judges one model: a Job on standard input, what comes of it on standard output."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end_with_parent(parent)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # native code may print there
    job = pickle.load(sys.stdin.buffer)  # noqa: S301 - whoever may send it may run code on a worker anyway
    try:
        answer = ("outcome", job.judge())
    except OnnxCiError as error:
        answer = ("raised", error)
    pickle.dump(answer, answers)
    answers.close()
