"""Judges the models of a selection, those of each policy by themselves, and makes one report of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from onnx_ci.baseline import Baseline
from onnx_ci.entry.context import Context, context_for, policy_for
from onnx_ci.entry.gate import Judging
from onnx_ci.entry.progress import ProgressLine
from onnx_ci.pipeline import Plan, relative, run
from onnx_ci.results import RunReport
from onnx_ci.sources import Sources
from onnx_ci.targets.git import has_commits, repository_of
from onnx_ci.targets.select import Selection, models_below
from onnx_ci.targets.tree import Tree


@dataclass(frozen=True, kw_only=True)
class Share:
    """The models of one run that have their policy and their repository in common."""

    context: Context
    repository: Path | None
    base: str
    models: tuple[Path, ...]

    @property
    def tree(self) -> Tree | None:
        """A submodule that is named is looked at as it is in the work tree."""
        tree = self.context.tree
        return tree if tree and tree.repository == self.repository else None

    def everything(self) -> list[Path]:
        """All models that the policy rules, whether they are looked at or not."""
        context = self.context
        below = models_below(context.folder, self.tree, context.repository)
        return [path for path in below if policy_for(context, path.parent) == context.policy_path]


def judge_models(empty: RunReport, context: Context, selection: Selection, how: Judging) -> RunReport:
    """The report of all policies together; models are called relative to the nearest policy here."""
    reports = [_judge(empty, share, context.folder, how) for share in shares(context, selection)]
    return replace(
        empty,
        outcomes=tuple(outcome for report in reports for outcome in report.outcomes),
        findings=tuple(finding for report in reports for finding in report.findings),
        groups=tuple(group for report in reports for group in report.groups),
        notes=(*empty.notes, *(note for report in reports for note in report.notes)),
        seconds=round(sum(report.seconds for report in reports), 3),
    )


def shares(context: Context, selection: Selection) -> list[Share]:
    """Models by the policy that rules them: the nearest upward, or the one that was named."""
    found: dict[tuple[Path | None, Path | None], list[Path]] = {}
    for model in selection.models:
        key = (policy_for(context, model.parent), repository_of(model.parent, context.repository))
        found.setdefault(key, []).append(model)
    return [
        Share(
            context=context_for(context, policy),
            repository=repository,
            base=_base(context, repository, selection.base),
            models=tuple(models),
        )
        for (policy, repository), models in found.items()
    ]


def _base(context: Context, repository: Path | None, base: str) -> str:
    """A commit of this repository says nothing about a submodule: that has a last commit of its own."""
    if repository == context.repository or not base or repository is None:
        return base
    return "HEAD" if has_commits(repository) else ""


def _judge(empty: RunReport, share: Share, shown_from: Path, how: Judging) -> RunReport:
    context = share.context
    progress = ProgressLine()
    found = Sources(context.root, share.tree, share.everything, repository=share.repository)
    with found as sources, Baseline(sources, share.base) as baseline:
        plan = Plan(
            command=empty.command,
            policy=context.policy,
            folder=context.folder,
            shown_from=shown_from,
            root=context.root,
            models=share.models,
            everything=share.everything,
            sources=sources,
            baseline=baseline,
            only_new=how.only_new,
            jobs=how.jobs,
            cache=how.cache,
            runtimes=how.runtimes,
            sharded=how.shard is not None,
        )
        try:
            return _placed(run(plan, progress), share)
        finally:
            progress.clear()


def _placed(report: RunReport, share: Share) -> RunReport:
    """Names for whoever shows a finding beside the code: they go by the top of the repository."""
    policy, root = share.context.policy_name, share.context.root
    named = zip(report.outcomes, share.models, strict=True)
    outcomes = [replace(o, file=relative(path, root), rule_file=policy) for o, path in named]
    findings = tuple(replace(finding, file=policy) for finding in report.findings)
    groups = tuple(replace(group, file=policy) for group in report.groups)
    return replace(report, outcomes=tuple(outcomes), findings=findings, groups=groups)
