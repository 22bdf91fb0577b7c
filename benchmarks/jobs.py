"""How much sooner a check ends with two models at a time than with one: the same models, in turns.

What two processes gain that share nothing is measured in the same run: no more can be had here and now.
The reports have to be the same but for times.
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
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models import fetch

MODELS = ("ppocr-cls", "magika", "silero", "silero-legacy", "ppocr-det", "ppocr-rec", "slanet")
POLICY = "version: 1\nmodels: [{path: '*.onnx', methods: [dedupe, fp16-weights], plan_runs: 0}]\n"
LIMIT = 1.2  # times what processes that share nothing take two at a time, of one at a time
ALONE = "for number in range(20_000_000): pass"


def check(folder: Path, jobs: str) -> tuple[float, float, Any]:
    """Seconds by the clock, processors that were busy with it on average, and the report."""
    command = [
        sys.executable,
        "-m",
        "onnx_ci",
        "check",
        "--all",
        "--no-cache",
        "--jobs",
        jobs,
        "--format",
        "json",
    ]
    began, used = time.perf_counter(), processor_seconds()
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    took = time.perf_counter() - began
    return took, (processor_seconds() - used) / took, timeless(json.loads(done.stdout))


def sharing_nothing() -> float:
    """What four processes take two at a time, of what they take one at a time."""
    seconds = []
    for together in (1, 2):
        began = time.perf_counter()
        for _ in range(0, 4, together):
            started = [subprocess.Popen([sys.executable, "-c", ALONE]) for _ in range(together)]
            for process in started:
                process.wait()
        seconds.append(time.perf_counter() - began)
    return seconds[1] / seconds[0]


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            key: timeless(value)
            for key, value in document.items()
            if key not in ("seconds", "latency", "work")
        }
    return [timeless(item) for item in document] if isinstance(document, list) else document


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", type=lambda text: text.split(","), default=MODELS)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in options.models:
            shutil.copy(fetch(name), folder / f"{name}.onnx")
        (folder / ".onnx-ci.yaml").write_text(POLICY)
        taken: dict[str, list[float]] = {"1": [], "2": [], "auto": []}
        busy: dict[str, list[float]] = {jobs: [] for jobs in taken}
        reports, floors = [], []
        for _ in range(options.repeats):
            floors.append(sharing_nothing())
            for jobs, seconds in taken.items():
                took, processors, report = check(folder, jobs)
                busy[jobs].append(processors)
                seconds.append(took)
                reports.append(report)
    medians = {jobs: statistics.median(seconds) for jobs, seconds in taken.items()}
    floor = statistics.median(floors)
    ratio, same = medians["2"] / medians["1"] / floor, all(report == reports[0] for report in reports)
    print("| jobs | seconds | of one at a time | processors busy |\n|---|---|---|---|")
    for jobs, middle in medians.items():
        print(
            f"| {jobs} | {middle:.1f} | {middle / medians['1']:.2f} | {statistics.median(busy[jobs]):.2f} |"
        )
    print(f"\nreports {'the same' if same else 'DIFFER'}")
    print(f"processes that share nothing take {floor:.2f} two at a time; this is {ratio:.2f} of that")
    print(f"limit {LIMIT}: {'held' if ratio <= LIMIT else 'MISSED'}")
    return int(not same or ratio > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
