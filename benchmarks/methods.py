"""Every method of the catalogue and every peer on real models: size, time, memory, error and latency."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import models
import peers
from environments import SetupError
from foundation import shrink
from harness import Contender, FailedRunError, Figures, median, run_once

from onnx_ci.methods.catalogue import METHODS, Method

if TYPE_CHECKING:
    from onnx_ci.verify.verifier import Verifier

LEVEL = 9  # of both compressors, as budgets have it
CHUNK = 1 << 20
COLUMNS = ("contender", "MB", "gzip", "brotli", "wall s", "peak MB", "SQNR dB", "cosine", "latency", "note")


Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Error:
    """How far the worst output moved, and the time of an inference relative to the original's."""

    exact: bool = False
    sqnr: float | None = None
    cosine: float | None = None
    latency: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one contender; None where it could not be measured."""

    name: str
    files: tuple[int, int, int] | None = None  # bytes, gzip, brotli
    figures: Figures | None = None
    error: Error = field(default_factory=Error)


def our_command(method: Method, source: Path, target: Path) -> list[str]:
    """Peers do not verify, so neither do we; what calibrates needs the inputs that verification makes."""
    options = ("--tolerance", "sqnr=1") if method.wants_feeds else ("--no-verify",)
    return shrink(source, target, "--methods", method.name, *options)


def contenders(
    source: Path, scratch: Path, wanted: Sequence[str], rivals: Sequence[str]
) -> Iterator[Contender]:
    """Each writes to a folder of its own, so that all its files can be counted."""
    for name in (*wanted, *rivals):
        target = scratch / name / "model.onnx"
        target.parent.mkdir()
        ours = next((method for method in METHODS if method.name == name), None)
        call = our_command(ours, source, target) if ours else peers.command(name, source, target)
        yield Contender(name=f"**{name}**" if ours else name, command=call, output=target)


def measured(contender: Contender, source: Path, repeats: int) -> Row:
    try:
        # The first is not counted: it fills the disk cache and compiles modules.
        runs = [run_anew(contender) for _ in range(repeats + 1)][1:]
    except FailedRunError as error:
        words = str(error).strip().splitlines()
        return Row(name=contender.name, error=Error(note=f"fails: {words[-1]}"))
    target = contender.output or source
    return Row(
        name=contender.name,
        files=apart(sizes, written(target)),
        figures=Figures(wall=median(runs, "wall"), memory=median(runs, "memory")),
        error=apart(compare, source, target),
    )


def run_anew(contender: Contender) -> Figures:
    """What an earlier run left beside the model is not written over, so it has to go first."""
    for file in written(contender.output) if contender.output else []:
        file.unlink()
    return run_once(contender)


def written(target: Path) -> list[Path]:
    """Every file a contender left: the model, its data, its arrays."""
    return [file for file in sorted(target.parent.iterdir()) if file.is_file()]


def sizes(files: Sequence[Path]) -> tuple[int, int, int]:
    import brotli

    total = zipped = brotlied = 0
    for file in files:
        gzip, better = zlib.compressobj(LEVEL, wbits=31), brotli.Compressor(quality=LEVEL)
        with file.open("rb") as opened:
            while piece := opened.read(CHUNK):
                total += len(piece)
                zipped += len(gzip.compress(piece))
                brotlied += len(better.process(piece))
        zipped += len(gzip.flush())
        brotlied += len(better.finish())
    return total, zipped, brotlied


def compare(source: Path, target: Path) -> Error:
    """What our own verification finds, for any contender on the same inputs, whatever else it changed."""
    return distances(source, [target], timed=1)[0]


def distances(
    source: Path, targets: Sequence[Path], enough: float = math.inf, *, timed: int = 0
) -> list[Error]:
    """The same for several contenders in turn, up to the first whose cosine is `enough`; latencies are the
    median of so many measurements."""
    from onnx_ci.model.load import open_model
    from onnx_ci.policy.schema import InputSpec, Limits
    from onnx_ci.sandbox.runner import Runner
    from onnx_ci.verify.reference import Reference
    from onnx_ci.verify.verifier import Verifier

    os.chdir(source.parent)  # not a checkout: the worker imports nothing from the folder it is started in
    errors: list[Error] = []
    with open_model(source) as before, Runner() as runner:
        reference = Reference(runner, source, before.proto, spec=InputSpec(), limits=Limits(), root=Path("/"))
        verifier = Verifier(reference)
        for target in targets:
            errors.append(_distance(verifier, target, timed))
            if (errors[-1].cosine or 0) >= enough:
                break
    return errors


def _distance(verifier: Verifier, target: Path, timed: int) -> Error:
    from onnx_ci.errors import ModelError
    from onnx_ci.gate.single import OWN_AFFAIRS
    from onnx_ci.model.interface import TOPICS, contract_breaks
    from onnx_ci.model.load import open_model
    from onnx_ci.model.model import values_beside
    from onnx_ci.policy.schema import Tolerance
    from onnx_ci.verify.verifier import Claim

    try:
        with open_model(target) as after:
            extra = values_beside(after)
            claim = Claim(
                path=target, proto=after.proto, tolerance=Tolerance(cosine=-1), allowed=TOPICS, extra=extra
            )
            found = verifier.check(claim)
            if not found.outputs:
                return Error(note=found.reason)
            own = (*OWN_AFFAIRS, "inputs") if extra else OWN_AFFAIRS
            ratios = [verifier.latency(claim).ratio for _ in range(timed)]
            breaks = contract_breaks(verifier.reference.proto, after.proto, allow=own)
            return Error(
                exact=all(output.exact for output in found.outputs),
                sqnr=min(output.sqnr for output in found.outputs),
                cosine=min(output.cosine for output in found.outputs),
                latency=statistics.median(ratios) if ratios else None,
                note="; ".join([found.reason, *breaks]),
            )
    except ModelError as error:
        return Error(note=error.message)


def apart(work: Callable[..., Result], *arguments: object) -> Result:
    """Do it in a process of its own: what this one holds would count as its children's peak memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def cells(row: Row) -> list[str]:
    files = [f"{size / 1e6:.2f}" for size in row.files or ()] or [""] * 3
    figures = [f"{row.figures.wall:.2f}", f"{row.figures.memory:.0f}"] if row.figures else ["", ""]
    error = row.error
    sqnr = "identical" if error.exact else "" if error.sqnr is None else f"{error.sqnr:.1f}"
    cosine = "" if error.cosine is None else f"{error.cosine:.6f}"
    latency = "" if error.latency is None else f"{error.latency:.2f}x"
    note = " ".join(error.note.strip("; ").split())[:90].replace("|", "/")
    return [row.name, *files, *figures, sqnr, cosine, latency, note]


def table(name: str, wanted: Sequence[str], rivals: Sequence[str], repeats: int) -> None:
    """Print the rows as they are measured: a run over all models takes a while."""
    source = models.fetch(name)
    print(f"### {name}\n\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
    print(f"| {' | '.join(cells(Row(name='original', files=apart(sizes, [source]))))} |", flush=True)
    with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as scratch:
        for contender in contenders(source, Path(scratch), wanted, rivals):
            print(f"| {' | '.join(cells(measured(contender, source, repeats)))} |", flush=True)
    print(flush=True)


def listed(text: str, known: Sequence[str], what: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SetupError(f"no {what} is called {unknown[0]!r}; there are {', '.join(known)}")
    return names


def main(argv: Sequence[str] | None = None) -> int:
    ours, rivals = [method.name for method in METHODS], list(peers.COMMANDS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(models.NAMES), metavar="a,b", help="default: all")
    parser.add_argument("--methods", default=",".join(ours), metavar="a,b", help="ours; default: all")
    parser.add_argument("--peers", default=",".join(rivals), metavar="a,b", help="default: all")
    parser.add_argument("--repeats", type=int, default=3, help="counted runs of each (default 3)")
    args = parser.parse_args(argv)
    try:
        wanted = listed(args.methods, ours, "method")
        against = listed(args.peers, rivals, "peer")
        for name in listed(args.models, models.NAMES, "model"):
            table(name, wanted, against, args.repeats)
    except SetupError as error:
        print(f"methods: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
