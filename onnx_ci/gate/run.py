"""All targets through the gate, and what holds for several of them together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from onnx_ci.errors import ModelError, OnnxCiError
from onnx_ci.gate.attempts import RAN_OUT
from onnx_ci.gate.groups import Groups
from onnx_ci.gate.judge import disk_trouble, judge, judge_pointer, needs_content
from onnx_ci.gate.repo_findings import Standing
from onnx_ci.gate.subject import InPlace, Ledger, Look, NewFile, Say, Task
from onnx_ci.gate.workers import run_each
from onnx_ci.model.replace import is_needed
from onnx_ci.policy.load import ended_override, rule_for
from onnx_ci.policy.schema import TOTAL, Policy, Rule
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.content import Source, Sources, check_out, obtain
from onnx_ci.results import BUG, Command, Finding, Outcome, RunReport
from onnx_ci.sandbox.forks import Bound, Stopped
from onnx_ci.sandbox.process import memory_for
from onnx_ci.sandbox.runner import Runner
from onnx_ci.util.files import scratch_folder, sweep_files
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import relative_name

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
            look = Look(stack.enter_context(scratch_folder()), first=True)
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
        notes=tuple(problems),
    )


def _groups(plan: Plan) -> Groups:
    return Groups(
        policy=plan.policy,
        judged={relative_name(path, plan.folder): path for path in plan.models},
        everything=lambda: {relative_name(path, plan.folder): path for path in plan.everything()},
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
    rules = {path: rule_for(plan.policy, relative_name(path, plan.folder)) for path in plan.models}
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

    def judge_one(number: int, runner: Runner, say: Say) -> Outcome:
        return judge_by_rule(asked[number], runner, say)

    def heard(number: int, doing: str) -> None:
        progress(number, len(asked), asked[number].name, doing)

    sources = {id(found): found for each in asked for found in each.plan.baseline.all_sources()}
    bounds = [each.bound for each in asked]
    results = run_each(bounds, judge_one, list(sources.values()), jobs=jobs, heard=heard)
    for each, result in zip(asked, results, strict=True):
        yield _ran_out(each, result) if isinstance(result, Stopped) else result


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
    rule = rule_for(asked.plan.policy, relative_name(asked.path, asked.plan.folder))
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
        matched=relative_name(path, plan.folder),
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
    return (
        rule_for(plan.policy, relative_name(path, plan.folder)) if path.is_relative_to(plan.folder) else None
    )


def shown(plan: Plan, path: Path) -> str:
    """A model's name in messages."""
    return relative_name(path, plan.shown_from if path.is_relative_to(plan.shown_from) else plan.root)


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
    rule = rule_for(plan.policy, relative_name(former, plan.folder))
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
