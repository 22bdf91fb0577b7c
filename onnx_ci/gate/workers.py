"""Work on several models at a time: in processes where one can be forked, else in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from onnx_ci.gate.subject import Say
from onnx_ci.repo.content import Sources
from onnx_ci.sandbox.forks import Bound, Stopped, can_fork, run_tasks
from onnx_ci.sandbox.process import ended_children
from onnx_ci.sandbox.runner import Runner

Result = TypeVar("Result")
Work = Callable[[int, Runner, Say], Result]  # the number of a model, and what works on it
Heard = Callable[[int, str], None]


def run_each(
    bounds: Sequence[Bound], work: Work[Result], used: Sequence[Sources], *, jobs: int, heard: Heard
) -> Iterator[Result | Stopped]:
    """The results in order. `used` are the sources that all of them read."""
    if can_fork():
        yield from _in_forks(bounds, work, used, jobs, heard)
    elif jobs > 1 and len(bounds) > 1:
        yield from _in_threads(len(bounds), work, jobs, heard)
    else:
        with Runner() as runner:
            for number in range(len(bounds)):
                yield work(number, runner, partial(heard, number))


def _in_forks(
    bounds: Sequence[Bound], work: Work[Result], used: Sequence[Sources], jobs: int, heard: Heard
) -> Iterator[Result | Stopped]:
    """Each process keeps its worker for all the models it gets."""

    @contextmanager
    def working() -> Iterator[Callable[[int, Say], Result]]:
        for sources in used:
            sources.fork()
        with Runner() as runner:
            yield lambda number, say: work(number, runner, say)

    for sources in used:
        sources.close_git()
    yield from run_tasks(bounds, working, jobs=jobs, heard=heard)


def _in_threads(count: int, work: Work[Result], jobs: int, heard: Heard) -> Iterator[Result]:
    """Each thread keeps its worker process for all the models it gets."""
    from concurrent.futures import ThreadPoolExecutor, wait
    from queue import SimpleQueue

    with ExitStack() as stack:
        free: SimpleQueue[Runner] = SimpleQueue()
        for _ in range(jobs):
            free.put(stack.enter_context(Runner()))

        def work_on(number: int) -> Result:
            runner = free.get()
            try:
                return work(number, runner, partial(heard, number))
            finally:
                free.put(runner)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                futures = [pool.submit(work_on, number) for number in range(count)]
                for future in futures:
                    # Short waits: a signal that another thread got is seen by this one between two of them.
                    while not wait([future], timeout=0.2).done:
                        pass
                    yield future.result()
            except BaseException:  # interrupted, or one model ended the run: don't wait for the others' work
                with ended_children():
                    pool.shutdown(cancel_futures=True)
                raise
