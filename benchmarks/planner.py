"""The planner against the peers: the smallest file that each gives within the same tolerance.

What peers made is kept in the cache folder, so that another run costs no more than our part."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import harness
import models
from environments import SetupError
from foundation import onnx_ci, shrink
from methods import apart, distances, listed
from rounded import Rounded, rounded

TOLERANCES = (0.999, 0.99)
METHODS = "dedupe,drop-unused,strip-docs,fold-constants,compact,fp16-weights,int8-weights,int4-weights"
SIMPLIFIED = f"simplify,{METHODS}"  # where a peer is smaller: some of them simplify first
COLUMNS = (
    *("model", "MB", "cosine", "ours MB", "best peer", "its MB", "ours / its", "latency"),
    *("tensors", "trials", "plan s"),
)
MEASURED = 5  # times that latency is measured: the median counts
REFUSED = 4  # peers below ours that are taken through our proof, at the most


@dataclass(frozen=True, kw_only=True)
class Rival:
    """What a peer made of a model, and how far outputs moved."""

    name: str
    size: int
    cosine: float
    file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at one tolerance: our file against the smallest of a peer that holds the same cosine."""

    model: str
    original: int
    cosine: float
    ours: int
    peer: str
    its: int
    latency: float | None
    plan: dict[str, object]
    methods: str  # ours
    refused: dict[str, str]  # peers that are below ours and that our proof refuses, and why
    proven: str = ""  # the smallest peer below ours that our proof lets pass
    proven_size: int = 0

    def cells(self) -> list[str]:
        return [
            *(self.model, megabytes(self.original), str(self.cosine)),
            megabytes(self.ours) + ("" if self.methods == METHODS else ", simplified"),
            *(self.peer, megabytes(self.its), f"{self.ours / self.its:.3f}"),
            "" if self.latency is None else f"{self.latency:.2f}x",
            *(str(self.plan.get(key, "")) for key in ("tensors", "trials", "seconds")),
        ]


def rivals(source: Path) -> list[Rival]:
    """Those that may be the best, smallest first: none is looked at behind one that holds every tolerance.
    The original is the last: it needs no tolerance."""
    field = [one for one in known(source) if one.file]
    field.sort(key=lambda one: one.size)
    measured: list[Rival] = []
    files = [one.file for one in field]
    for one, error in zip(field, apart(distances, source, files, max(TOLERANCES)), strict=False):
        if error.cosine is None:
            say(f"{source.stem}: what {one.setting} made can't be run: {error.note[:150]}")
            continue
        say(f"{source.stem}: {one.setting}: {megabytes(one.size)} MB, cosine {error.cosine:.6f}")
        measured.append(Rival(name=one.setting, size=one.size, cosine=error.cosine, file=one.file))
    return [*measured, Rival(name="none", size=source.stat().st_size, cosine=1.0)]


def known(source: Path) -> Iterator[Rounded]:
    for one in rounded(source, (onnx_ci(), "samples")):
        if one.failure:
            say(f"{source.stem}: {one.setting} fails: {one.failure[:150]}")
        elif one.file is None:
            say(f"{source.stem}: {one.setting} gains nothing: {megabytes(one.size)} MB")
        yield one


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def ours(source: Path, target: Path, cosine: float, methods: str) -> dict[str, object]:
    options = ("--methods", methods, "--tolerance", f"cosine={cosine}", "--no-cache", "--format", "json")
    return reported(shrink(source, target, *options), target.parent, codes=(0,))


def reported(command: Sequence[str], folder: Path, codes: Sequence[int]) -> dict[str, object]:
    done = subprocess.run(
        command, cwd=folder, env=harness.environment(), capture_output=True, text=True, check=False
    )
    if done.returncode not in codes:
        raise SetupError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def refusal(source: Path, rival: Rival, cosine: float, scratch: Path) -> str:
    """Why our whole proof refuses what a peer made; empty where it does not."""
    command = [onnx_ci(), "compare", str(source), str(rival.file), "--tolerance", f"cosine={cosine}"]
    report = reported([*command, "--format", "json"], scratch, codes=(0, 1, 2, 3))
    verification = report.get("verification") or {}
    if not isinstance(verification, dict) or verification.get("status") == "passed":
        return ""
    return str(verification.get("reason") or verification.get("status"))


def rows(name: str) -> Iterator[Row]:
    source = models.fetch(name)
    field = rivals(source)
    with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as folder:
        scratch = Path(folder)
        for cosine in TOLERANCES:
            target = scratch / f"ours-{cosine}.onnx"
            report, methods = ours(source, target, cosine, METHODS), METHODS
            size = target.stat().st_size
            held = sorted((one for one in field if one.cosine >= cosine), key=lambda one: one.size)
            if size > held[0].size:
                say(f"{name} at {cosine}: {megabytes(size)} MB is above {held[0].name}: simplified first")
                other = scratch / f"simplified-{cosine}.onnx"
                simplified = ours(source, other, cosine, SIMPLIFIED)
                if other.stat().st_size < size:
                    report, methods, target = simplified, SIMPLIFIED, other
                    size = target.stat().st_size
            refused: dict[str, str] = {}
            proven = None
            for one in [one for one in held if one.size < size][:REFUSED]:
                reason = refusal(source, one, cosine, scratch)
                if not reason:
                    proven = one
                    break
                refused[one.name] = reason
            plan = report.get("plan")
            yield Row(
                model=name,
                original=source.stat().st_size,
                cosine=cosine,
                ours=size,
                peer=held[0].name,
                its=held[0].size,
                latency=apart(timed, source, target),
                plan=plan if isinstance(plan, dict) else {},
                methods=methods,
                refused=refused,
                proven=proven.name if proven else "",
                proven_size=proven.size if proven else 0,
            )


def timed(source: Path, target: Path) -> float | None:
    """The time of an inference relative to the original's: on a busy machine one measurement says little."""
    return distances(source, [target], timed=MEASURED)[0].latency


def megabytes(size: int) -> str:
    return f"{size / 1e6:.3f}"


def summary(done: Sequence[Row]) -> None:
    """The mean at each tolerance, and where a peer is smaller, with what our proof says of it."""
    for cosine in TOLERANCES:
        shares = [row.ours / row.its for row in done if row.cosine == cosine]
        if shares:
            mean = math.exp(sum(map(math.log, shares)) / len(shares))
            slowest = max((row.latency or 0.0 for row in done if row.cosine == cosine), default=0.0)
            print(
                f"\n{cosine}: {mean:.3f} of the best peer at the geometric mean of {len(shares)} models;"
                f" {sum(share > 1 for share in shares)} above; latency {slowest:.2f}x at the most"
            )
    for row in done:
        if row.ours > row.its:
            print(f"above at {row.cosine}: {row.model}, {row.ours / row.its:.3f} of {row.peer}")
            for name, reason in row.refused.items():
                print(f"  our proof refuses {name}: {reason}")
            if row.proven:
                print(f"  our proof lets {row.proven} pass: ours is {row.ours / row.proven_size:.3f} of it")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="", metavar="a,b", help="default: all, smallest first")
    parser.add_argument("--json", type=Path, metavar="F", help="write the rows there, too")
    args = parser.parse_args(argv)
    done: list[Row] = []
    failures: dict[str, str] = {}
    try:
        names = listed(args.models, models.NAMES, "model") or by_size(failures)
        print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
        for name in names:
            try:
                for row in rows(name):
                    print(f"| {' | '.join(row.cells())} |", flush=True)
                    done.append(row)
            except (SetupError, OSError, ValueError) as error:
                failures[name] = str(error)
            if args.json:
                args.json.write_text(json.dumps([asdict(row) for row in done], indent=1))
    except SetupError as error:
        print(f"planner: {error}", file=sys.stderr)
        return 3
    summary(done)
    for name, words in failures.items():
        print(f"{name} has no row: {words}")
    return 1 if failures else 0


def by_size(failures: dict[str, str]) -> list[str]:
    """All models that can be had, smallest first, so that rows arrive early."""
    sizes = {}
    for name in models.NAMES:
        try:
            sizes[name] = models.fetch(name).stat().st_size
        except SetupError as error:
            failures[name] = str(error)
    return sorted(sizes, key=lambda name: sizes[name])


if __name__ == "__main__":
    sys.exit(main())
