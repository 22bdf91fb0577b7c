"""Models judged by the workers of a real Dask scheduler: the report is that of a run on one machine."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import psutil
import pytest

from onnx_ci.gate import cluster
from onnx_ci.gate.run import Asked, Progress
from onnx_ci.results import Outcome
from tests.cli.test_shards import timeless
from tests.support.cli import call, onnx_ci, plain_environment
from tests.support.git_repo import Repository
from tests.support.models import bloated, lean

MODELS = {f"{letter}.onnx": bloated(seed=number) for number, letter in enumerate("abc")}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Models with a group that is over its budget, so that what is left to each is sent along."""
    folder = tmp_path / "repository"
    repository = Repository(folder)
    for name, model in {**MODELS, "lean.onnx": lean()}.items():
        onnx.save(model, folder / name)
    (folder / ".onnx-ci.yaml").write_text(
        "version: 1\n"
        "models: [{path: '*.onnx', methods: [dedupe, int8-weights], shrink: to-budget}]\n"
        "groups: [{name: app, paths: [a.onnx, b.onnx], budget: {size: 50 kB}}]\n"
    )
    repository.commit_all("models")
    return folder


@contextmanager
def dask(*arguments: str, cwd: Path, says: str) -> Iterator[tuple[psutil.Process, str]]:
    """A process of Dask, once it said that it is there; and the address that it named."""
    started = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:], "--no-dashboard"]
    log = cwd / f"{time.monotonic_ns()}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(started, cwd=cwd, stderr=file, env=plain_environment())
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(says, log.read_text())):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield psutil.Process(process.pid), found[1]
    finally:
        process.kill()
        process.wait()


@contextmanager
def a_cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[psutil.Process]]]:
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", "0")
    with ExitStack() as stack:
        _, address = stack.enter_context(dask(*scheduler, cwd=folder, says=r"Scheduler at: *(tcp://\S+)"))
        worker = ("worker", address, "--nthreads", "1", "--no-nanny")
        started = [dask(*worker, cwd=folder, says=r"Registered to: *(tcp://\S+)") for _ in range(workers)]
        yield address, [stack.enter_context(each)[0] for each in started]


def until_it_works(worker: psutil.Process) -> list[psutil.Process]:
    """The processes of a worker that is in the middle of a model."""
    deadline = time.monotonic() + 60
    while len(found := list(worker.children(recursive=True))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.mark.real
def test_the_models_of_a_worker_that_is_killed_are_judged_by_another(place: Path, tmp_path: Path) -> None:
    alone = onnx_ci("check", "--all", "--no-cache", "--format", "json", cwd=place)
    arguments = ("check", "--all", "--no-cache", "--format", "json", "--executor", "dask")
    with a_cluster(tmp_path, workers=2) as (address, workers):
        driver = subprocess.Popen(
            [sys.executable, "-m", "onnx_ci", *arguments],
            cwd=place,
            stdout=subprocess.PIPE,
            env={**plain_environment(), "DASK_SCHEDULER_ADDRESS": address},
        )
        orphans = until_it_works(workers[0])
        workers[0].kill()
        out, _ = driver.communicate(timeout=300)
        _, alive = psutil.wait_procs(orphans, timeout=10)
        assert not alive
        assert driver.returncode == alone.code == 1
        assert timeless(json.loads(out)) == timeless(alone.json)
        fixed = onnx_ci("fix", "--all", "--executor", "dask", "--scheduler", address, cwd=place)
    sizes = {path.name: path.stat().st_size for path in place.glob("*.onnx")}
    assert fixed.code == 0, fixed.out
    assert sizes == {model["path"]: model["after"]["size"] for model in alone.json["models"]}


@pytest.mark.real
def test_a_scheduler_that_is_not_there_is_no_verdict(place: Path) -> None:
    done = onnx_ci("check", "--all", "--executor", "dask", "--scheduler", "tcp://127.0.0.1:1", cwd=place)
    assert done.code == 3
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--executor", "dask"], "--executor dask needs the address of a scheduler"),
        (["--scheduler", "tcp://x:1"], "--scheduler belongs to --executor dask"),
        (["--executor", "dask", "--jobs", "2"], "--jobs and --executor dask can't be given together"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], message: str, place: Path) -> None:
    done = call("check", "--all", *arguments, cwd=place)
    assert done.code == 2
    assert message in done.err


def sent_and_judged(_: cluster.Cluster, asked: Sequence[Asked], *, progress: Progress) -> Iterator[Outcome]:
    """As a worker judges what it is sent, without a cluster."""
    for each in asked:
        yield pickle.loads(pickle.dumps(cluster.Job.of(each))).judge().noted(each)  # noqa: S301


@pytest.mark.sampled(0)
@pytest.mark.parametrize("how", ["--all", "--since main", "--since main --policy-from base", "--staged"])
def test_all_that_a_verdict_depends_on_is_sent(
    how: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(place)
    repository.git("checkout", "--quiet", "-b", "feature")
    policy = place / ".onnx-ci.yaml"
    policy.write_text(policy.read_text().replace("int8-weights]", "int8-weights], budget: {growth: 5%}"))
    onnx.save(bloated(seed=9), place / "a.onnx")
    onnx.save(lean(width=40), place / "lean.onnx")
    repository.commit_all("a change")
    policy.write_text(policy.read_text().replace("dedupe, ", ""))
    onnx.save(bloated(seed=8), place / "b.onnx")
    repository.git("add", "--all")
    onnx.save(lean(width=50), place / "b.onnx")  # not what is staged
    options = ("check", *how.split(), "--no-cache", "--format", "json")
    alone = call(*options, cwd=place)
    monkeypatch.setattr(cluster.Cluster, "__call__", sent_and_judged)
    sent = call(*options, "--executor", "dask", "--scheduler", "tcp://x:1", cwd=place)
    assert timeless(sent.json) == timeless(alone.json)
    assert sent.code == alone.code == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"contents": {"a.onnx": "0" * 64}}, "does not see the same"),
        ({"made_by": ("onnx-ci 0.0.1",)}, "instead of 'onnx-ci 0.0.1'"),
    ],
)
def test_a_worker_with_other_files_or_versions_gives_no_verdict(
    other: dict[str, Any], message: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(_: cluster.Cluster, asked: Sequence[Asked], *, progress: Progress) -> Iterator[Outcome]:
        return (replace(cluster.Job.of(each), **other).judge().outcome for each in asked)

    monkeypatch.setattr(cluster.Cluster, "__call__", judged)
    done = call("check", "--all", "--executor", "dask", "--scheduler", "tcp://x:1", cwd=place)
    assert done.code == 3
    assert message in done.err
    assert "all workers need" in done.err
