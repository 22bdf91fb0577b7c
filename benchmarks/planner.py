"""The planner against the peers: the smallest file that each gives within the same tolerance."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import models
import peers
from environments import SetupError
from foundation import shrink
from harness import Contender, FailedRunError, run_once
from methods import Error, apart, compare, listed, written

TOLERANCES = (0.999, 0.99)
METHODS = "dedupe,drop-unused,strip-docs,fold-constants,compact,fp16-weights,int8-weights,int4-weights"
COLUMNS = (
    *("model", "MB", "cosine", "ours MB", "best peer", "its MB", "ours / its", "latency"),
    *("tensors", "trials", "plan s"),
)


@dataclass(frozen=True, kw_only=True)
class Rival:
    """What a peer made of a model: all the files it wrote, and how far outputs moved."""

    name: str
    size: int
    error: Error


def rivals(source: Path, scratch: Path) -> Iterator[Rival]:
    """Those that run at all, the original among them: it needs no tolerance."""
    yield Rival(name="none", size=source.stat().st_size, error=Error(cosine=1.0))
    for number, name in enumerate(peers.ROUNDING):
        target = scratch / str(number) / "model.onnx"
        target.parent.mkdir()
        contender = Contender(name=name, command=peers.rounding_command(name, source, target), output=target)
        try:
            run_once(contender)
        except FailedRunError as error:
            print(f"{source.stem}: {name} fails: {str(error).splitlines()[-1][:150]}", file=sys.stderr)
            continue
        size = sum(file.stat().st_size for file in written(target))
        yield Rival(name=name, size=size, error=apart(compare, source, target))


def ours(source: Path, target: Path, cosine: float) -> dict[str, object]:
    options = ("--methods", METHODS, "--tolerance", f"cosine={cosine}")
    command = [*shrink(source, target, *options), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def rows(name: str) -> Iterator[list[str]]:
    source = models.fetch(name)
    with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as folder:
        scratch = Path(folder)
        field = list(rivals(source, scratch))
        for cosine in TOLERANCES:
            target = scratch / f"ours-{cosine}.onnx"
            report = ours(source, target, cosine)
            size = target.stat().st_size
            held = [one for one in field if one.error.cosine is not None and one.error.cosine >= cosine]
            best = min(held, key=lambda one: one.size)
            plan = report.get("plan") or {}
            yield [
                *(name, megabytes(source.stat().st_size), str(cosine), megabytes(size)),
                *(best.name, megabytes(best.size), f"{size / best.size:.2f}"),
                f"{apart(compare, source, target).latency or 0:.2f}x",
                *(str(plan.get(key, "")) for key in ("tensors", "trials", "seconds")),  # type: ignore[attr-defined]
            ]


def megabytes(size: int) -> str:
    return f"{size / 1e6:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(models.NAMES), metavar="a,b", help="default: all")
    args = parser.parse_args(argv)
    try:
        print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
        for name in listed(args.models, models.NAMES, "model"):
            for row in rows(name):
                print(f"| {' | '.join(row)} |", flush=True)
    except SetupError as error:
        print(f"planner: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
