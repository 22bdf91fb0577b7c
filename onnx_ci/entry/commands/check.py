"""`onnx-ci check`: look, report, change nothing."""

from __future__ import annotations

import argparse

from onnx_ci.entry.gate import add_arguments, run_gate

__all__ = ["add_arguments", "run"]


def run(options: argparse.Namespace) -> int:
    return run_gate("check", options)
