"""Compressed sizes: what a search for them finds, against what a plain search finds once it is compressed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import models
from environments import SetupError
from foundation import shrink
from methods import listed
from planner import METHODS, reported

from onnx_ci.model.measure import compressed_size

COMPRESSORS = ("gzip", "brotli", "zstd")
DEFAULT = "ppocr-cls,silero-legacy,magika,ppocr-det,nsnet2"
COLUMNS = ("model", "cosine", "compressor", "plain search", "search for it", "ratio", "MB on disk", "with it")
POLICY = """\
version: 1
models:
  - path: "*.onnx"
    budget: {budget}
    shrink: smallest
    methods: [{methods}]
    tolerance: {{cosine: {cosine}}}
"""


def shrunk(source: Path, scratch: Path, budget: str, cosine: float) -> Path:
    """The smallest that is proven under a policy with this budget."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    policy, target = folder / "policy.yaml", folder / "out.onnx"
    policy.write_text(POLICY.format(budget=budget, methods=METHODS.replace(",", ", "), cosine=cosine))
    shutil.copy(source, folder / "model.onnx")
    command = shrink(folder / "model.onnx", target, "--policy", str(policy), "--no-cache", "--format", "json")
    reported(command, folder, codes=(0,))
    return target


def rows(name: str, cosine: float, compressors: Sequence[str]) -> Iterator[list[str]]:
    source = models.fetch(name)
    with tempfile.TemporaryDirectory(prefix="onnx-ci-bench-") as folder:
        plain = shrunk(source, Path(folder), "{size: 1 GB}", cosine)
        for compressor in compressors:
            found = shrunk(source, Path(folder), f"{{{compressor}: 1 GB}}", cosine)
            before, after = (compressed_size(compressor, [file]) for file in (plain, found))
            disk = [f"{file.stat().st_size / 1e6:.3f}" for file in (plain, found)]
            yield [name, str(cosine), compressor, f"{before:,}", f"{after:,}", f"{after / before:.3f}", *disk]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=DEFAULT, metavar="a,b", help=f"default: {DEFAULT}")
    parser.add_argument("--compressors", default=",".join(COMPRESSORS), metavar="a,b", help="default: all")
    parser.add_argument("--cosine", type=float, default=0.999)
    args = parser.parse_args(argv)
    try:
        names = listed(args.models, models.NAMES, "model")
        compressors = listed(args.compressors, COMPRESSORS, "compressor")
        print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|", flush=True)
        for name in names:
            for row in rows(name, args.cosine, compressors):
                print(f"| {' | '.join(row)} |", flush=True)
    except SetupError as error:
        print(f"compressed: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
