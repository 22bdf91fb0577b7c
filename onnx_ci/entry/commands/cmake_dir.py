"""`onnx-ci cmake-dir`: where the CMake module is, for CMAKE_MODULE_PATH or OnnxCi_DIR."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(_: argparse.Namespace) -> int:
    sys.stdout.write(f"{Path(__file__).resolve().parents[2] / 'cmake'}\n")
    return 0
