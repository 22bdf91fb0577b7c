"""`onnx-ci check` and `fix`: judge the models of a repository; `plan` and `merge`: by several CI jobs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from onnx_ci.cli import output
from onnx_ci.cli.output import REPORT, flag, format_arguments, value, whole_number, write_run
from onnx_ci.errors import UsageError
from onnx_ci.util.text import one_line, relative_name, shell_path

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from onnx_ci.gate.cluster import Cluster
    from onnx_ci.gate.project import Context
    from onnx_ci.repo.select import Selection
    from onnx_ci.results import RunReport

NAMED = 8  # files of one `git add`; more are named by what git knows


def _ref(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a git revision, found nothing")
    return text


def _jobs(text: str) -> int | None:
    return None if text == "auto" else whole_number(1, 256)(text)


def _shards(text: str) -> int:
    from onnx_ci.gate.project import MOST_SHARDS

    return whole_number(1, MOST_SHARDS)(text)


SELECTION: output.Arguments = (
    "paths",
    [
        value("--since REF", "models changed since the merge base with REF", type=_ref),
        flag("--staged", "models as they are staged (in a pre-push hook: as pushed)"),
        flag("--all", "every model"),
    ],
    flag("--hook", "with --staged: the PATHs, and everything else that is staged"),
    "--policy",
)
WHOSE = "in a pull request or with --since: whose policy decides (default head: the one that is here)"
WHERE = "who judges the models: this machine (local), or the workers of a Dask cluster"
NO_SEARCH = "fail at once, as the hook does: don't look how small a model gets that is over its budget"
GATE = (
    *SELECTION,
    flag("--only-new", "what is wrong with models that did not change is a warning"),
    ("--policy-from", {"choices": ("head", "base"), "default": "head", "help": WHOSE}),
    value("--jobs N", "models at a time (default auto: by processors and free memory)", type=_jobs),
    ("--executor", {"choices": ("local", "dask"), "default": "local", "help": WHERE}),
    value("--scheduler ADDRESS", "of Dask: tcp://HOST:PORT (default: DASK_SCHEDULER_ADDRESS)"),
    value("--shard I/N", "only the I-th of N parts (onnx-ci plan makes them, merge joins them)"),
    value("--plan FILE", "with --shard: the split that `onnx-ci plan --format json` wrote"),
    "--runtime",
    "--no-cache",
    *REPORT,
)
ARGUMENTS = {
    "check": (
        *GATE,
        flag("--no-search", NO_SEARCH, dest="search", action="store_false"),
        flag("--search", "look all the same: undoes --no-search, in the `args` of a hook", default=True),
    ),
    "fix": GATE,
    "plan": (
        value("--shards N", "at most so many jobs", type=_shards, required=True),
        flag(
            "--learned", "by the times of earlier runs in the cache; then give shards the plan: --plan FILE"
        ),
        *SELECTION,
        *format_arguments("text", "json", "github-matrix"),
    ),
    "merge": (value("reports REPORT", "written with --format json", nargs="+"), *REPORT),
}
EXAMPLES = {
    "check": """\
onnx-ci check                               what differs from the last commit, or a pull request's base
onnx-ci check --all --output report.html    all of them, and a page to look at
onnx-ci check --since origin/main -q        in CI: silent where all is well""",
    "fix": """\
onnx-ci fix --all
onnx-ci fix models/encoder.onnx && git add models/encoder.onnx""",
    "plan": "onnx-ci plan --shards 4 --all --format github-matrix",
    "merge": "onnx-ci merge report-1.json report-2.json --output report.html",
}


def _cluster(options: argparse.Namespace) -> Cluster | None:
    """The Dask cluster that was asked for, if one was."""
    if options.executor == "local":
        if options.scheduler:
            raise UsageError("--scheduler belongs to --executor dask", hint="give both, or neither")
        return None
    if options.jobs is not None:
        hint = "how many models a worker has at a time is said where it is started: dask worker --nthreads 1"
        raise UsageError("--jobs and --executor dask can't be given together", hint=hint)
    address = options.scheduler or os.environ.get("DASK_SCHEDULER_ADDRESS", "")
    if not address:
        hint = "--scheduler tcp://HOST:8786, or DASK_SCHEDULER_ADDRESS; on one machine --jobs does the same"
        raise UsageError("--executor dask needs the address of a scheduler", hint=hint)
    from onnx_ci.gate.cluster import Cluster

    return Cluster(address)


def run_gate(options: argparse.Namespace) -> int:
    from onnx_ci.gate.project import Judging, judge_selection, open_context

    context = open_context(options.policy)
    cluster = _cluster(options)
    runtimes: tuple[str, ...] = ()
    if options.runtime:
        from onnx_ci.cli.arguments import read_runtimes

        runtimes = read_runtimes(options.runtime)
    whole = selection = select_asked(context, options)
    shard = None
    if options.shard is not None:
        from onnx_ci.gate.shares import part_of

        selection, shard = part_of(context, whole, options.shard, options.plan or "")
    elif options.plan:
        raise UsageError("--plan belongs to --shard", hint="for example: --shard 1/3 --plan plan.json")
    idle = not selection.models and not whole.gone
    if idle and not options.formats and "history" not in context.checked.values:
        # Nothing to do and nobody who reads a report: say so, and load nothing more.
        notes = filter(None, [*context.notes, selection.note])
        if options.verbosity != "quiet":
            output.write_to("".join(f"{one_line(note)}\n" for note in notes), "")
        return 0
    with output.ProgressLine(options.verbosity, hook=options.hook) as progress:
        judging = Judging(
            jobs=options.jobs,
            cluster=cluster,
            only_new=options.only_new,
            search=getattr(options, "search", True),
            cache=options.cache,
            runtimes=runtimes,
            shard=shard,
            whole=whole,
            policy_from=options.policy_from,
            progress=progress,
        )
        report = judge_selection(options.command, context, selection, judging)
    write_run(report, options)
    if options.command == "fix" and not options.formats and context.repository and context.tree is None:
        output.write_to(_next_step(report, context.root), "")
    return report.exit_code


run_check = run_fix = run_gate


def _next_step(report: RunReport, root: Path) -> str:
    """A fix of the work tree is not in git yet: say how to get it there."""
    from onnx_ci.gate.single import data_paths

    told = {"OCI024", "OCI029"}  # findings that have said it
    fixed = [outcome for outcome in report.outcomes if outcome.written]
    models = [root / one.file for one in fixed if told.isdisjoint(found.code for found in one.findings)]
    files = [file for model in models for file in (model, *data_paths(model)) if file.is_file()]
    if not files:
        return ""
    named = " ".join(map(shell_path, files)) if len(files) <= NAMED else "-u"
    return f"fixed in the work tree; next: git add {named}\n"


def select_asked(context: Context, options: argparse.Namespace) -> Selection:
    from onnx_ci.gate.project import select_models
    from onnx_ci.repo.select import Wanted

    if options.paths and (options.since or options.all):
        raise UsageError("PATH and --since or --all can't be given together", hint="choose one of them")
    if options.hook and not options.staged:
        raise UsageError("--hook belongs to --staged", hint="onnx-ci check --staged --hook PATH")
    wanted = Wanted(
        paths=options.paths,
        since=options.since or "",
        staged=options.staged,
        everything=options.all,
        hook=options.hook,
    )
    return select_models(context, wanted)


def run_plan(options: argparse.Namespace) -> int:
    import json

    from onnx_ci.gate.project import open_context
    from onnx_ci.gate.shares import Parts
    from onnx_ci.report.text import counted
    from onnx_ci.util.sizes import format_size

    context = open_context(options.policy)
    selection = select_asked(context, options)
    parts = Parts(context, selection, options.shards, learned=options.learned)
    filled = sum(map(bool, parts.parts))
    if filled < options.shards:  # no job for nothing, and one at least: a matrix can't be empty
        parts = Parts(context, selection, max(1, filled), learned=options.learned)
    shards, lines = [], []
    for index in range(1, parts.count + 1):
        shard, size = str(parts.shard(index)), parts.size(index)
        models = [relative_name(path, context.root) for path in parts.models(index)]
        seconds = round(parts.cost(index))
        shards.append({"shard": shard, "size": size, "seconds": seconds, "models": models})
        lines.append(f"{shard}  {counted(len(models), 'model')}, {format_size(size)}, about {seconds} s")
        lines += [f"  {one_line(model)}" for model in models]
    matrix = {"include": [{"shard": shard["shard"]} for shard in shards]}
    texts = {
        "text": "\n".join(lines),
        "json": json.dumps({"version": 1, "shards": shards}, indent=2),
        "github-matrix": json.dumps(matrix, separators=(",", ":")),
    }
    output.write_each(options.formats, lambda name, _: f"{texts[name]}\n")
    return 0


def run_merge(options: argparse.Namespace) -> int:
    from onnx_ci.report.read import merged, read_report

    report = merged([(name, read_report(Path(name), name)) for name in options.reports])
    write_run(report, options)
    return report.exit_code
