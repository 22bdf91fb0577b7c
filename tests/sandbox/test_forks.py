"""Tasks in forked processes: bounded in time and memory, and none of them ends the others."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from onnx_ci.errors import PolicyError
from onnx_ci.sandbox.forks import Bound, OutOfTime, Stopped, interrupted_at, run_tasks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")
ROOM = Bound(60, 1 << 30)
Say = Callable[[str], None]


@contextmanager
def doing(task: Callable[[int, Say], object]) -> Iterator[Callable[[int, Say], object]]:
    yield task


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_order_and_what_is_said_is_heard(jobs: int) -> None:
    def task(number: int, say: Say) -> int:
        say(f"at {number}")
        return number * number

    heard: list[tuple[int, str | None]] = []
    found = run_tasks([ROOM] * 7, lambda: doing(task), jobs=jobs, heard=lambda *told: heard.append(told))
    assert found == [0, 1, 4, 9, 16, 25, 36]
    assert sorted(n for n, doing in heard if doing is None) == list(range(7)), "ended, each once"
    assert sorted(told for told in heard if told[1]) == [(number, f"at {number}") for number in range(7)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_runs_out_is_stopped_and_the_others_go_on(jobs: int) -> None:
    def task(number: int, _: Say) -> str:
        if number == 0:
            sum(range(10**12))  # one call into C, which nothing interrupts
        if number == 1:
            kept = [b"x" * (1 << 20) for _ in range(1 << 20)]
            return str(len(kept))
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 3:
            time.sleep(600)
        return "done"

    bounds = [Bound(1, 1 << 30), Bound(60, 1 << 28), ROOM, Bound(0.5, 1 << 30), ROOM]
    began = time.monotonic()
    found = run_tasks(bounds, lambda: doing(task), jobs=jobs)
    crashed = Stopped("crash", "SIGKILL")
    assert found == [Stopped("seconds"), Stopped("memory"), crashed, Stopped("seconds"), "done"]
    assert time.monotonic() - began < 30


def test_a_task_is_interrupted_at_the_moments_it_names() -> None:
    """The outer moment counts again once the inner one is over."""

    def work(_: int, __: object) -> list[float]:
        began, ended = time.monotonic(), []
        try:
            with interrupted_at(began + 0.6):
                with suppress(OutOfTime), interrupted_at(began + 0.2):
                    time.sleep(30)
                ended.append(time.monotonic() - began)
                time.sleep(30)
        except OutOfTime:
            ended.append(time.monotonic() - began)
        with interrupted_at(time.monotonic() + 0.1):
            pass
        time.sleep(0.2)  # nothing is left of it
        return ended

    (found,) = run_tasks([Bound(60, 1 << 40)], lambda: nullcontext(work))
    assert not isinstance(found, Stopped)
    inner, outer = found
    assert 0.2 <= inner < 0.6 <= outer < 20


def test_what_a_task_raises_is_raised_with_its_place() -> None:
    def task(_: int, __: Say) -> None:
        raise PolicyError("p.yaml", 3, "wrong", hint="mend it")

    with pytest.raises(PolicyError) as raised:
        run_tasks([ROOM], lambda: doing(task))
    assert (raised.value.line, raised.value.hint, raised.value.message) == (3, "mend it", "p.yaml:3: wrong")
    assert "in task" in str(raised.value.__cause__)


def test_temporary_files_go_with_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def task(number: int, _: Say) -> int:
        Path(tempfile.mkdtemp(), "large").write_text("x")
        if number == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as in a call that does not return
            time.sleep(600)
        return number

    assert run_tasks([Bound(0.3, 1 << 30), ROOM], lambda: doing(task)) == [Stopped("seconds"), 1]
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_fit_beside_the_others_waits(tmp_path: Path) -> None:
    likely = [3, 6, 3, math.inf, 6, 3]
    log = tmp_path / "log"

    def task(number: int, _: Say) -> int:
        with log.open("a") as file:  # one write: lines of two processes don't mix
            file.write(f"{number} begins\n")
        time.sleep(0.1)
        with log.open("a") as file:
            file.write(f"{number} ends\n")
        return number

    bounds = [Bound(60, 1 << 30, size) for size in likely]
    assert run_tasks(bounds, lambda: doing(task), jobs=3, room=10) == [*range(6)]
    running: set[int] = set()
    together: list[set[int]] = []
    for number, what in (line.split() for line in log.read_text().splitlines()):
        running ^= {int(number)}
        together += [set(running)] if what == "begins" else []
    assert together[0] == {3}  # the largest comes first, and nothing runs beside it
    assert [each for each in together if 3 in each] == [{3}]
    assert max(map(len, together)) == 2
    assert all(sum(likely[number] for number in each) < 10 for each in together[1:])
