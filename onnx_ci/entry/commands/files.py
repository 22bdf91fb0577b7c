"""`onnx-ci files`: every file that belongs to models, for those who copy or pack them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from onnx_ci.entry.context import Context, context_for, open_context, policy_for
from onnx_ci.entry.gate import select_models
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.policy.match import rule_for
from onnx_ci.targets.select import Wanted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="models, their data files, or folders")
    parser.add_argument("--all", action="store_true", help="of every model")
    parser.add_argument("--null", action="store_true", help="end each name with a NUL, for tar and xargs")
    parser.add_argument("--policy", metavar="FILE", help="policy file (default: .onnx-ci.yaml, found upward)")


def run(options: argparse.Namespace) -> int:
    """All or nothing: nobody is to pack half a model because the list broke off."""
    if bool(options.paths) == options.all:
        raise UsageError("expected PATH or --all, and not both", hint="for example: onnx-ci files --all")
    context = open_context(options.policy)
    selection = select_models(context, Wanted(paths=options.paths, everything=options.all))
    if options.paths and selection.note:
        raise UsageError(selection.note)
    files = dict.fromkeys(file for model in selection.models for file in _files(context, model))
    names = [os.path.relpath(file) for file in files]
    if not options.null and not all("\n" not in name for name in names):
        raise UsageError("a file has a line end in its name", hint="onnx-ci files --null")
    end = b"\0" if options.null else b"\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(os.fsencode(name) + end for name in names))
    return 0


def _files(context: Context, model: Path) -> list[Path]:
    """The model and its data, each there and inside the repository. What a rule ignores need be no model."""
    from onnx_ci.model.external import data_files, opened_files
    from onnx_ci.model.load import open_model

    try:
        with open_model(model, root=context.root) as opened:
            names, there = data_files(opened.proto), set(opened_files(opened))
    except ModelError:
        if not _is_ignored(context, model):
            raise
        return [model]
    for name in names:
        if name not in there:
            raise ModelError(
                f"{os.path.relpath(model)}: {name!r} belongs to it, and is missing or not what it should be",
                hint="restore it: git checkout; git lfs pull; or dvc pull",
            )
    return [model, *(model.parent / name for name in names)]


def _is_ignored(context: Context, model: Path) -> bool:
    ruled = context_for(context, policy_for(context, model.parent))
    inside = model.is_relative_to(ruled.folder)
    rule = rule_for(ruled.policy, model.relative_to(ruled.folder).as_posix()) if inside else None
    return rule is not None and rule.ignore
