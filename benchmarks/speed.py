"""Processor time and result of `shrink`, this tree against another commit, in turns on the same models.

Both run with the packages that are installed here; the other commit is checked out in a scratch folder.
Limits: 0.33 of its processor time at the median, 0.2 at the ninetieth percentile of times, no size above its.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from models import NAMES, fetch

GIT = shutil.which("git") or "git"
HOME = Path(__file__).resolve().parents[1]
METHODS = "dedupe,drop-unused,fp16-weights,int8-weights,int4-weights"
LONGEST = 900  # seconds for one model; what takes longer counts as that long
LIMITS = {"median": 0.33, "ninetieth percentile": 0.2, "largest size": 1.0}


@dataclass(frozen=True)
class Shrunk:
    """Seconds of processors and bytes; how many runs and loads, where the tree counts them."""

    seconds: float
    size: int
    runs: int | None = None
    loads: int | None = None


def shrink(tree: Path, model: Path, cosine: float, folder: Path) -> Shrunk:
    command = [sys.executable, "-m", "onnx_ci", "shrink", str(model), "out.onnx", "--methods", METHODS]
    command += ["--tolerance", f"cosine={cosine}", "--no-cache", "--format", "json"]
    environment = {**harness.environment(), "PYTHONPATH": str(tree)}
    before = processor_seconds()
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=LONGEST, check=False
        )
        outcome = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return Shrunk(LONGEST, model.stat().st_size)
    work = outcome.get("work") or {}
    seconds = processor_seconds() - before
    return Shrunk(seconds, outcome["after"]["size"], work.get("runs"), work.get("loads"))


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _ninetieth(values: Iterable[float]) -> float:
    """What nine in ten models take at the most."""
    ordered = sorted(values)
    return ordered[round(0.9 * (len(ordered) - 1))]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, metavar="COMMIT")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--files", nargs="*", type=Path, default=[], help="models of your own")
    parser.add_argument("--cosine", type=float, default=0.999)
    options = parser.parse_args(argv)
    paths = [path.resolve() for path in options.files] or [fetch(name) for name in options.models]
    times, sizes, seconds = [], [], []
    print("| model | MB | base s | s | ratio | base MB | MB | ratio | runs | loads |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        base, folder = Path(scratch) / "base", Path(scratch) / "work"
        folder.mkdir()
        subprocess.run([GIT, "worktree", "add", "-q", "--detach", base, options.base], cwd=HOME, check=True)
        try:
            for path in paths:
                old = shrink(base, path, options.cosine, folder)
                new = shrink(HOME, path, options.cosine, folder)
                seconds.append((old.seconds, new.seconds))
                times.append(new.seconds / old.seconds)
                sizes.append(new.size / old.size)
                row = f"{old.seconds:.1f} | {new.seconds:.1f} | {times[-1]:.2f} | {old.size / 1e6:.3f}"
                row += f" | {new.size / 1e6:.3f} | {sizes[-1]:.3f} | {new.runs} | {new.loads}"
                print(f"| {path.stem} | {path.stat().st_size / 1e6:.2f} | {row} |", flush=True)
        finally:
            subprocess.run([GIT, "worktree", "remove", "--force", base], cwd=HOME, check=True)
    figures = {
        "median": statistics.median(times),
        "ninetieth percentile": _ninetieth(new for _, new in seconds) / _ninetieth(old for old, _ in seconds),
        "largest size": max(sizes),
    }
    for name, figure in figures.items():
        limit = LIMITS[name]
        print(f"\n{name}: {figure:.2f} (limit {limit}: {'within' if figure <= limit else 'MISSED'})")
    print(f"\nsizes at the geometric mean: {statistics.geometric_mean(sizes):.3f}")
    return int(any(figure > LIMITS[name] for name, figure in figures.items()))


if __name__ == "__main__":
    raise SystemExit(main())
