"""`onnx-ci check` and `onnx-ci fix`: judge the models of a repository by their policies."""

from __future__ import annotations

import argparse

from onnx_ci.cli.output import REPORT, ProgressLine, flag, value, whole_number, write_run, write_to
from onnx_ci.errors import UsageError
from onnx_ci.gate.project import Context, Judging, judge_selection, open_context, select_models
from onnx_ci.repo.select import Selection, Wanted
from onnx_ci.util.text import one_line

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from onnx_ci.cli.output import Arguments
    from onnx_ci.results import Command


def _ref(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a git revision, found nothing")
    return text


SELECTION: Arguments = (
    "paths",
    [
        value("--since", "REF", "models changed since the merge base with REF", type=_ref),
        flag("--staged", "models as they are staged (in a pre-push hook: as pushed)"),
        flag("--all", "every model"),
    ],
    flag("--hook", "with --staged: the PATHs, and everything else that is staged"),
    "--policy",
)
WHOSE = "in a pull request or with --since: whose policy decides (default head: the one that is here)"
GATE = (
    *SELECTION,
    flag("--only-new", "what is wrong with models that did not change is a warning"),
    ("--policy-from", {"choices": ("head", "base"), "default": "head", "help": WHOSE}),
    value("--jobs", "N", "models at a time (default 1)", type=whole_number(1, 256), default=1),
    value("--shard", "I/N", "only the I-th of N parts (onnx-ci plan makes them, merge joins them)"),
    "--runtime",
    "--no-cache",
    *REPORT,
)
ARGUMENTS = {"check": GATE, "fix": GATE}


def run_gate(command: Command, options: argparse.Namespace) -> int:
    context = open_context(options.policy)
    runtimes: tuple[str, ...] = ()
    if options.runtime:
        from onnx_ci.cli.arguments import read_runtimes

        runtimes = read_runtimes(options.runtime)
    whole = selection = select_asked(context, options)
    shard = None
    if options.shard is not None:
        from onnx_ci.gate.shares import part_of

        selection, shard = part_of(context, whole, options.shard)
    if not selection.models and not options.formats and "history" not in context.checked.values:
        # Nothing to do and nobody who reads a report: say so, and load nothing more.
        notes = filter(None, [*context.notes, selection.note])
        write_to("".join(f"{one_line(note)}\n" for note in notes), "")
        return 0
    with ProgressLine() as progress:
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
        report = judge_selection(command, context, selection, judging)
    write_run(report, options)
    return report.exit_code


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
