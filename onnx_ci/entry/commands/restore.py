"""`onnx-ci restore`: extracted tensors and external data back into one file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.report.style import one_line
from onnx_ci.sizes import format_size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="MODEL", help="a model with its data or .npy files beside it")
    parser.add_argument("target", metavar="OUT", help="the file to write; MODEL itself to do it in place")


def run(options: argparse.Namespace) -> int:
    source, target = Path(options.source), Path(options.target)
    if not source.exists():
        raise UsageError(f"there is no file {options.source!r}", hint="usage: onnx-ci restore MODEL OUT")
    from onnx_ci.methods.restore import restore_file
    from onnx_ci.single import check_target

    check_target(source, target)
    count = restore_file(source, target)
    size = format_size(target.stat().st_size)
    sys.stdout.write(f"{one_line(options.target)}: {size} in one file, {count} tensors put back\n")
    return 0
