"""One selection as several runs: the models that have a policy and a repository in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from onnx_ci.gate.policy_changes import PolicyChanges
from onnx_ci.gate.project import Context, Judging, context_for, policy_for
from onnx_ci.gate.run import Plan, run
from onnx_ci.policy.load import idle_rules
from onnx_ci.policy.schema import Rule
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.changes import MODELS, known_files
from onnx_ci.repo.content import Sources
from onnx_ci.repo.git import has_commits, repository_of
from onnx_ci.repo.select import Selection, model_named, models_below
from onnx_ci.repo.tree import Tree
from onnx_ci.results import Finding, RunReport, Severity
from onnx_ci.util.text import nearest, relative_name

MOST_NAMES = 500  # to look through for what was meant


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

    def idle_rules(self) -> list[Finding]:
        """Rules that match no model. Outside of git that is not known without a walk, and with submodules
        not without entering them."""
        context = self.context
        if context.policy_path is None or self.repository is None or self.repository != context.repository:
            return []
        if (self.repository / ".gitmodules").exists():
            return []
        listed = self.tree.models if self.tree else known_files(self.repository, MODELS)
        paths = {*self.models, *(model_named(self.repository / name) for name in listed)}
        below = sorted(path for path in paths if path.is_relative_to(context.folder))
        names = [relative_name(path, context.folder) for path in below]
        return [_idle(context, rule, names) for rule in idle_rules(context.policy, names)]


def judge_models(
    empty: RunReport,
    context: Context,
    selection: Selection,
    how: Judging,
    changes: PolicyChanges | None = None,
) -> RunReport:
    """The report of all policies together; models are called relative to the nearest policy here."""
    by_base = how.policy_from == "base"
    withheld = changes.withheld(by_base=by_base) if changes else {}
    run_one = partial(_judge, shown_from=context.folder, how=how, withheld=withheld)
    report = _together(empty, [run_one(empty, share) for share in shares(context, selection)])
    if changes is None or by_base:
        return report
    return _with_base_verdicts(report, changes, set(selection.models), context.folder, how)


def _with_base_verdicts(
    report: RunReport, changes: PolicyChanges, judged: Collection[Path], shown_from: Path, how: Judging
) -> RunReport:
    """What is wrong with models under the rules of the base, where those of the change ask less."""
    loosened = [(path, base) for path, base in changes.loosened() if path in judged]
    if not loosened:
        return report
    found: dict[str, list[tuple[str, Finding]]] = {}
    looking = RunReport(command="check", outcomes=())
    selection = Selection(models=[path for path, _ in loosened], base=changes.head.base)
    for share in shares(loosened[0][1], selection):
        severity = share.context.policy.policy_changes
        for outcome in _judge(looking, share, shown_from=shown_from, how=how).outcomes:
            errors = [finding for finding in outcome.findings if finding.severity == "error"]
            found[outcome.file] = [_under_the_base(finding, severity) for finding in errors]
    outcomes = []
    for outcome in report.outcomes:
        known = {finding.code for finding in outcome.findings if finding.severity == "error"}
        more = [one for code, one in found.get(outcome.file, ()) if code not in known]
        outcomes.append(replace(outcome, findings=(*outcome.findings, *more)))
    return replace(report, outcomes=tuple(outcomes))


def _under_the_base(finding: Finding, severity: Severity) -> tuple[str, Finding]:
    """The code that it has there, and what is said here."""
    message = f"under the policy of the base: {finding.message} ({finding.code})"
    return finding.code, Finding(code="OCI045", severity=severity, message=message, hint=finding.hint)


def _together(empty: RunReport, reports: Sequence[RunReport]) -> RunReport:
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
            base=_base_of(context, repository, selection.base),
            models=tuple(models),
        )
        for (policy, repository), models in found.items()
    ]


def _base_of(context: Context, repository: Path | None, base: str) -> str:
    """A commit of this repository says nothing about a submodule: that has a last commit of its own."""
    if repository == context.repository or not base or repository is None:
        return base
    return "HEAD" if has_commits(repository) else ""


def _judge(
    empty: RunReport,
    share: Share,
    *,
    shown_from: Path,
    how: Judging,
    withheld: Mapping[Path, str] | None = None,
) -> RunReport:
    context = share.context
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
            withheld=withheld or {},
        )
        report = _placed(run(plan, how.progress), share)
        return replace(report, findings=(*report.findings, *share.idle_rules()))


def _idle(context: Context, rule: Rule, names: Sequence[str]) -> Finding:
    close = nearest(rule.pattern, names[:MOST_NAMES])
    return Finding(
        code="OCI046",
        severity="warning",
        message=f"{context.checked.file}:{rule.line}: the rule for {rule.pattern!r} matches no model",
        hint=f"did you mean {close!r}?" if close else "correct its path, or remove the rule",
        file=context.policy_name,
        line=rule.line,
    )


def _placed(report: RunReport, share: Share) -> RunReport:
    """Names for whoever shows a finding beside the code: they go by the top of the repository."""
    policy, root = share.context.policy_name, share.context.root
    named = zip(report.outcomes, share.models, strict=True)
    outcomes = [replace(o, file=relative_name(path, root), rule_file=policy) for o, path in named]
    findings = tuple(replace(finding, file=policy) for finding in report.findings)
    groups = tuple(replace(group, file=policy) for group in report.groups)
    return replace(report, outcomes=tuple(outcomes), findings=findings, groups=groups)
