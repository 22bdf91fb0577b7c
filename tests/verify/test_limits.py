"""Models that hang, crash, or eat memory: the worker dies, we do not, and the next model runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.sandbox.runner import RunFailed, Runner
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Claim, Runtimes, Verifier
from tests.support.known import known
from tests.support.text_models import LINEAR, LOOP, model, save

pytestmark = pytest.mark.cold

X = {"x": np.ones(2, np.float32)}
GIB = 1 << 30

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and resource limits of POSIX")


def recovers(runner: Runner, folder: Path) -> bool:
    path = save(model(LINEAR), folder / "good.onnx")
    (sample,) = runner.run(path, [{"x": np.ones((1, 4), np.float32)}], limits=Limits(seconds=30))
    return bool(sample["y"].tolist() == [[22, 26, 30]])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_hanging_model_is_stopped(tmp_path: Path) -> None:
    path = save(model(LOOP), tmp_path / "loop.onnx")
    with Runner() as runner:
        assert recovers(runner, tmp_path)
        pid = runner.pid
        began = time.monotonic()
        with pytest.raises(RunFailed, match="within 1 s") as caught:
            runner.run(path, [X], limits=Limits(seconds=1))
        assert (caught.value.kind, caught.value.code) == ("timeout", "OCI013")
        assert time.monotonic() - began < 4
        assert gone(known(pid))
        assert recovers(runner, tmp_path)
        with pytest.raises(RunFailed) as caught:
            runner.time(path, path, [X], limits=Limits(seconds=1))
        assert caught.value.kind == "timeout"


def test_a_worker_killed_in_the_middle(tmp_path: Path) -> None:
    path = save(model(LOOP), tmp_path / "loop.onnx")
    with Runner() as runner:
        assert recovers(runner, tmp_path)
        pid = runner.pid
        timer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
        timer.start()
        with pytest.raises(RunFailed, match="SIGKILL") as caught:
            runner.run(path, [X], limits=Limits(seconds=30))
        timer.join()
        assert (caught.value.kind, caught.value.code) == ("crash", "OCI013")
        assert gone(known(pid))
        assert recovers(runner, tmp_path)


def test_a_setting_that_took_the_worker_down_is_tried_in_a_worker_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that all settings share dies whenever it is to run the candidate without optimizations."""
    proto = model(LINEAR)
    original, candidate = (save(proto, tmp_path / name) for name in ("original.onnx", "candidate.onnx"))
    killed: list[int] = []
    asked_in: list[int | None] = []
    ask = Runner.ask

    def ask_or_die(self: Runner, job: str, models: Sequence[Path], limits: Limits, **more: Any) -> Any:
        doomed = not self.optimize and candidate in models
        if doomed and self.host is runner.host:
            pid = known(self.pid)
            os.kill(pid, signal.SIGSTOP)  # in the middle of its work
            threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
            killed.append(pid)
        answer = ask(self, job, models, limits, **more)
        if doomed:
            asked_in.append(self.pid)
        return answer

    monkeypatch.setattr(Runner, "ask", ask_or_die)
    with Runner() as runner:
        reference = Reference(
            runner, original, proto, spec=InputSpec(), limits=Limits(seconds=60), root=tmp_path
        )
        claim = Claim(path=candidate, proto=proto, tolerance=Tolerance(exact=True))
        passed = Verifier(reference).check(claim)
        assert (passed.status, killed) == ("passed", [])
        found = Runtimes(reference).check(passed, claim)
        assert [(run.optimizations, run.status) for run in found.runtimes] == [
            ("default", "passed"),
            ("disabled", "passed"),
        ]
        assert found.status == "passed"
        assert len(killed) == 1
        assert asked_in, "it was run elsewhere"
        assert killed[0] not in asked_in
        assert all(gone(known(pid)) for pid in (*killed, *asked_in)), "its own worker has ended with it"


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_worker_that_died_between_two_models_is_replaced(tmp_path: Path, number: signal.Signals) -> None:
    with Runner() as runner:
        assert recovers(runner, tmp_path)
        os.kill(known(runner.pid), number)
        time.sleep(0.2)
        assert recovers(runner, tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "s = Constant<value_ints=[1048576, 1048576]>() e = Expand(x, s) y = ReduceSum(e)",
        "s = Constant<value_ints=[4294967296]>() e = ConstantOfShape(s) y = ReduceSum(e)",
        "s = Constant<value_ints=[4611686018427387904, 16]>() e = ConstantOfShape(s) y = ReduceSum(e)",
        "n = Constant<value_int=9000000000>() o = Constant<value_int=0>() i = Constant<value_int=1>()"
        " r = Range(o, n, i) y = ReduceSum(r)",
    ],
)
def test_a_model_that_wants_all_memory(tmp_path: Path, body: str) -> None:
    path = save(model(f"g (float[1] x) => (float y) {{ {body} }}"), tmp_path / "big.onnx")
    with Runner() as runner:
        with pytest.raises(RunFailed) as caught:
            runner.run(path, [{"x": np.ones(1, np.float32)}], limits=Limits(seconds=20, memory=2 * GIB))
        assert caught.value.kind in ("memory", "error")
        assert recovers(runner, tmp_path)


def test_memory_is_named_as_the_reason(tmp_path: Path) -> None:
    text = "g (int64[1] n) => (float y) { e = ConstantOfShape(n) y = ReduceSum(e) }"
    path = save(model(text), tmp_path / "big.onnx")
    with Runner() as runner:
        small = runner.run(path, [{"n": np.array([1000])}], limits=Limits(seconds=20, memory=GIB))
        assert small[0]["y"].sum() == 0
        with pytest.raises(RunFailed, match="memory") as caught:
            runner.run(path, [{"n": np.array([GIB])}], limits=Limits(seconds=20, memory=GIB))
        assert (caught.value.kind, caught.value.code) == ("memory", "OCI013")
        assert recovers(runner, tmp_path)


def test_the_smallest_limit_still_runs_small_models(tmp_path: Path) -> None:
    path = save(model(LINEAR), tmp_path / "model.onnx")
    with Runner() as runner:
        runner.run(path, [{"x": np.ones((1, 4), np.float32)}], limits=Limits(seconds=20, memory=1))


def test_a_busy_worker_does_not_outlive_us(tmp_path: Path) -> None:
    path = save(model(LOOP), tmp_path / "loop.onnx")
    script = f"""
import os, signal, sys, threading, time
sys.path[:] = {sys.path!r}
import numpy as np
from pathlib import Path
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import Runner
runner = Runner()
def end():
    while runner.pid is None:
        time.sleep(0.05)
    time.sleep(1)
    print(runner.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=end).start()
runner.run(Path({str(path)!r}), [{{"x": np.ones(2, np.float32)}}], limits=Limits(seconds=60))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        timeout=30,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    for _ in range(50):
        if gone(pid):
            return
        time.sleep(0.1)
    pytest.fail("the worker is still there")
