"""What `check` and `fix` have in common: select the models, judge them, report."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnx_ci.entry.context import Context, open_context
from onnx_ci.entry.output import add_cache_argument, add_format_arguments, write_run, write_to
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.targets.select import Selection, Wanted, all_models, select

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from onnx_ci.results import RunReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="models, their data files, or folders")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--since", type=_ref, metavar="REF", help="models changed since the merge base with REF"
    )
    which.add_argument("--staged", action="store_true", help="models staged for the next commit")
    which.add_argument("--all", action="store_true", help="every model")
    parser.add_argument("--policy", metavar="FILE", help="policy file (default: .onnx-ci.yaml, found upward)")
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="models at a time (default 1)")
    add_cache_argument(parser)
    add_format_arguments(parser)


def _ref(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a git revision, found nothing")
    return text


def _jobs(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text!r}")
    return int(text)


def run_gate(command: str, options: argparse.Namespace) -> int:
    context = open_context(options.policy)
    selection = _select(context, options)
    if not selection.models and not options.formats:
        # Nothing to do and nobody who reads a report: say so, and load nothing more.
        write_to("".join(f"{note}\n" for note in (*context.notes, selection.note) if note), "")
        return 0
    report = judge_selection(command, context, selection, jobs=options.jobs, cache=options.cache)
    write_run(report, options.formats)
    return report.exit_code


def _select(context: Context, options: argparse.Namespace) -> Selection:
    if options.paths and (options.since or options.staged or options.all):
        raise UsageError(
            "PATH and --since, --staged or --all can't be given together", hint="choose one of them"
        )
    wanted = Wanted(
        paths=tuple(options.paths), since=options.since or "", staged=options.staged, everything=options.all
    )
    return select_models(context, wanted)


def select_models(context: Context, wanted: Wanted) -> Selection:
    return select(wanted, here=context.here, root=context.root, policy=context.policy_path, owns=_owns)


def judge_selection(
    command: str, context: Context, selection: Selection, *, jobs: int = 1, cache: bool = True
) -> RunReport:
    """Judge what was selected; with nothing selected the report is empty."""
    from onnx_ci.results import RunReport

    notes = (*context.notes, *filter(None, [selection.note]))
    if not selection.models:
        return RunReport(command=command, outcomes=(), policy=context.checked.file, notes=notes)
    from onnx_ci.entry.progress import ProgressLine
    from onnx_ci.pipeline import Plan, run

    plan = Plan(
        command=command,
        policy=context.policy,
        folder=context.folder,
        root=context.root,
        models=selection.models,
        everything=lambda: all_models(context.folder),
        repository=context.repository,
        base=selection.base,
        jobs=jobs,
        notes=notes,
        cache=cache,
    )
    progress = ProgressLine()
    try:
        return run(plan, progress)
    finally:
        progress.clear()


def _owns(model: Path, data: Path) -> bool:
    from onnx_ci.model.external import data_files
    from onnx_ci.model.load import read_skeleton

    try:
        names = data_files(read_skeleton(model))
    except ModelError:
        return False
    return any(model.parent / name == data for name in names)
