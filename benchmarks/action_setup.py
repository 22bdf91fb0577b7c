"""How long the set-up of the GitHub Action takes: on a new machine, a kept one, and with a cache."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from environments import SetupError

START = Path(__file__).resolve().parents[1] / "onnx_ci" / "entry" / "github" / "start.py"


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


def seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(*, uv: bool) -> tuple[float, float, float]:
    """Seconds on a new machine, on one that has the environment, and on one that gets it from an archive.
    Packages are in the installer's own cache only if an earlier run has put them there."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder) / "tools"
        both = [lambda name=name: step(name, machine, uv=uv) for name in ("prepare", "install")]
        cold = sum(map(seconds, both))
        warm = sum(map(seconds, both))
        archive = shutil.make_archive(str(Path(folder) / "cache"), "tar", machine)
        shutil.rmtree(machine)
        restored = seconds(lambda: shutil.unpack_archive(archive, machine, filter="fully_trusted"))
        return cold, warm, restored + sum(map(seconds, both))


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
        print(
            f"| {installer} | "
            + " | ".join(f"{statistics.median(t):.1f} s" for t in zip(*runs, strict=True))
            + " |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
