"""`onnx-ci restore`: external data back into one file, or the model as it was before it was shrunk."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.report.style import one_line
from onnx_ci.sizes import format_size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="a model with its data or .npy files beside it")
    parser.add_argument(
        "target",
        metavar="OUT",
        nargs="?",
        help="the file to write; MODEL itself to do it in place (with --original the default)",
    )
    parser.add_argument(
        "--original", action="store_true", help="the model as it was before onnx-ci shrank it"
    )


def run(options: argparse.Namespace) -> int:
    source = Path(options.source)
    if not source.exists():
        raise UsageError(f"there is no file {options.source!r}", hint="usage: onnx-ci restore MODEL OUT")
    if options.target is None and not options.original:
        raise UsageError(
            "OUT is missing: the file to write", hint="to have the model before it was shrunk: --original"
        )
    from onnx_ci.single import check_target

    target = Path(options.target or options.source)
    check_target(source, target)
    if options.original:
        return _restore_original(source, target)
    from onnx_ci.methods.restore import restore_file

    count = restore_file(source, target)
    size = format_size(target.stat().st_size)
    sys.stdout.write(f"{one_line(options.target)}: {size} in one file, {count} tensors put back\n")
    return 0


def _restore_original(source: Path, target: Path) -> int:
    from onnx_ci.original import restore_original
    from onnx_ci.report.words import PLACES
    from onnx_ci.targets.git import find_root, repository_of

    here = find_root(Path.cwd())
    state, size = restore_original(source, target, repository_of(source.resolve().parent, here))
    place = f"{PLACES[state.place]} ({one_line(state.where)})"
    told = f"{format_size(size)}, as it was before it was shrunk, from {place}"
    sys.stdout.write(f"{one_line(str(target))}: {told}\n")
    return 0
