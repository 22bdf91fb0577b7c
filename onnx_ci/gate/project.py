"""Where a command runs: the folder, the repository around it, and the policy that holds there."""

from __future__ import annotations

import os
from functools import cache, cached_property
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.policy.load import CheckedPolicy, check_policy, find_policy, rule_for
from onnx_ci.repo.changes import merge_base, reviewed_against
from onnx_ci.repo.git import find_root
from onnx_ci.repo.select import Owns, Scene, Selection, Wanted, select, tree_of
from onnx_ci.repo.tree import Tree
from onnx_ci.util.text import relative_name

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx_ci.gate.cluster import Cluster
    from onnx_ci.gate.policy_changes import BasePolicies
    from onnx_ci.policy.schema import Policy, PolicyFrom, Rule
    from onnx_ci.repo.content import Source
    from onnx_ci.results import Command, Finding, RunReport, Shard

    Progress = Callable[[int, int, str, str], None]  # models done, models in all, name, what is being done


def no_progress(*_: object) -> None:
    """Tell nobody."""


MOST_SHARDS = 256  # jobs of a matrix
NO_POLICY = (
    "no .onnx-ci.yaml found: models are checked by built-in rules (all exact methods);"
    " `onnx-ci init` writes one"
)


class Context:
    """`root` bounds what is read and written; `folder` is what the policy's patterns are relative to."""

    def __init__(
        self, here: Path, policy_path: Path | None, checked: CheckedPolicy, *, named: bool = False
    ) -> None:
        self.here = here
        self.repository = find_root(here)
        self.policy_path = policy_path
        self.checked = checked
        self.folder = policy_path.parent if policy_path else self.repository or here
        self.root = self.repository or self.folder
        self.named = named  # by the user: then no other policy counts
        self.tree: Tree | None = None  # what is judged, where that is not the work tree
        self.base = ""  # the commit that a change is reviewed against: that of a pull request, or --since
        self.base_trouble: UsageError | None = None  # why it is not known
        self.base_policies: BasePolicies | None = None  # where policies are taken from, if not from here
        self.others: dict[Path, Context] = {}  # the same place under other policies
        self.notes = () if policy_path else (NO_POLICY,)

    @property
    def policy_name(self) -> str:
        """The policy file as named from the top of the repository; messages name it from here."""
        return relative_name(self.policy_path, self.root) if self.policy_path else ""

    @cached_property
    def policy(self) -> Policy:
        return self.checked.policy()

    def name_of(self, model: Path) -> str:
        """The name that patterns of the policy are held against."""
        return relative_name(model, self.folder)

    def rule_of(self, model: Path) -> Rule | None:
        """The rule that holds for a model; none reaches beyond the policy's folder. Where it names no
        samples, it has those that were recorded."""
        rule = rule_for(self.policy, self.name_of(model)) if model.is_relative_to(self.folder) else None
        if rule is None or rule.inputs.samples:
            return rule
        from dataclasses import replace

        from onnx_ci.inputs.sample_paths import recorded_samples

        recorded = recorded_samples(self.name_of(model), self.folder)
        return replace(rule, inputs=replace(rule.inputs, samples=recorded)) if recorded else rule


def open_context(policy_option: str | None, here: Path | None = None) -> Context:
    """Find and check the policy: the one that is named, or the nearest upward within the repository."""
    here = (here or Path.cwd()).resolve()
    if policy_option:
        if not (here / policy_option).is_file():
            message = f"there is no policy file {policy_option!r}"
            raise UsageError(message, hint="`onnx-ci init` writes .onnx-ci.yaml")
        return _context(here, (here / policy_option).resolve(), named=True)
    path = find_policy(here, find_root(here) or here)
    return _context(here, path) if path else built_in_context(here)


def built_in_context(here: Path) -> Context:
    """The rules where there is no policy."""
    return Context(here, None, CheckedPolicy("built-in rules", {"models": [{"path": "**"}]}))


def policy_for(context: Context, folder: Path) -> Path | None:
    """The policy that rules the models of a folder: the one that was named, or the nearest upward."""
    if context.base_policies is not None:
        return context.base_policies.policy_for(folder)
    found = None if context.named else find_policy(folder, context.root)
    inside = found is not None and found.is_relative_to(context.root.resolve())  # a linked folder may not be
    return found if inside else context.policy_path


def context_for(context: Context, policy: Path | None) -> Context:
    """The same place under another policy."""
    if context.base_policies is not None:
        return context.base_policies.context_for(policy)
    if policy is None or policy == context.policy_path:
        return context
    if policy not in context.others:
        context.others[policy] = _context(context.here, policy)
    other = context.others[policy]
    other.tree, other.base = context.tree, context.base
    return other


def ruling_context(context: Context, model: Path) -> Context:
    """The same place under the policy that rules a model."""
    return context_for(context, policy_for(context, model.parent))


def _context(here: Path, path: Path, *, named: bool = False) -> Context:
    root = find_root(here)
    name = os.path.relpath(path, here) if root and path.is_relative_to(root) else relative_name(path, here)
    checked = check_policy(path, methods=Catalogue(), name=Path(name).as_posix())
    return Context(here, path, checked, named=named)


class Judging:
    """How models are judged. A plain class: a run with nothing to do gets this far."""

    def __init__(
        self,
        *,
        jobs: int | None = None,
        cluster: Cluster | None = None,
        only_new: bool = False,
        search: bool = True,
        cache: bool = True,
        runtimes: Sequence[str] = (),
        shard: Shard | None = None,
        whole: Selection | None = None,
        policy_from: PolicyFrom = "head",
        progress: Progress = no_progress,
    ) -> None:
        self.jobs = jobs  # models at a time; None: by processors and memory
        self.cluster = cluster  # whose workers judge them; None: this machine
        self.only_new = only_new
        self.search = search  # False: a hook fails at once, and leaves it to others to look for smaller forms
        self.cache = cache
        self.runtimes = tuple(runtimes)  # beside those of the rules
        self.shard = shard  # which part of the run this is, if it is not all of it
        self.whole = whole  # and what it is a part of
        self.policy_from = policy_from
        self.progress = progress


def _refuse_unreached(context: Context, selection: Selection) -> None:
    """What is named is checked: no policy reaches a model above its folder."""
    for model in selection.models:
        ruled = ruling_context(context, model)
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
    command: Command, context: Context, selection: Selection, how: Judging | None = None
) -> RunReport:
    """Judge what was selected, each model by its own policy; with nothing selected the report is empty."""
    from dataclasses import replace

    from onnx_ci.results import RunReport

    if selection.named:
        _refuse_unreached(context, selection)
    how = how or Judging()
    whole = how.whole or selection
    changes = None
    if context.base and whole.models:
        from onnx_ci.gate.policy_changes import PolicyChanges

        changes = PolicyChanges(context, whole.models)
        if how.policy_from == "base":
            context = changes.base.context_for(changes.base.policy_for(context.here))
    policies = {policy_for(context, model.parent) for model in selection.models}
    ruled = policies and None not in policies  # by policies further down: what is missing here is not missed
    said = [selection.note, _no_base(context, how), _without_meaning(context)]
    notes = (*(() if ruled else context.notes), *filter(None, said))
    report = RunReport(
        command=command, outcomes=(), policy=context.checked.file, notes=notes, shard=how.shard
    )
    if selection.models:
        from onnx_ci.gate.shares import judge_models

        report = judge_models(report, context, selection, how, changes)
    if how.shard and how.shard.index > 1:
        return report  # what is about a branch is nobody's part: the first shard judges all of it
    if whole.gone and whole.base:
        from onnx_ci.gate.shares import gone_models

        report = replace(report, base=whole.base, gone=gone_models(context, whole))
    loosened = changes.findings() if changes else []
    return replace(report, findings=(*report.findings, *loosened, *_history_findings(context, whole)))


def _without_meaning(context: Context) -> str:
    """What a policy says that older versions understood."""
    if "plan_seconds" not in str(context.checked.values):
        return ""
    lines = [str(rule.line) for rule in context.policy.rules if rule.plan_seconds]
    if not lines:
        return ""
    where = f"{context.checked.file}:{','.join(lines)}"
    return f"{where}: plan_seconds has no meaning but for 0; plan_runs bounds the search"


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


def _history_findings(context: Context, selection: Selection) -> list[Finding]:
    """A branch may have added and removed a model: history counts where no model differs, too."""
    contexts = dict.fromkeys([context, *(ruling_context(context, model) for model in selection.models)])
    limited = [each for each in contexts if "history" in each.checked.values]
    if not limited:
        return []
    from onnx_ci.gate.history import history_findings

    return [finding for each in limited for finding in history_findings(each, selection.base, _owner(each))]


def _owner(context: Context) -> Owns:
    """Whether a model names a data file: asked where one changed, so what it takes is loaded then."""

    @cache
    def source_of(model: Path) -> Source:
        from onnx_ci.repo.content import Sources

        with Sources(context.root, context.tree) as sources:
            return sources.of(model)

    return lambda model, data: source_of(model).owns(data)
