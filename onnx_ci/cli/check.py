"""`onnx-ci check`: look, report, change nothing."""

from __future__ import annotations

import argparse

from onnx_ci.cli.output import (
    add_cache_argument,
    add_format_arguments,
    add_runtime_argument,
    write_run,
    write_to,
)
from onnx_ci.errors import UsageError
from onnx_ci.gate.project import (
    Context,
    Judging,
    judge_selection,
    open_context,
    select_models,
)
from onnx_ci.repo.select import Selection, Wanted

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    pass


_MOST_JOBS = 256


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    add_selection_arguments(parser)
    parser.add_argument(
        "--only-new", action="store_true", help="what is wrong with models that did not change is a warning"
    )
    parser.add_argument(
        "--policy-from",
        choices=("head", "base"),
        default="head",
        help="in a pull request or with --since: whose policy decides (default head: the one that is here)",
    )
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="models at a time (default 1)")
    parser.add_argument(
        "--shard", metavar="I/N", help="only the I-th of N parts (onnx-ci plan makes them, merge joins them)"
    )
    add_runtime_argument(parser)
    add_cache_argument(parser)
    add_format_arguments(parser)


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="models, their data files, or folders")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--since", type=_ref, metavar="REF", help="models changed since the merge base with REF"
    )
    which.add_argument(
        "--staged", action="store_true", help="models as they are staged (in a pre-push hook: as pushed)"
    )
    which.add_argument("--all", action="store_true", help="every model")
    parser.add_argument(
        "--hook", action="store_true", help="with --staged: the PATHs, and everything else that is staged"
    )
    parser.add_argument("--policy", metavar="FILE", help="policy file (default: .onnx-ci.yaml, found upward)")


def _ref(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a git revision, found nothing")
    return text


def _jobs(text: str) -> int:
    if not text.isdecimal() or len(text) > 3 or not 1 <= int(text) <= _MOST_JOBS:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {_MOST_JOBS}, found {text!r}")
    return int(text)


def run_gate(command: str, options: argparse.Namespace) -> int:
    context = open_context(options.policy)
    runtimes = _runtimes(options)
    whole = selection = select_asked(context, options)
    shard = None
    if options.shard is not None:
        from onnx_ci.gate.shards import part_of

        selection, shard = part_of(context, whole, options.shard)
    if not selection.models and not options.formats and "history" not in context.checked.values:
        # Nothing to do and nobody who reads a report: say so, and load nothing more.
        _say_notes(*context.notes, selection.note)
        return 0
    from onnx_ci.cli.progress import ProgressLine

    progress = ProgressLine()
    judging = Judging(
        jobs=options.jobs,
        only_new=options.only_new,
        cache=options.cache,
        runtimes=runtimes,
        shard=shard,
        whole=whole,
        policy_from=options.policy_from,
        progress=progress,
    )
    try:
        report = judge_selection(command, context, selection, judging)
    finally:
        progress.clear()
    write_run(report, options)
    return report.exit_code


def _runtimes(options: argparse.Namespace) -> tuple[str, ...]:
    if not options.runtimes:
        return ()
    from onnx_ci.cli.arguments import read_runtimes

    return read_runtimes(options.runtimes)


def _say_notes(*notes: str) -> None:
    """File names are in them."""
    lines = [note for note in notes if note]
    if not all(line.isprintable() and "##" not in line for line in lines):
        from onnx_ci.util.text import one_line

        lines = list(map(one_line, lines))
    write_to("".join(f"{line}\n" for line in lines), "")


def select_asked(context: Context, options: argparse.Namespace) -> Selection:
    if options.paths and (options.since or options.all):
        raise UsageError("PATH and --since or --all can't be given together", hint="choose one of them")
    if options.hook and not options.staged:
        raise UsageError("--hook belongs to --staged", hint="onnx-ci check --staged --hook -- PATH")
    wanted = Wanted(
        paths=options.paths,
        since=options.since or "",
        staged=options.staged,
        everything=options.all,
        hook=options.hook,
    )
    return select_models(context, wanted)


def run_check(options: argparse.Namespace) -> int:
    return run_gate("check", options)


def run_fix(options: argparse.Namespace) -> int:
    return run_gate("fix", options)


add_fix_arguments = add_check_arguments
