"""Limits hold for all work on one model, not only for running it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx
import pytest
from onnx import helper

from tests.support.cli import as_from_a_terminal, onnx_ci, plain_environment
from tests.support.models import bloated, lean, save_outside

pytestmark = pytest.mark.sampled(24)

T = TypeVar("T")
linux = pytest.mark.skipif(sys.platform != "linux", reason="work is bounded where processes can be forked")


def long_chain(nodes: int) -> onnx.ModelProto:
    steps = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(nodes)]
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in ("t0", f"t{nodes}")]
    graph = helper.make_graph(steps, "chain", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@linux
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_model_that_takes_too_long_to_look_at_ends_and_the_others_are_judged(
    tmp_path: Path, jobs: str
) -> None:
    onnx.save(long_chain(60_000), tmp_path / "a_long.onnx")
    onnx.save(lean(), tmp_path / "b_lean.onnx")
    onnx.save(bloated(), tmp_path / "c_bloated.onnx")
    rules = '{path: "*.onnx"}, {path: a_long.onnx, limits: {seconds: 0.01}, plan_seconds: 0}'
    (tmp_path / ".onnx-ci.yaml").write_text(f"version: 1\nmodels: [{rules}]\n")
    began = time.monotonic()
    done = onnx_ci("fix", "--all", "--no-cache", "--jobs", jobs, "--format", "json", cwd=tmp_path)
    assert time.monotonic() - began < 60
    assert done.code == 1
    outcomes = {Path(outcome["path"]).name: outcome for outcome in done.json["models"]}
    assert outcomes["b_lean.onnx"]["verdict"] == "ok"
    assert outcomes["c_bloated.onnx"]["written"]
    long = outcomes["a_long.onnx"]
    assert long["verdict"] == "unverified"
    (finding,) = long["findings"]
    assert finding["code"] == "OCI013"
    assert "0.2 s" in finding["message"]
    assert "limits.seconds" in finding["message"]
    assert "limits: {total_seconds" in finding["hint"]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("limits: {seconds: 86401}", "a number above 0 up to 86400"),
        ("limits: {seconds: 1e300}", "a number above 0 up to 86400"),
        ("limits: {memory: 2 TiB}", "a size up to 1 TiB"),
        ("inputs: {count: 1001}", "at most 1000"),
        ("inputs: {dims: {n: 2147483648}}", "at most 2147483647"),
        ("plan_seconds: 100000", "up to 86400"),
    ],
)
def test_numbers_that_no_run_would_end_with_are_refused(tmp_path: Path, rule: str, told: str) -> None:
    onnx.save(lean(), tmp_path / "m.onnx")
    (tmp_path / ".onnx-ci.yaml").write_text(f'version: 1\nmodels:\n  - path: "*.onnx"\n    {rule}\n')
    done = onnx_ci("check", "--all", cwd=tmp_path)
    assert done.code == 2
    assert told in done.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("place", ["model", "data", "sample", "sample in a folder", "cache"])
def test_what_is_no_file_is_refused_and_nobody_waits_for_it(tmp_path: Path, place: str) -> None:
    home = tmp_path / "repository"
    home.mkdir()
    policy = 'version: 1\nmodels: [{path: "*.onnx", inputs: {samples: [in/*.npz, test_data_set_*]}}]\n'
    if place in ("model", "data", "cache"):
        policy = 'version: 1\nmodels: [{path: "*.onnx"}]\n'
    (home / ".onnx-ci.yaml").write_text(policy)
    onnx.save(bloated(), home / "m.onnx")
    env = {"ONNX_CI_CACHE": str(tmp_path / "cache")}
    if place == "model":
        os.mkfifo(home / "other.onnx")
    elif place == "data":
        save_outside(bloated(), home / "m.onnx")
        (home / "m.onnx.data").unlink()
        os.mkfifo(home / "m.onnx.data")
    elif place == "sample":
        (home / "in").mkdir()
        os.mkfifo(home / "in" / "a.npz")
    elif place == "sample in a folder":
        (home / "test_data_set_0").mkdir()
        os.mkfifo(home / "test_data_set_0" / "input_0.pb")
    else:
        assert onnx_ci("check", "--all", cwd=home, env=env).code == 1
        for entry in (tmp_path / "cache" / "outcomes").iterdir():
            entry.unlink()
            os.mkfifo(entry)
    done = onnx_ci("check", "m.onnx", *(["other.onnx"] if place == "model" else []), cwd=home, env=env)
    assert done.code == 1
    if place != "cache":
        assert "not a regular file" in done.out


@pytest.mark.skipif(os.name == "nt", reason="a shell's own words")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-", "2>&1 | head -c 1"])
def test_a_closed_stream_is_no_crash(tmp_path: Path, closed: str) -> None:
    onnx.save(bloated(), tmp_path / "m.onnx")
    onnx.save(lean(), tmp_path / "n.onnx")
    program = f"{sys.executable} -m onnx_ci"
    for command, code in ((f"{program} check m.onnx n.onnx", 1), (f"{program} check missing.onnx", 2)):
        script = f"set -o pipefail; {command} {closed}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done
        assert "Traceback" not in done.stdout + done.stderr
        assert "Exception" not in done.stdout + done.stderr


@linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_goes_on_when_the_run_was_ended(tmp_path: Path, how: signal.Signals) -> None:
    onnx.save(long_chain(100_000), tmp_path / "m.onnx")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**plain_environment(), "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "onnx_ci", "check", "m.onnx", "--no-cache"]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=as_from_a_terminal(),
    )
    started = _wait_for(lambda: _forks_of(run.pid))
    run.send_signal(how)
    _, told = run.communicate(timeout=60)
    assert run.returncode == (130 if how == signal.SIGINT else -how)
    assert b"Traceback" not in told
    _wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    if how == signal.SIGINT:
        assert list(temporary.iterdir()) == []


def _forks_of(pid: int) -> list[str]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for each in found if b"onnx_ci" in Path(f"/proc/{each}/cmdline").read_bytes()]


def _wait_for(what: Callable[[], T]) -> T:
    until = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found
