"""Race commands as child processes: median wall and processor time and peak memory, as a Markdown table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

# Linux counts what a parent held at the moment it started a child as the child's peak as well:
# keep large imports (onnx, numpy) out of the process that races.


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What is measured of a command: seconds, seconds of processors, MB of memory, MB written. Also ratios
    and limits of these."""

    wall: float | None = None
    cpu: float | None = None
    memory: float | None = None
    output: float | None = None


NAMES = tuple(field.name for field in fields(Figures))


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One command to time; `output` is removed before each run and must be there after it."""

    name: str
    command: Sequence[str]
    folder: Path | None = None
    output: Path | None = None
    limits: Figures = Figures()


@dataclass(frozen=True, kw_only=True)
class Result:
    contender: Contender
    medians: Figures


class FailedRunError(Exception):
    """A contender ended badly, so its time means nothing."""


def environment() -> dict[str, str]:
    """Ours, but modules are compiled once, as they are where a program is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "onnx-ci-bench-pyc"), **kept}


def run_once(contender: Contender) -> Figures:
    """Time one run. The memory is the peak of the largest process among the child and those it waited for."""
    if contender.output:
        contender.output.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        child = subprocess.Popen(
            contender.command, cwd=contender.folder, stdout=log, stderr=log, env=environment()
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode or (contender.output and not contender.output.is_file()):
            log.seek(0)
            words = log.read().decode(errors="replace")[-2000:]
            raise FailedRunError(f"{contender.name} ended with {child.returncode}:\n{words}")
    unit = 1 if sys.platform == "darwin" else 1024
    written = contender.output.stat().st_size / 1e6 if contender.output else None
    cpu = usage.ru_utime + usage.ru_stime
    return Figures(wall=seconds, cpu=cpu, memory=usage.ru_maxrss * unit / 1e6, output=written)


def race(contenders: Sequence[Contender], repeats: int = 5) -> list[Result]:
    """Run all in turns, so that what else the machine does falls on all of them alike."""
    for contender in contenders:
        run_once(contender)  # not counted: fills the disk cache and compiles modules
    rounds = [[run_once(contender) for contender in contenders] for _ in range(repeats)]
    return [
        Result(contender=contender, medians=Figures(**{name: median(runs, name) for name in NAMES}))
        for contender, runs in zip(contenders, zip(*rounds, strict=True), strict=True)
    ]


def median(runs: Sequence[Figures], name: str) -> float | None:
    values = [value for run in runs if (value := getattr(run, name)) is not None]
    return statistics.median(values) if values else None


def ratios(result: Result, base: Result) -> Figures:
    own, other = asdict(result.medians), asdict(base.medians)
    return Figures(**{name: own[name] / other[name] if own[name] and other[name] else None for name in NAMES})


def table(results: Sequence[Result], reference: str) -> str:
    """A Markdown table with each contender's ratio to the one called `reference`, and its limits."""
    base = find(results, reference)
    title = " | ".join(f"{label} | ÷ {reference}" for label in ("wall s", "cpu s", "peak MB", "output MB"))
    rows = [f"| contender | {title} |", "|---" * (1 + 2 * len(NAMES)) + "|"]
    rows += [f"| {result.contender.name} | {' | '.join(cells(result, base))} |" for result in results]
    return "\n".join(rows)


def cells(result: Result, base: Result) -> list[str]:
    ratio, limits = ratios(result, base), result.contender.limits
    row = []
    for name, form in zip(NAMES, (".3f", ".3f", ".0f", ".1f"), strict=True):
        value = getattr(result.medians, name)
        row.append("" if value is None else format(value, form))
        row.append(judged(getattr(ratio, name), getattr(limits, name)))
    return row


def judged(ratio: float | None, limit: float | None) -> str:
    if ratio is None or limit is None:
        return "" if ratio is None else f"{ratio:.2f}"
    return f"{ratio:.2f} (limit {limit:g}: {'within' if ratio <= limit else 'MISSED'})"


def any_missed(results: Sequence[Result], reference: str) -> bool:
    base = find(results, reference)
    return any("MISSED" in cell for result in results for cell in cells(result, base))


def find(results: Sequence[Result], name: str) -> Result:
    return next(result for result in results if result.contender.name == name)
