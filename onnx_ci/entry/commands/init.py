"""`onnx-ci init`: write a policy from the models that are there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.policy.load import FILE_NAMES
from onnx_ci.policy.write import starter_policy
from onnx_ci.targets.git import find_root
from onnx_ci.targets.select import all_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace a policy file that is already there")


def run(options: argparse.Namespace) -> int:
    folder = find_root(Path.cwd()) or Path.cwd()
    target = folder / FILE_NAMES[0]
    existing = next((folder / name for name in FILE_NAMES if (folder / name).exists()), None)
    if existing is not None and not options.force:
        raise UsageError(f"{existing.name} is already there", hint="edit it, or run: onnx-ci init --force")
    models = [(path.relative_to(folder).as_posix(), _size(path)) for path in all_models(folder)]
    try:
        (existing or target).write_text(starter_policy(models), encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{target.name} could not be written: {error.strerror}") from None
    sys.stdout.write(f"wrote {(existing or target).name} for {len(models)} models\n")
    sys.stdout.write("next: read it, then run: onnx-ci check --all\n")
    return 0


def _size(path: Path) -> int:
    """With external data where the model can be read; a budget for a broken file is its plain size."""
    from onnx_ci.model.load import read_skeleton
    from onnx_ci.model.measure import files_of

    try:
        files = files_of(path, read_skeleton(path))
    except ModelError:
        files = [path]
    return sum(file.stat().st_size for file in files if file.exists())
