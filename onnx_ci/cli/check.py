"""`onnx-ci check`: look, report, change nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.cli.arguments import (
    add_cache_argument,
    add_format_arguments,
    add_runtime_argument,
    write_run,
    write_to,
)
from onnx_ci.errors import UsageError
from onnx_ci.gate.project import Context, context_for, open_context, policy_for
from onnx_ci.repo.changes import merge_base, reviewed_against
from onnx_ci.repo.select import Owns, Scene, Selection, Wanted, select, tree_of

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from onnx_ci.gate.policy_changes import PolicyChanges
    from onnx_ci.repo.content import Source
    from onnx_ci.results import RunReport, Shard


_MOST_JOBS = 256


class Judging:
    """How models are judged. A plain class: a run with nothing to do gets this far."""

    def __init__(
        self,
        *,
        jobs: int = 1,
        only_new: bool = False,
        cache: bool = True,
        runtimes: Sequence[str] = (),
        shard: Shard | None = None,
        whole: Selection | None = None,
        policy_from: str = "head",
    ) -> None:
        self.jobs = jobs  # models at a time
        self.only_new = only_new
        self.cache = cache
        self.runtimes = tuple(runtimes)  # beside those of the rules
        self.shard = shard  # which part of the run this is, if it is not all of it
        self.whole = whole  # and what it is a part of
        self.policy_from = policy_from  # "head": the policies that are here; "base": those of the base


def add_gate_arguments(parser: argparse.ArgumentParser) -> None:
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
    judging = Judging(
        jobs=options.jobs,
        only_new=options.only_new,
        cache=options.cache,
        runtimes=runtimes,
        shard=shard,
        whole=whole,
        policy_from=options.policy_from,
    )
    report = judge_selection(command, context, selection, judging)
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


def _refuse_unreached(context: Context, selection: Selection) -> None:
    """What is named is checked: no policy reaches a model above its folder."""
    for model in selection.models:
        ruled = context_for(context, policy_for(context, model.parent))
        if not model.is_relative_to(ruled.folder):
            raise UsageError(
                f"{str(model)!r} is not below the folder of {ruled.checked.file}, and rules reach no further",
                hint="put a policy into its folder or above it",
            )


def select_models(context: Context, wanted: Wanted) -> Selection:
    context.tree = tree_of(wanted, context.repository)
    scene = Scene(
        here=context.here,
        root=context.root,
        policy=context.policy_path,
        owns=_owner(context),
        tree=context.tree,
    )
    selection = select(wanted, scene)
    if selection.models:
        _find_base(context, wanted, selection)
    return selection


def _find_base(context: Context, wanted: Wanted, selection: Selection) -> None:
    """The commit that a change is reviewed against; a hook or a look at one's own work has none."""
    ref = reviewed_against()
    context.base, context.base_trouble = "", None
    if context.repository is None or not (ref or wanted.since):
        return
    if selection.base not in ("", "HEAD"):
        context.base = selection.base
        return
    try:
        context.base = merge_base(context.repository, wanted.since or ref or "")
    except UsageError as error:
        context.base_trouble = error


def judge_selection(
    command: str, context: Context, selection: Selection, how: Judging | None = None
) -> RunReport:
    """Judge what was selected, each model by its own policy; with nothing selected the report is empty."""
    from onnx_ci.results import RunReport

    if selection.named:
        _refuse_unreached(context, selection)
    how = how or Judging()
    whole = how.whole or selection
    changes = _policy_changes(context, whole)
    if changes and how.policy_from == "base":
        context = changes.base.context_for(changes.base.policy_for(context.here))
    policies = {policy_for(context, model.parent) for model in selection.models}
    ruled = policies and None not in policies  # by policies further down: what is missing here is not missed
    notes = (*(() if ruled else context.notes), *filter(None, [selection.note, _no_base(context, how)]))
    report = RunReport(command=command, outcomes=(), policy=context.checked.file, notes=notes)
    if selection.models:
        from onnx_ci.gate.run import judge_models

        report = judge_models(report, context, selection, how, changes)
    if how.shard:
        from dataclasses import replace

        report = replace(report, shard=how.shard)
        if how.shard.index > 1:
            return report  # what is about a branch is nobody's part: the first shard judges all of it
    if changes:
        from dataclasses import replace

        report = replace(report, findings=(*report.findings, *changes.findings()))
    return _with_history(report, context, whole)


def _policy_changes(context: Context, selection: Selection) -> PolicyChanges | None:
    """What the change makes of its policies, where it is one and there are models."""
    if not context.base or not selection.models:
        return None
    from onnx_ci.gate.policy_changes import PolicyChanges

    return PolicyChanges(context, selection.models)


def _no_base(context: Context, how: Judging) -> str:
    """Why the policy of the base has no part in a run that should know it, or was told to go by it."""
    if context.base:
        return ""
    trouble = context.base_trouble
    if trouble is not None and how.policy_from == "base":
        raise trouble
    if trouble is not None:
        return f"the policy was not compared with the base's: {trouble.message}; {trouble.hint}"
    if how.policy_from == "base":
        return "there is no base to take the policy from, so the one here decides"
    return ""


def _with_history(report: RunReport, context: Context, selection: Selection) -> RunReport:
    """A branch may have added and removed a model: history counts where no model differs, too."""
    policies = [policy_for(context, model.parent) for model in selection.models]
    contexts = [context_for(context, policy) for policy in dict.fromkeys([context.policy_path, *policies])]
    limited = [each for each in contexts if "history" in each.checked.values]
    if not limited:
        return report
    from dataclasses import replace

    from onnx_ci.gate.run import history_findings

    found = (history_findings(each, selection.base, _owner(each)) for each in limited)
    return replace(report, findings=(*report.findings, *(finding for some in found for finding in some)))


def _owner(context: Context) -> Owns:
    """Whether a model names a data file: asked where one changed, so what it takes is loaded then."""
    found: dict[Path, Source] = {}

    def owns(model: Path, data: Path) -> bool:
        if model not in found:
            from onnx_ci.repo.content import Sources

            with Sources(context.root, context.tree) as sources:
                found[model] = sources.of(model)
        return found[model].owns(data)

    return owns


def run_check(options: argparse.Namespace) -> int:
    return run_gate("check", options)


def run_fix(options: argparse.Namespace) -> int:
    return run_gate("fix", options)
