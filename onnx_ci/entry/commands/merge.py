"""`onnx-ci merge`: the JSON reports of several runs as one."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnx_ci.entry.output import add_format_arguments, write_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="written with --format json")
    add_format_arguments(parser)


def run(options: argparse.Namespace) -> int:
    from onnx_ci.report.merge import merged
    from onnx_ci.report.read import read_report

    report = merged([(name, read_report(Path(name), name)) for name in options.reports])
    write_run(report, options)
    return report.exit_code
