"""Does the verdict predict what real data shows? `python benchmarks/verdicts.py [--models a,b] [--sizes]`

For each model of `real_inputs` and each rounding method, onnx-ci is asked for its verdict: on inputs that it
makes up, and with four real samples. The truth is what the candidate does on twelve other real inputs:

- right: every output of every input has a cosine of 0.999 with the original's, or more;
- wrong: some output has less even against the largest energy it has over all of these inputs;
- in between, either verdict is one that a user could defend.

A refusal of what is right is a false refusal, a pass of what is wrong a false pass. `--sizes` also lets
onnx-ci search for the smallest mix on made-up inputs and on four samples, and tells whether it holds on
the others.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
from real_inputs import MODELS, SEEN, Array, Feeds, RealModel, model_path

METHODS = ("fp16-weights", "int8-weights", "int4-weights")
LIMIT = 0.999
FEW = 8  # numbers below which a cosine is blind to size
PATIENCE = 600.0  # seconds for one call of onnx-ci
Truth = Literal["right", "wrong", "in between"]


def cosine(before: Array, after: Array, energy: float = 0.0) -> float:
    """Return the cosine of two outputs; with an `energy`, as if the rest of it had been kept."""
    one, other = before.astype(np.float64).ravel(), after.astype(np.float64).ravel()
    finite = np.isfinite(one) & np.isfinite(other)
    one, other = one[finite], other[finite]
    rest = max(0.0, energy * one.size - float(one @ one))
    ours, theirs = float(one @ one) + rest, float(other @ other) + rest
    if ours == 0.0 or theirs == 0.0:
        return 1.0 if ours == theirs else 0.0
    if one.size < FEW:
        return math.sqrt(max(0.0, 1.0 - float((one - other) @ (one - other)) / ours))
    return (float(one @ other) + rest) / math.sqrt(ours * theirs)


class Witness:
    """What the original does on the real inputs that nobody has seen."""

    def __init__(self, path: Path, feeds: Sequence[Feeds]) -> None:
        self.feeds = feeds
        self.outputs = run(path, feeds)

    def worst(self, candidate: Path) -> tuple[float, float]:
        """Return the worst cosine of any output and input: by itself, and against the largest energy."""
        others = run(candidate, self.feeds)
        plain = pooled = 1.0
        for name in self.outputs[0]:
            pairs = [(one[name], other[name]) for one, other in zip(self.outputs, others, strict=True)]
            if pairs[0][0].dtype.kind != "f":
                continue
            energy = max(float(np.mean(np.square(before.astype(np.float64)))) for before, _ in pairs)
            plain = min(plain, *(cosine(*pair) for pair in pairs))
            pooled = min(pooled, *(cosine(*pair, energy) for pair in pairs))
        return plain, pooled


def run(path: Path, feeds: Sequence[Feeds]) -> list[dict[str, Array]]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]


def truth(plain: float, pooled: float) -> Truth:
    if plain >= LIMIT:
        return "right"
    return "wrong" if pooled < LIMIT else "in between"


def onnx_ci(*arguments: str | Path) -> dict[str, Any]:
    """Run the command and return its report."""
    command = ["onnx-ci", *map(str, arguments), "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"verification": {"status": "timeout", "reason": f"no answer in {PATIENCE:g} s"}}
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        return {"verification": {"status": "error", "reason": done.stderr[-300:]}}


def judge(model: RealModel, folder: Path, *, sizes: bool) -> list[dict[str, Any]]:
    """Return a row for each question asked about one model."""
    path, feeds = model_path(model), list(model.feeds())
    witness = Witness(path, feeds[SEEN:])
    samples: list[str | Path] = []
    for number, feed in enumerate(feeds[:SEEN]):
        file = folder / f"{model.name}-{number}.npz"
        np.savez(file, **feed)  # type: ignore[arg-type]
        samples += ["--samples", file]
    rows = []
    for method in METHODS:
        candidate = folder / f"{model.name}-{method}.onnx"
        onnx_ci("shrink", path, candidate, "--methods", method, "--no-verify")
        if not candidate.exists() or candidate.stat().st_size == path.stat().st_size:
            continue
        known = witness.worst(candidate)
        for inputs, given in zip(("made up", "samples"), ([], samples), strict=True):
            began = time.monotonic()
            report = onnx_ci("compare", path, candidate, *given)
            rows.append(_row(model, method, inputs, report, known, began, candidate))
    if sizes:
        for inputs, given in zip(("made up", "samples"), ([], samples), strict=True):
            smallest = folder / f"{model.name}-smallest-{inputs.replace(' ', '-')}.onnx"
            began = time.monotonic()
            report = onnx_ci("shrink", path, smallest, "--methods", ",".join(METHODS), *given)
            known = witness.worst(smallest) if smallest.exists() else (1.0, 1.0)
            made = smallest if smallest.exists() else path
            rows.append(_row(model, "smallest", inputs, report, known, began, made))
    return rows


def _row(
    model: RealModel,
    method: str,
    inputs: str,
    report: Mapping[str, Any],
    known: tuple[float, float],
    began: float,
    made: Path,
) -> dict[str, Any]:
    verification = report.get("verification") or {}
    return {
        "model": model.name,
        "method": method,
        "inputs": inputs,
        "status": verification.get("status", "error"),
        "reason": str(verification.get("reason", ""))[:160],
        "plain": known[0],
        "pooled": known[1],
        "truth": truth(*known),
        "bytes": made.stat().st_size,
        "seconds": round(time.monotonic() - began, 1),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts and the table as Markdown."""
    lines = []
    for inputs in ("made up", "samples"):
        asked = [row for row in rows if row["inputs"] == inputs and row["method"] != "smallest"]
        wrong = [row for row in asked if row["truth"] == "wrong" and row["status"] == "passed"]
        refused = [row for row in asked if row["truth"] == "right" and row["status"] == "failed"]
        silent = [row for row in asked if row["status"] not in ("passed", "failed")]
        lines.append(
            f"{inputs}: {len(asked)} verdicts, {len(wrong)} false passes, {len(refused)} false refusals,"
            f" {len(silent)} without a verdict"
        )
    found = {(row["model"], row["inputs"]): row for row in rows if row["method"] == "smallest"}
    pairs = [(found[name, "made up"], found[name, "samples"]) for name, kind in found if kind == "samples"]
    if pairs:
        ratios = [math.log(one["bytes"] / other["bytes"]) for one, other in pairs]
        broken = [sum(pair[at]["truth"] == "wrong" for pair in pairs) for at in (0, 1)]
        lines.append(
            f"smallest: made up over samples {math.exp(sum(ratios) / len(ratios)):.2f} at the geometric mean;"
            f" does not hold on real data for {broken[0]} (made up) and {broken[1]} (samples) of {len(pairs)}"
        )
    lines += ["", "| model | method | inputs | verdict | truth | plain | pooled | MB | s |", "|---" * 9 + "|"]
    for row in rows:
        numbers = f"{row['plain']:.5f} | {row['pooled']:.5f} | {row['bytes'] / 1e6:.2f} | {row['seconds']}"
        words = (row[key] for key in ("model", "method", "inputs", "status", "truth"))
        lines.append(f"| {' | '.join(words)} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="", help="names, with commas between (default: all)")
    parser.add_argument("--sizes", action="store_true", help="also search for the smallest")
    parser.add_argument("--json", type=Path, help="where to write the rows, as they come")
    options = parser.parse_args()
    wanted = options.models.split(",") if options.models else [model.name for model in MODELS]
    rows: list[dict[str, Any]] = []
    onnxruntime.set_default_logger_severity(4)
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            if model.name in wanted:
                rows += judge(model, Path(folder), sizes=options.sizes)
                print(f"{model.name}: {len(rows)} rows", file=sys.stderr, flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
    print(summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
