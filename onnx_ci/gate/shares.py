"""One selection as several runs: by policy and repository; and as several jobs, by shard."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from onnx_ci.errors import ModelError, UsageError
from onnx_ci.gate import cache
from onnx_ci.gate.groups import Unit, joined, split
from onnx_ci.gate.policy_changes import PolicyChanges
from onnx_ci.gate.project import MOST_SHARDS, Context, Judging, context_for, policy_for
from onnx_ci.gate.run import Plan, Share, run
from onnx_ci.inputs.sample_paths import RECORDED, orphans, recorded_folder
from onnx_ci.methods.catalogue import method
from onnx_ci.model.graph import all_nodes
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.model import display_path
from onnx_ci.policy.glob import matches
from onnx_ci.policy.load import idle_rules
from onnx_ci.policy.schema import Rule
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.changes import MODELS, known_files
from onnx_ci.repo.content import Source, Sources
from onnx_ci.repo.git import git_or_none, has_commits, repository_of
from onnx_ci.repo.select import Selection, model_named
from onnx_ci.results import Command, Finding, GoneModel, Outcome, Provenance, RunReport, Shard
from onnx_ci.util.advice import to_run
from onnx_ci.util.text import first_of, nearest, relative_name, shell_path

MOST_NAMES = 500  # to look through for what was meant
LONGEST_PLAN = 1 << 26
PLAN_HINT = "make it with the same selection: onnx-ci plan --shards N --learned --format json --output FILE"


def judge_models(
    empty: RunReport, context: Context, selection: Selection, how: Judging, changes: PolicyChanges | None
) -> RunReport:
    """The report of all policies together; models are called relative to the nearest policy here."""
    by_base = how.policy_from == "base"
    withheld = changes.withheld(by_base=by_base) if changes else {}
    reports = [
        _judge(empty.command, share, context.folder, how, withheld) for share in shares(context, selection)
    ]
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    if changes is not None and not by_base:
        outcomes = _with_base_verdicts(outcomes, changes, set(selection.models), context.folder, how)
    return replace(
        empty,
        outcomes=tuple(_with_fewer_diffs([*_with_fewer_tensors(outcomes)])),
        base=selection.base,
        provenance=_provenance(context),
        findings=tuple(finding for report in reports for finding in report.findings),
        groups=tuple(group for report in reports for group in report.groups),
        notes=(*empty.notes, *(note for report in reports for note in report.notes)),
        seconds=round(sum(report.seconds for report in reports), 3),
    )


FIT_OR_APPROVE = "make it fit the base's rule, or have the change of the policy approved"
MOST_TENSORS = 10_000  # of all models of a report, which has to stay small enough to be read back


def _with_fewer_tensors(outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """The outcomes with the largest tensors of the run."""
    sizes = sorted((tensor.before for outcome in outcomes for tensor in outcome.tensors), reverse=True)
    least = sizes[MOST_TENSORS] if len(sizes) > MOST_TENSORS else -1
    for outcome in outcomes:
        yield replace(outcome, tensors=tuple(each for each in outcome.tensors if each.before > least))


MOST_DIFFS = 100  # models of which it tells what in them changed, for the same reason


def _with_fewer_diffs(outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """The outcomes with what changed in the largest models."""
    sizes = [each.base.diff.size_after for each in outcomes if each.base and each.base.diff]
    least = sorted(sizes, reverse=True)[MOST_DIFFS] if len(sizes) > MOST_DIFFS else -1
    why = f"it is told of the {MOST_DIFFS} largest models at most; onnx-ci diff shows it of one"
    for outcome in outcomes:
        base = outcome.base
        if base is not None and base.diff is not None and base.diff.size_after <= least:
            outcome = replace(outcome, base=replace(base, diff=None, undiffed=why))
        yield outcome


def _provenance(context: Context) -> Provenance:
    repository = context.repository
    if repository is None:
        return Provenance(versions=cache.versions())
    judged = (context.tree.commit if context.tree else "") or "HEAD"
    commit, _, date = (git_or_none(repository, "log", "-1", "--format=%H %cI", judged) or "").partition(" ")
    address = (git_or_none(repository, "config", "--get", "remote.origin.url") or "").strip()
    name = re.sub(r"//[^/@]*@", "//", address) if "//" in address else address.rpartition("@")[2]
    local = not name or Path(name).is_absolute() or name.startswith((".", "file:"))
    return Provenance(
        repository="" if local else name,  # what a checkout is called says nothing
        commit=commit,
        date=date.strip(),
        versions=cache.versions(),
    )


def gone_models(context: Context, selection: Selection) -> tuple[GoneModel, ...]:
    """The models of the base that are not there any more, under whatever name."""
    with Sources(context.root, context.tree) as judged, Baseline(judged, selection.base) as baseline:
        formers = {baseline.former_name(model) for model in selection.models}
        gone = [path for path in selection.gone if path not in formers and baseline.tree.has(path)]
        return tuple(
            GoneModel(path=relative_name(path, context.folder), size=baseline.sources.of(path).size)
            for path in gone
        )


def _with_base_verdicts(
    outcomes: list[Outcome], changes: PolicyChanges, judged: set[Path], shown_from: Path, how: Judging
) -> list[Outcome]:
    """What is wrong with models under the rules of the base, where those of the change ask less."""
    loosened = [(path, base) for path, base in changes.loosened() if path in judged]
    if not loosened:
        return outcomes
    by_file = {outcome.file: outcome for outcome in outcomes}
    fix_it = to_run(f"onnx-ci fix --since {changes.head.base[:10]} --policy-from base")
    selection = Selection(models=[path for path, _ in loosened], base=changes.head.base)
    for share in shares(loosened[0][1], selection):
        severity = share.context.policy.policy_changes
        for by_base in _judge("check", share, shown_from, how, {}).outcomes:
            outcome = by_file[by_base.file]
            known = {finding.code for finding in outcome.findings if finding.severity == "error"}
            more = [
                Finding(
                    code="OCI045",
                    severity=severity,
                    message=f"under the policy of the base: {finding.message} ({finding.code})",
                    # The policy that is here is kept already: what helps with that does not help here.
                    hint=fix_it if finding.command else FIT_OR_APPROVE,
                )
                for finding in by_base.findings
                if finding.severity == "error" and finding.code not in known
            ]
            by_file[outcome.file] = replace(outcome, findings=(*outcome.findings, *more))
    return list(by_file.values())


def shares(context: Context, selection: Selection) -> list[Share]:
    """Models by the policy that rules them: the nearest upward, or the one that was named."""
    found: dict[tuple[Path | None, Path | None], list[Path]] = {}
    for model in selection.models:
        key = (policy_for(context, model.parent), repository_of(model.parent, context.repository))
        found.setdefault(key, []).append(model)
    result = []
    for (policy, repository), models in found.items():
        base = selection.base
        if base and repository is not None and repository != context.repository:
            # A commit of this repository says nothing about a submodule: that has a last commit of its own.
            base = "HEAD" if has_commits(repository) else ""
        ruled = context_for(context, policy)
        result.append(Share(context=ruled, repository=repository, base=base, models=tuple(models)))
    return result


def _judge(
    command: Command, share: Share, shown_from: Path, how: Judging, withheld: Mapping[Path, str]
) -> RunReport:
    with share.sources() as sources, Baseline(sources, share.base) as baseline:
        plan = Plan(
            command=command,
            share=share,
            how=how,
            shown_from=shown_from,
            sources=sources,
            baseline=baseline,
            withheld=withheld,
        )
        report = run(plan)
        if how.cache and plan.seconds and cache.limit():
            cache.keep_times({_known_as(share.context, path): took for path, took in plan.seconds.items()})
        findings = (*report.findings, *_idle_rules(share), *_orphaned_samples(share, baseline))
        return replace(report, findings=findings)


def _idle_rules(share: Share) -> Iterator[Finding]:
    """Rules that match no model. Outside of git that is not known without a walk, and with submodules
    not without entering them."""
    context = share.context
    if context.policy_path is None or share.repository is None or share.repository != context.repository:
        return
    if (share.repository / ".gitmodules").exists():
        return
    listed = share.tree.models if share.tree else known_files(share.repository, MODELS)
    paths = {*share.models, *(model_named(share.repository / name) for name in listed)}
    below = sorted(path for path in paths if path.is_relative_to(context.folder))
    names = [context.name_of(path) for path in below]
    for rule in idle_rules(context.policy, names):
        close = nearest(rule.pattern, names[:MOST_NAMES])
        what = "no model"
        hint = f"did you mean {close!r}?" if close else "correct its path, or remove the rule"
        if any(matches(rule.pattern, name) for name in names):
            what = "only models that an earlier rule ignores"
            hint = "if they are meant, say so: ignore: false"
        yield Finding(
            code="OCI046",
            severity="warning",
            message=f"{context.checked.file}:{rule.line}: the rule for {rule.pattern!r} matches {what}",
            hint=hint,
            file=context.policy_name,
            line=rule.line,
        )


def _orphaned_samples(share: Share, baseline: Baseline) -> Iterator[Finding]:
    """Recorded samples of models that have another name now, or are gone."""
    context = share.context
    orphaned = list(orphans(context.folder)) if share.repository == context.repository else []
    formers = {path: baseline.former_name(path) for path in share.models} if orphaned else {}
    folders = {_samples_of(context, old): _samples_of(context, new) for new, old in formers.items() if old}
    for model in orphaned:
        folder = context.folder / recorded_folder(model)
        target = folders.get(folder)
        hint: str = f"move them to {RECORDED}/MODEL, called as the model is now, or remove them"
        if target is not None and not target.exists():
            move = f"mv {shell_path(folder)} {shell_path(target)}"
            hint = to_run(f"mkdir -p {shell_path(target.parent)} && {move}")
        message = f"recorded samples of {model}, which is not there: they are not used"
        yield Finding(
            code="OCI058", severity="warning", message=f"{display_path(folder)}: {message}", hint=hint
        )


def _samples_of(context: Context, model: Path) -> Path:
    return context.folder / recorded_folder(context.name_of(model))


class Parts:
    """A selection in parts, and what is in each. By default that follows from the commit alone, so that every
    machine finds the same; what is `learned` has to be handed to the others as a plan."""

    def __init__(
        self, context: Context, selection: Selection, count: int, *, learned: bool = False, plan: str = ""
    ) -> None:
        """In so many parts, or as a `plan` says that was written with --format json."""
        self._paths = {relative_name(path, context.root): path for path in selection.models}
        if plan:
            self.parts = _planned(context.here / plan, plan, self._paths)
        else:
            self.parts = split(list(_units(context, selection, learned=learned)), count)
        self.count = len(self.parts)

    def models(self, index: int) -> list[Path]:
        return sorted(self._paths[name] for unit in self.parts[index - 1] for name in unit.names)

    def size(self, index: int) -> int:
        return sum(unit.size for unit in self.parts[index - 1])

    def cost(self, index: int) -> float:
        """In seconds, about."""
        return sum(unit.cost for unit in self.parts[index - 1])

    def shard(self, index: int) -> Shard:
        """All shards of a run have the same digest, unless a machine saw other models or sizes."""
        held = [[[*unit.names, unit.size] for unit in part] for part in self.parts]
        digest = hashlib.sha256(json.dumps(held).encode()).hexdigest()
        return Shard(index=index, count=self.count, split=digest[:32])


def _planned(path: Path, name: str, models: Collection[str]) -> list[list[Unit]]:
    """The parts that a plan says. It has to be one of these models."""
    try:
        with path.open("rb") as stream:
            shards = json.loads(stream.read(LONGEST_PLAN))["shards"]
        units = [Unit(names=tuple(map(str, s["models"])), size=int(s["size"]), cost=0) for s in shards]
    except OSError as error:
        raise UsageError(f"{name}: can't be read: {error.strerror}", hint=PLAN_HINT) from None
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"{name}: is no plan", hint=PLAN_HINT) from None
    planned = [model for unit in units for model in unit.names]
    odd = sorted({*planned} ^ {*models}) or [model for model in planned if planned.count(model) > 1]
    if odd:
        raise UsageError(f"{name}: is a plan of other models: {first_of(odd, 3)}", hint=PLAN_HINT)
    return [[unit] for unit in units]


def part_of(context: Context, selection: Selection, asked: str, plan: str = "") -> tuple[Selection, Shard]:
    """What `--shard I/N` leaves of a selection, by itself or as a plan says."""
    found = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})", asked)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= count <= MOST_SHARDS:
        message = f"--shard: expected I/N with I from 1 to N, found {asked!r}"
        raise UsageError(message, hint="for example: --shard 1/3")
    parts = Parts(context, selection, count, plan=plan)
    if parts.count != count:
        raise UsageError(f"--shard {asked}: {plan} has {parts.count} shards", hint=PLAN_HINT)
    models = parts.models(index)
    note = selection.note or ("" if models else f"there is no model for shard {asked}")
    part = Selection(models=models, base=selection.base, note=note, named=selection.named)
    return part, parts.shard(index)


def _units(context: Context, selection: Selection, *, learned: bool) -> Iterator[Unit]:
    """What each model of a group that is too large has to give depends on the others of it."""

    def name_of(path: Path) -> str:
        return relative_name(path, context.root)

    for share in shares(context, selection):
        with share.sources() as sources:
            found = {path: sources.of(path) for path in share.models}
            sizes = {name_of(path): source.size for path, source in found.items()}
            costs = {
                name_of(path): estimated_seconds(
                    source.size, _runs(share.context.rule_of(path)), _nodes(source) if learned else 0
                )
                for path, source in found.items()
            }
            if learned:
                known = {name_of(path): _known_as(share.context, path) for path in share.models}
                costs = with_learned(costs, known, cache.times())
            bound = [list(map(name_of, paths)) for paths in share.groups(sources).dependent()]
            yield from joined(sizes, bound, costs)


def estimated_seconds(size: int, runs: int, nodes: int = 0) -> float:
    """What a model takes, roughly, as measured on real ones: some time whatever it is, reading and encoding
    its bytes, and running it."""
    return 1 + size * 60e-9 + runs * (size * 5e-9 + nodes * 30e-6) if runs else 0.05


def _runs(rule: Rule | None) -> int:
    """How often a model is run, about: to see that exact methods are exact, or to choose between others."""
    if rule is None or rule.ignore:
        return 0
    return 6 if all(method(choice.name).exact for choice in rule.methods) else 40


def _nodes(source: Source) -> int:
    with suppress(ModelError, OSError):
        return sum(1 for _ in all_nodes(read_skeleton(source.path)))
    return 0


def with_learned(
    estimates: Mapping[str, float], known_as: Mapping[str, str], times: Mapping[str, float]
) -> dict[str, float]:
    """The times that are known; estimates of the others, on the scale that the known ones show."""
    known = {name: times[known_as[name]] for name in estimates if known_as[name] in times}
    scale = sum(known.values()) / sum(estimates[name] for name in known) if known else 1.0
    return {name: known.get(name, estimate * scale) for name, estimate in estimates.items()}


def _known_as(context: Context, path: Path) -> str:
    """What the time of a model is kept under: two checkouts of one repository learn from each other."""
    return f"{context.root.name}/{relative_name(path, context.root)}"
