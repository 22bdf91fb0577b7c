"""`onnx-ci methods`: the catalogue, with the options of each method."""

from __future__ import annotations

import argparse
import sys
from dataclasses import MISSING, fields

from onnx_ci.methods.catalogue import METHODS, Method


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    if options.format == "json":
        from onnx_ci.report.json import dumps

        sys.stdout.write(dumps({"methods": [_described(method) for method in METHODS]}))
        return 0
    width = max(len(method.name) for method in METHODS)
    for method in METHODS:
        sys.stdout.write(f"{method.name:<{width}}  {method.fidelity:<14}  {method.summary}\n")
        for name, default in _options(method).items():
            sys.stdout.write(f"{'':<{width}}                  {name}: {default}\n")
    return 0


def _described(method: Method) -> dict[str, object]:
    return {
        "name": method.name,
        "fidelity": method.fidelity,
        "summary": method.summary,
        "options": _options(method),
    }


def _options(method: Method) -> dict[str, object]:
    return {item.name: item.default for item in fields(method.option_class) if item.default is not MISSING}
