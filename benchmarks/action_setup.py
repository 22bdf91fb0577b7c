"""How long the set-up of the GitHub Action takes: on a new machine, a kept one, and with a cache."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from environments import SetupError

START = Path(__file__).resolve().parents[1] / "onnx_ci" / "action" / "start.py"


def step(name: str, machine: Path, *, uv: bool) -> None:
    """One step of the action, as its runner would call it."""
    environment = {**os.environ, "RUNNER_TOOL_CACHE": str(machine), "RUNNER_TEMP": str(machine)}
    if not uv:
        environment["PATH"] = os.pathsep.join(
            folder for folder in environment["PATH"].split(os.pathsep) if not (Path(folder) / "uv").exists()
        )
    done = subprocess.run(
        [sys.executable, "-I", str(START), name], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetupError(done.stdout + done.stderr)


def spent(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor: those hold on a busy machine too."""
    began, used = time.perf_counter(), _used()
    work()
    return time.perf_counter() - began, _used() - used


def _used() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(*, uv: bool) -> list[tuple[float, float]]:
    """On a new machine, on one that has the environment, and on one that gets it from an archive. Packages
    are in the installer's own cache only if an earlier run has put them there."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder) / "tools"
        archive = Path(folder) / "cache.tar"

        def set_up() -> None:
            step("prepare", machine, uv=uv)
            step("install", machine, uv=uv)

        def restore() -> None:
            shutil.unpack_archive(archive, machine, filter="fully_trusted")
            set_up()

        found = [spent(set_up), spent(set_up)]
        shutil.make_archive(str(archive.with_suffix("")), "tar", machine)
        shutil.rmtree(machine)
        return [*found, spent(restore)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print("| installer | new machine | environment there | restored from an archive |\n|---|---|---|---|")
    for installer in ("pip", "uv"):
        if installer == "uv" and shutil.which("uv") is None:
            print("| uv | not installed | | |")
            continue
        runs = [measure(uv=installer == "uv") for _ in range(repeats)]
        cells = [_cell(found) for found in zip(*runs, strict=True)]
        print(f"| {installer} | {' | '.join(cells)} |")
    return 0


def _cell(found: Sequence[tuple[float, float]]) -> str:
    clock, processor = (statistics.median(numbers) for numbers in zip(*found, strict=True))
    return f"{clock:.1f} s ({processor:.1f} s of processor)"


if __name__ == "__main__":
    sys.exit(main())
