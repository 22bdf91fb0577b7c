"""Judges the models of a selection, those of each policy by themselves, and makes one report of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onnx_ci.baseline import Baseline
from onnx_ci.entry.context import Context, context_for, policy_for
from onnx_ci.entry.progress import ProgressLine
from onnx_ci.pipeline import Plan, run
from onnx_ci.results import RunReport
from onnx_ci.sources import Sources
from onnx_ci.targets.select import Selection, models_below


def judge_models(
    empty: RunReport, context: Context, selection: Selection, *, jobs: int, only_new: bool
) -> RunReport:
    """The report of all policies together; models are called relative to the nearest policy here."""
    reports = [
        _judge(empty, each, context.folder, models, selection.base, jobs, only_new)
        for each, models in by_policy(context, selection.models)
    ]
    return replace(
        empty,
        outcomes=tuple(outcome for report in reports for outcome in report.outcomes),
        findings=tuple(finding for report in reports for finding in report.findings),
        notes=(*empty.notes, *(note for report in reports for note in report.notes)),
        seconds=round(sum(report.seconds for report in reports), 3),
    )


def by_policy(context: Context, models: Sequence[Path]) -> list[tuple[Context, list[Path]]]:
    """Models by the policy that rules them: the nearest upward, or the one that was named."""
    found: dict[Path | None, list[Path]] = {}
    for model in models:
        found.setdefault(policy_for(context, model.parent), []).append(model)
    return [(context_for(context, policy), members) for policy, members in found.items()]


def _judge(
    empty: RunReport,
    context: Context,
    shown_from: Path,
    models: Sequence[Path],
    base: str,
    jobs: int,
    only_new: bool,
) -> RunReport:
    def everything() -> list[Path]:
        below = models_below(context.folder, context.tree)
        return [path for path in below if policy_for(context, path.parent) == context.policy_path]

    progress = ProgressLine()
    with Sources(context.root, context.tree, everything) as sources, Baseline(sources, base) as baseline:
        plan = Plan(
            command=empty.command,
            policy=context.policy,
            folder=context.folder,
            shown_from=shown_from,
            root=context.root,
            models=tuple(models),
            everything=everything,
            sources=sources,
            baseline=baseline,
            only_new=only_new,
            jobs=jobs,
        )
        try:
            return run(plan, progress)
        finally:
            progress.clear()
