"""`onnx-ci init`: write a policy from the models that are there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.policy.load import FILE_NAMES
from onnx_ci.policy.write import starter_policy
from onnx_ci.sources import Sources
from onnx_ci.targets.git import find_root
from onnx_ci.targets.select import all_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ratchet",
        action="store_true",
        help="a rule a model, at its size to the byte; then: onnx-ci ratchet",
    )
    parser.add_argument("--force", action="store_true", help="replace a policy file that is already there")


def run(options: argparse.Namespace) -> int:
    repository = find_root(Path.cwd())
    folder = repository or Path.cwd()
    target = folder / FILE_NAMES[0]
    existing = next((folder / name for name in FILE_NAMES if (folder / name).exists()), None)
    if existing is not None and not options.force:
        instead = "onnx-ci ratchet" if options.ratchet else "onnx-ci init --force"
        raise UsageError(f"{existing.name} is already there", hint=f"edit it, or run: {instead}")
    found = all_models(folder, repository)
    with Sources(folder) as sources:  # of what is not here, the size that its pointer names
        models = [(path.relative_to(folder).as_posix(), sources.of(path).size) for path in found]
    try:
        (existing or target).write_text(starter_policy(models, exact=options.ratchet), encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{target.name} could not be written: {error.strerror}") from None
    sys.stdout.write(f"wrote {(existing or target).name} for {len(models)} models\n")
    sys.stdout.write("next: read it, then run: onnx-ci check --all\n")
    return 0
