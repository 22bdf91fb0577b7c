"""`onnx-ci schema`: the JSON schema of the policy file, for editors."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(_: argparse.Namespace) -> int:
    from onnx_ci.methods.catalogue import option_schemas
    from onnx_ci.policy.json_schema import json_schema
    from onnx_ci.report.json import dumps

    sys.stdout.write(dumps(json_schema(option_schemas())))
    return 0
