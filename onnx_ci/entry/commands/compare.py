"""`onnx-ci compare`: two models side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnx_ci.entry.arguments import (
    read_dims,
    read_libraries,
    read_runtimes,
    read_samples,
    read_tolerance,
)
from onnx_ci.entry.output import (
    add_format_arguments,
    add_library_argument,
    add_runtime_argument,
    write_outcome,
)
from onnx_ci.errors import UsageError
from onnx_ci.policy.schema import DEFAULT_TOLERANCE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help="the model to compare with")
    parser.add_argument("second", metavar="B", help="the model that is compared")
    parser.add_argument(
        "--samples", action="append", default=[], metavar="F", help="inputs: .npz, .npy, folders"
    )
    parser.add_argument("--dims", metavar="D", help="sizes of symbolic dims: batch=1,sequence=64")
    parser.add_argument("--tolerance", metavar="T", help="cosine=0.999,max_abs=1e-2 (default: cosine=0.999)")
    add_library_argument(parser)
    add_runtime_argument(parser)
    add_format_arguments(parser)


def run(options: argparse.Namespace) -> int:
    for name in (options.first, options.second):
        if not Path(name).exists():
            raise UsageError(f"there is no file {name!r}", hint="usage: onnx-ci compare A B")
    from onnx_ci.entry.in_flags import in_flags
    from onnx_ci.single import compare_files

    tolerance = read_tolerance(options.tolerance) if options.tolerance else DEFAULT_TOLERANCE
    outcome = compare_files(
        Path(options.first),
        Path(options.second),
        tolerance=tolerance,
        samples=read_samples(options.samples),
        dims=read_dims(options.dims or ""),
        runtimes=read_runtimes(options.runtimes),
        libraries=read_libraries(options.libraries),
    )
    outcome = in_flags(outcome, options.samples)
    write_outcome(outcome, options, title=f"{options.first} against {options.second}")
    return int(outcome.verdict != "ok")
