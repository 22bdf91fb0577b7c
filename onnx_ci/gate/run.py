"""All targets through the gate, and what holds for several of them together."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path

from onnx_ci.errors import ModelError, OnnxCiError
from onnx_ci.gate.attempts import RAN_OUT
from onnx_ci.gate.groups import Groups
from onnx_ci.gate.judge import disk_trouble, judge, judge_pointer, needs_content
from onnx_ci.gate.policy_changes import PolicyChanges
from onnx_ci.gate.project import Context, Judging, context_for, policy_for, relative
from onnx_ci.gate.repo_findings import Standing
from onnx_ci.gate.subject import InPlace, Ledger, Look, NewFile, Say, Task
from onnx_ci.model.replace import is_needed
from onnx_ci.policy.load import ended_override, idle_rules, rule_for
from onnx_ci.policy.schema import TOTAL, History, Policy, Rule
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.changes import MODELS, Branch, Version, called_after, known_files, merge_base
from onnx_ci.repo.content import Source, Sources, check_out, obtain
from onnx_ci.repo.git import commit_of, has_commits, repository_of
from onnx_ci.repo.select import Owns, Selection, model_named, models_below
from onnx_ci.repo.tree import Tree
from onnx_ci.results import BUG, Command, Finding, Outcome, RunReport, Severity
from onnx_ci.sandbox.forks import Bound, Stopped, can_fork, run_tasks
from onnx_ci.sandbox.process import ended_children, memory_for
from onnx_ci.sandbox.runner import Runner
from onnx_ci.util.files import scratch_folder, sweep_files
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import nearest

Progress = Callable[[int, int, str, str], None]  # models done, models in all, name, what is being done


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run: the models, the rules, and where everything is."""

    command: Command
    policy: Policy
    folder: Path  # patterns are relative to it
    shown_from: Path  # names in messages are relative to it
    root: Path  # nothing outside of it is read or written
    models: tuple[Path, ...]
    everything: Callable[[], Sequence[Path]]  # all models there are, for groups
    sources: Sources  # where the content of models is
    baseline: Baseline  # what they are compared with
    only_new: bool = False
    jobs: int = 1
    notes: tuple[str, ...] = ()
    cache: bool = True
    runtimes: tuple[str, ...] = ()  # versions of onnxruntime, beside those of the rules
    targets: Mapping[Path, int] = field(default_factory=dict)  # what groups leave to models, in bytes
    look: Look | None = None  # None: every model is looked at once
    withheld: Mapping[Path, str] = field(default_factory=dict)  # models, and what is not run for them
    swept: set[Path] = field(default_factory=set)  # folders that were rid of what dead runs left
    sharded: bool = False  # only a part of what is to be judged: then groups are judged by whoever has all


def run(plan: Plan, progress: Progress = lambda *_: None) -> RunReport:
    """Judge every model; a group is judged as soon as one of its members was. A shard only notes what groups
    take before and after: what it would say of them now is not what holds in the end."""
    began = time.perf_counter()
    problems = _obtain(plan)
    rules = plan.policy.rules
    if plan.only_new or any(r.only_new or r.load_check or r.budget.growth is not None for r in rules):
        plan.baseline.look_up(plan.models)
    groups = _groups(plan)
    before = groups.totals() if plan.sharded else {}
    with ExitStack() as stack:
        contested = dict.fromkeys(path for members in groups.dependent() for path in members)
        if contested:
            look = Look(stack.enter_context(scratch_folder()), secrets.token_bytes(32), first=True)
            sizes_by_rule = _sizes_by_rule(replace(plan, models=tuple(contested), look=look), progress)
            plan = replace(plan, targets=groups.targets(sizes_by_rule), look=replace(look, first=False))
        outcomes = tuple(_judge_all(plan, progress))
    plan.sources.forget()  # a fix changed sizes
    sizes = tuple(groups.sizes(before))
    return RunReport(
        command=plan.command,
        outcomes=outcomes,
        findings=() if plan.sharded else tuple(found for size in sizes for found in size.findings()),
        groups=sizes if plan.sharded else (),
        policy=plan.policy.file,
        seconds=round(time.perf_counter() - began, 3),
        notes=(*plan.notes, *problems),
    )


def _groups(plan: Plan) -> Groups:
    return Groups(
        policy=plan.policy,
        judged={relative(path, plan.folder): path for path in plan.models},
        everything=lambda: {relative(path, plan.folder): path for path in plan.everything()},
        sources=plan.sources,
    )


def _sizes_by_rule(plan: Plan, progress: Progress) -> dict[Path, int]:
    """What models take once their own rules were applied; nothing is written for that."""
    outcomes = _judge_all(replace(plan, command="check"), lambda _, count, *said: progress(0, count, *said))
    sizes = {}
    for path, outcome in zip(plan.models, outcomes, strict=True):
        found = outcome.after or outcome.before
        sizes[path] = found.size if found else plan.sources.of(path).size
    return sizes


def _obtain(plan: Plan) -> list[str]:
    """Only what is judged by its content is worth a download; what went wrong, in words."""
    rules = {path: rule_for(plan.policy, relative(path, plan.folder)) for path in plan.models}
    wanted = [path for path, rule in rules.items() if rule and not rule.ignore and needs_content(rule)]
    problems = [obtain(wanted, plan.sources)] if plan.policy.lfs.missing == "fetch" else []
    if plan.command == "fix":
        problems.append(check_out(wanted, plan.sources))
    return [problem for problem in problems if problem]


def _judge_all(plan: Plan, progress: Progress) -> Iterator[Outcome]:
    output = InPlace(plan.root) if plan.command == "fix" else None
    return judge_each([Asked(plan, path, output) for path in plan.models], jobs=plan.jobs, progress=progress)


@dataclass(frozen=True)
class Asked:
    """One model to be judged in a run, and where a proven candidate is put; None only looks."""

    plan: Plan
    path: Path
    output: InPlace | NewFile | None

    @property
    def name(self) -> str:
        return shown(self.plan, self.path)

    @property
    def rule(self) -> Rule:
        """The rule whose limits hold: without one, those that a rule has by default."""
        return _matching(self.plan, self.path) or Rule(pattern="")

    @property
    def bound(self) -> Bound:
        return Bound(self.rule.total_seconds, memory_for([self.path], self.rule.limits.memory))


def judge_each(
    asked: Sequence[Asked], *, jobs: int = 1, progress: Progress = lambda *_: None
) -> Iterator[Outcome]:
    """The outcomes in order; where a process can be forked, time and memory are bounded for each model."""

    def one(number: int, runner: Runner, say: Say) -> Outcome:
        return judge_by_rule(asked[number], runner, say)

    def heard(number: int, doing: str) -> None:
        progress(number, len(asked), asked[number].name, doing)

    if can_fork():
        yield from _in_forks(asked, one, jobs, heard)
    elif jobs > 1 and len(asked) > 1:
        yield from _in_threads(len(asked), one, jobs, heard)
    else:
        with Runner() as runner:
            for number in range(len(asked)):
                yield one(number, runner, partial(heard, number))


One = Callable[[int, Runner, Say], Outcome]
Heard = Callable[[int, str], None]


def _in_forks(asked: Sequence[Asked], one: One, jobs: int, heard: Heard) -> Iterator[Outcome]:
    """Each process keeps its worker for all the models it gets."""
    used = {id(found): found for each in asked for found in each.plan.baseline.all_sources()}.values()

    @contextmanager
    def judging() -> Iterator[Callable[[int, Say], Outcome]]:
        for sources in used:
            sources.fork()
        with Runner() as runner:
            yield lambda number, say: one(number, runner, say)

    for sources in used:
        sources.close_git()
    results = run_tasks([each.bound for each in asked], judging, jobs=jobs, heard=heard)
    for each, result in zip(asked, results, strict=True):
        yield _ran_out(each, result) if isinstance(result, Stopped) else result


def _in_threads(count: int, one: One, jobs: int, heard: Heard) -> Iterator[Outcome]:
    """Each thread keeps its worker process for all the models it gets."""
    from concurrent.futures import ThreadPoolExecutor, wait
    from queue import SimpleQueue

    with ExitStack() as stack:
        free: SimpleQueue[Runner] = SimpleQueue()
        for _ in range(jobs):
            free.put(stack.enter_context(Runner()))

        def work(number: int) -> Outcome:
            runner = free.get()
            try:
                return one(number, runner, partial(heard, number))
            finally:
                free.put(runner)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                futures = [pool.submit(work, number) for number in range(count)]
                for future in futures:
                    # Short waits: a signal that another thread got is seen by this one between two of them.
                    while not wait([future], timeout=0.2).done:
                        pass
                    yield future.result()
            except BaseException:  # interrupted, or one model ended the run: don't wait for the others' work
                with ended_children():
                    pool.shutdown(cancel_futures=True)
                raise


def _ran_out(asked: Asked, stopped: Stopped) -> Outcome:
    """What is known of a model where the work on it had to be stopped."""
    rule, bound = asked.rule, asked.bound
    told = {
        "seconds": f"the work on it did not end within {bound.seconds:g} s ({TOTAL} times limits.seconds,"
        f" which is {rule.limits.seconds:g}, and plan_seconds, which is {rule.plan_seconds:g})",
        "memory": f"the work on it takes more memory than limits.memory, {format_size(bound.memory)}",
        "crash": f"the process that worked on it crashed ({stopped.how})",
    }
    hints = {
        "seconds": "give it more time: limits: {seconds: ...}",
        "memory": "give it more room: limits: {memory: ...}",
        "crash": "please report it",
    }
    finding = Finding(
        code=RAN_OUT,
        severity=rule.severity,
        message=f"{asked.name}: {told[stopped.why]}; it is not verified",
        hint=f"{hints[stopped.why]}; if it is not meant to be judged, exclude it with `ignore: true`",
    )
    return Outcome(
        path=asked.name,
        verdict="unverified",
        rule_pattern=rule.pattern,
        rule_line=rule.line,
        findings=(finding,),
    )


def judge_by_rule(asked: Asked, runner: Runner, say: Say) -> Outcome:
    """One model under the rule that holds for it, if any does. What goes wrong with one is a finding about
    that one: the others are judged all the same."""
    ledger = Ledger()
    try:
        return judge_model(asked, runner, ledger, say)
    except ModelError as error:
        finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
    except OnnxCiError:
        raise  # about the machine or the call: it would be the same for every model
    except OSError as error:
        finding = disk_trouble(asked.name, error)
    except Exception as error:  # noqa: BLE001 - a bug of ours; the command ends with exit code 4
        finding = _bug(asked.name, error)
    rule = rule_for(asked.plan.policy, relative(asked.path, asked.plan.folder))
    return Outcome(
        path=asked.name,
        verdict="unverified",
        rule_pattern=rule.pattern if rule else "",
        rule_line=rule.line if rule else 0,
        findings=(finding,),
        written=bool(ledger.written),
    )


def _bug(name: str, error: Exception) -> Finding:
    from onnx_ci.util.crash import keep_traceback

    message, hint = keep_traceback(error)
    return Finding(code=BUG, severity="error", message=f"{name}: could not be judged: {message}", hint=hint)


def judge_model(asked: Asked, runner: Runner, ledger: Ledger, say: Say) -> Outcome:
    """The walk of one model: where its content is, what is asked of it, what comes of it."""
    plan, path = asked.plan, asked.path
    rule = _matching(plan, path)
    if rule is None or rule.ignore:
        return _ignored(plan, path, asked.name, rule)
    brought = plan.withheld.get(path, "")
    if brought:  # it is weighed; what the rule wants to be run is not
        rule = replace(rule, methods=(), evaluate=None, libraries=())
    source = plan.sources.of(path)
    _sweep(plan, source)
    task = _task(asked, rule, source)
    # A package needs the content itself: there a pointer is a model that can't be read.
    if source.absent and plan.command != "build":
        outcome = judge_pointer(task, source)
    else:
        outcome = judge(task, runner, ledger, say)
    standing = Standing(
        task=task,
        source=source,
        sources=plan.sources,
        baseline=plan.baseline,
        fixing=plan.command == "fix" and asked.output is not None,
        wrote=bool(ledger.written),
        only_new=plan.only_new,
    )
    done = standing.apply(_with_ended_override(plan, outcome, task.matched))
    return _unverified(done, brought) if brought else done


def _task(asked: Asked, rule: Rule, source: Source) -> Task:
    plan, path = asked.plan, asked.path
    building = plan.command == "build"
    return Task(
        path=source.path,
        name=asked.name,
        matched=relative(path, plan.folder),
        rule=replace(rule, runtimes=(*rule.runtimes, *plan.runtimes)),
        root=source.root,
        home=plan.folder,
        policy=plan.policy,
        output=asked.output if source.in_place else None,
        strict=building,
        elsewhere=building,
        base_size=plan.baseline.size(path) if rule.budget.growth is not None else None,
        known_as=path,
        repository=plan.sources.repository,
        share=plan.targets.get(path),
        keeps_originals=plan.command == "fix",
        baseline=None if building else plan.baseline,
        cache=plan.cache,
        look=plan.look,
    )


def _unverified(outcome: Outcome, brought: str) -> Outcome:
    """An error whatever the rule says: the rule is the change's own."""
    finding = Finding(
        code="OCI047",
        severity="error",
        message=f"{outcome.path}: not verified: the change itself brings {brought}, and that is not run",
        hint="merge the change of the policy first, or allow such changes in the base's policy:"
        " new_commands: run",
    )
    verdict = "unverified" if outcome.verdict == "ok" else outcome.verdict
    return replace(outcome, verdict=verdict, findings=(*outcome.findings, finding))


def _sweep(plan: Plan, source: Source) -> None:
    """Remove what dead runs left beside a model and its data; each folder is looked at once."""
    for folder in {part.path.parent for part in source.parts} - plan.swept:
        plan.swept.add(folder)
        sweep_files(folder, is_needed)


def _matching(plan: Plan, path: Path) -> Rule | None:
    return rule_for(plan.policy, relative(path, plan.folder)) if path.is_relative_to(plan.folder) else None


def shown(plan: Plan, path: Path) -> str:
    """A model's name in messages."""
    return relative(path, plan.shown_from if path.is_relative_to(plan.shown_from) else plan.root)


def _ignored(plan: Plan, path: Path, name: str, rule: Rule | None) -> Outcome:
    if rule is not None:
        return Outcome(path=name, verdict="ignored", rule_pattern=rule.pattern, rule_line=rule.line)
    severity = plan.policy.unmatched
    if severity == "ignore":
        return Outcome(path=name, verdict="ignored")
    # A build ships what it is told to ship; the gate over the repository is where a rule has to be.
    severity = "warning" if plan.command == "build" else severity
    why = f"no rule of {plan.policy.file} matches it"
    hint = _former_rule(plan, path) or 'add a rule for it, for example: - path: "**/*.onnx"'
    if not path.is_relative_to(plan.folder):
        why = f"it is not below the folder of {plan.policy.file}, and rules reach no further"
        hint = "put a policy into its folder or above it"
    message = f"{name}: {why}, so it was not checked"
    finding = Finding(code="OCI015", severity=severity, message=message, hint=hint)
    return Outcome(path=name, verdict="ignored", findings=(finding,))


def _former_rule(plan: Plan, path: Path) -> str:
    """What to do where a model was moved out of reach of its rule."""
    former = plan.baseline.former_name(path)
    if former is None or former == path or not former.is_relative_to(plan.folder):
        return ""
    rule = rule_for(plan.policy, relative(former, plan.folder))
    if rule is None:
        return ""
    return (
        f"it was {shown(plan, former)} before, under the rule for {rule.pattern!r}"
        f" ({plan.policy.file}:{rule.line}): let that rule match its new name"
    )


def _with_ended_override(plan: Plan, outcome: Outcome, matched: str) -> Outcome:
    digest = outcome.before.sha256 if outcome.before else ""
    ended = ended_override(plan.policy, matched, digest, date.today())
    if ended is None:
        return outcome
    finding = Finding(
        code="OCI009",
        severity="warning",
        message=f"{outcome.path}: its override ended on {ended.until.isoformat()} ({ended.reason})",
        hint="make the model fit, or renew the override with a new date",
    )
    return replace(outcome, findings=(*outcome.findings, finding))


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
        listed = self.tree.models() if self.tree else known_files(self.repository, MODELS)
        paths = {*self.models, *(model_named(self.repository / name) for name in listed)}
        below = sorted(path for path in paths if path.is_relative_to(context.folder))
        names = [relative(path, context.folder) for path in below]
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
    outcomes = [replace(o, file=relative(path, root), rule_file=policy) for o, path in named]
    findings = tuple(replace(finding, file=policy) for finding in report.findings)
    groups = tuple(replace(group, file=policy) for group in report.groups)
    return replace(report, outcomes=tuple(outcomes), findings=findings, groups=groups)


SHOWN = 3


def history_findings(context: Context, base: str, owns: Owns) -> list[Finding]:
    """What the policy of a context has to say about the branch; `base` is what the run is compared with."""
    limits, repository = context.policy.history, context.repository
    if limits is None or repository is None:
        return []
    branch = _branch(context, repository, limits, base)
    if branch is None:
        return []
    counted = _counted(branch, context.folder, owns)
    kinds = (("git", limits.budget, False), ("Git LFS", limits.lfs, True))
    over = (
        _over(context, branch, [version for version in counted if version.in_lfs == in_lfs], limit, place)
        for place, limit, in_lfs in kinds
    )
    return [finding for finding in over if finding]


def _branch(context: Context, repository: Path, limits: History, base: str) -> Branch | None:
    head = commit_of(repository, (context.tree.commit if context.tree else "") or "HEAD")
    if head is None:
        return None
    staged = context.tree is not None and not context.tree.commit
    if base in ("", "HEAD"):
        base = merge_base(repository, limits.since, head) if limits.since else head
    return Branch(repository, base, head, staged=staged) if staged or base != head else None


def _counted(branch: Branch, folder: Path, owns: Owns) -> list[Version]:
    """Models and their data below the folder of a policy."""
    versions = [v for v in branch.versions() if (branch.repository / v.name).is_relative_to(folder)]
    there = branch.models()
    models = list(dict.fromkeys([*(v.name for v in versions if _is_model(v.name)), *there]))

    def is_data(name: str) -> bool:
        path = branch.repository / name
        near = (branch.repository / model for model in there)
        return called_after(name, models) or any(
            owns(model, path) for model in near if model.parent in path.parents
        )

    data = {name for name in {v.name for v in versions} if not _is_model(name) and is_data(name)}
    return [version for version in versions if _is_model(version.name) or version.name in data]


def _is_model(name: str) -> bool:
    return name.lower().endswith(".onnx")


def _over(
    context: Context, branch: Branch, versions: Sequence[Version], limit: int | None, place: str
) -> Finding | None:
    total = sum(version.size for version in versions)
    if limit is None or total <= limit or context.policy.history is None:
        return None
    allowed = f"{format_size(limit)} ({context.checked.file}:{context.policy.history.line})"
    return Finding(
        code="OCI026",
        severity="error",
        message=f"this branch adds {format_size(total)} of models to {place} for ever,"
        f" over the history budget of {allowed}: {', '.join(_largest(versions))}",
        hint=_how_to_squash(branch, versions, limit),
        file=context.policy_name,
        line=context.policy.history.line,
    )


def _largest(versions: Sequence[Version]) -> Iterator[str]:
    by_name: dict[str, list[int]] = {}
    for version in versions:
        by_name.setdefault(version.name, []).append(version.size)
    ordered = sorted(by_name.items(), key=lambda item: -sum(item[1]))
    for name, sizes in ordered[:SHOWN]:
        times = f" in {len(sizes)} versions" if len(sizes) > 1 else ""
        yield f"{name}{times} {format_size(sum(sizes))}"
    if len(ordered) > SHOWN:
        yield f"and {len(ordered) - SHOWN} more"


def _how_to_squash(branch: Branch, versions: Sequence[Version], limit: int) -> str:
    last = branch.last()
    left = sum(version.size for version in versions if version.blob in last)
    command = f"git reset --soft {branch.base[:12]} && git commit, then git push --force-with-lease"
    squashed = f"as one commit it adds {format_size(left)}"
    if left > limit:
        return f"even {squashed}: shrink its models (onnx-ci fix), then: {command}"
    return f"{squashed}: {command}; or squash it when it is merged"
