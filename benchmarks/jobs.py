"""How much sooner a check ends with two models at a time than with one: the same models, in turns.

A busy machine moves both alike; what counts is the ratio. The reports have to be the same but for times.
"""

from __future__ import annotations

import argparse
import json
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
POLICY = "version: 1\nmodels: [{path: '*.onnx', methods: [dedupe, fp16-weights], plan_seconds: 0}]\n"
LIMIT = 0.75  # of the time that one at a time takes, on two idle cores


def check(folder: Path, jobs: str) -> tuple[float, Any]:
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
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - began, timeless(json.loads(done.stdout))


def timeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: timeless(value) for key, value in document.items() if key not in ("seconds", "latency")}
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
        reports = []
        for _ in range(options.repeats):
            for jobs, seconds in taken.items():
                took, report = check(folder, jobs)
                seconds.append(took)
                reports.append(report)
    medians = {jobs: statistics.median(seconds) for jobs, seconds in taken.items()}
    ratio, same = medians["2"] / medians["1"], all(report == reports[0] for report in reports)
    print("| jobs | seconds | of one at a time |\n|---|---|---|")
    for jobs, middle in medians.items():
        print(f"| {jobs} | {middle:.1f} | {middle / medians['1']:.2f} |")
    print(f"\nreports {'the same' if same else 'DIFFER'}")
    print(f"two at a time, limit {LIMIT}: {'held' if ratio <= LIMIT else 'MISSED'}")
    return int(not same or ratio > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
