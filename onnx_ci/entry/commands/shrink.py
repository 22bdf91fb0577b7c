"""`onnx-ci shrink`: one model to a new file, without a policy."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnx_ci.entry.arguments import read_budget, read_methods, read_tolerance
from onnx_ci.entry.output import add_cache_argument, add_format_arguments, write_outcome
from onnx_ci.errors import UsageError
from onnx_ci.model.hashing import BackgroundHash
from onnx_ci.policy.schema import DEFAULT_TOLERANCE
from onnx_ci.request import Request
from onnx_ci.results import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="the model to shrink; it is left as it is")
    parser.add_argument("target", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--methods",
        default="",
        metavar="a,b",
        help="methods, mildest first, options after colons: dedupe,int8-weights:min_elements=4096"
        " (default: the exact ones; with --budget those that encode weights too)",
    )
    parser.add_argument("--budget", metavar="SIZE", help="no more loss than this size needs: 25MB")
    parser.add_argument("--tolerance", metavar="T", help="cosine=0.999,max_abs=1e-2 (default: cosine=0.999)")
    parser.add_argument(
        "--samples", action="append", default=[], metavar="F", help="inputs: .npz, .npy, folders"
    )
    parser.add_argument("--no-verify", action="store_true", help="write without running the models")
    add_cache_argument(parser)
    add_format_arguments(parser)


def run(options: argparse.Namespace) -> int:
    source = Path(options.source)
    if not source.exists():
        raise UsageError(f"there is no file {options.source!r}", hint="usage: onnx-ci shrink IN OUT")
    request = Request(
        source=source,
        target=Path(options.target),
        methods=read_methods(options.methods),
        budget=read_budget(options.budget) if options.budget else None,
        tolerance=read_tolerance(options.tolerance) if options.tolerance else DEFAULT_TOLERANCE,
        samples=tuple(options.samples),
        verify=not options.no_verify,
        cache=options.cache,
    )
    # Hashing a large file takes as long as loading all the rest: let them run side by side.
    hashing = BackgroundHash(source) if request.identify else None
    outcome = _shrink(request, hashing)
    write_outcome(outcome, options.formats, title=f"{options.source} -> {options.target}")
    return int(any(finding.severity == "error" for finding in outcome.findings))


def _shrink(request: Request, hashing: BackgroundHash | None) -> Outcome:
    from onnx_ci.entry.progress import ProgressLine
    from onnx_ci.single import shrink_file

    progress = ProgressLine()
    try:
        return shrink_file(request, lambda doing: progress(0, 1, str(request.source), doing), hashing)
    finally:
        progress.clear()
