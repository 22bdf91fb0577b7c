"""All targets through the gate, and what holds for several of them together."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from onnx_ci.errors import ModelError, OnnxCiError
from onnx_ci.gate.attempts import RAN_OUT
from onnx_ci.gate.cache import store
from onnx_ci.gate.groups import Groups
from onnx_ci.gate.judge import disk_trouble, judge, judge_pointer, needs_content
from onnx_ci.gate.project import Context, Judging, policy_for
from onnx_ci.gate.repo_findings import Standing
from onnx_ci.gate.subject import InPlace, Ledger, Look, NewFile, Say, Task
from onnx_ci.model.measure import compressed_size
from onnx_ci.model.replace import is_needed
from onnx_ci.policy.load import ended_override
from onnx_ci.policy.schema import TOTAL, Limits, Rule
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.content import Source, Sources, check_out, obtain
from onnx_ci.repo.select import models_below
from onnx_ci.repo.tree import Tree
from onnx_ci.results import BUG, Base, Command, Finding, Measure, ModelDiff, Outcome, RunReport, Verification
from onnx_ci.sandbox import process
from onnx_ci.sandbox.forks import Bound, Heard, OutOfTime, Stopped, can_fork, run_tasks
from onnx_ci.sandbox.runner import Runner
from onnx_ci.util.files import scratch_folder, sweep_files
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import relative_name

Progress = Callable[[int, int, str, str], None]  # models done, models in all, name, what is being done


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

    def sources(self) -> Sources:
        return Sources(self.context.root, self.tree, self.everything, repository=self.repository)

    def groups(self, sources: Sources) -> Groups:
        def by_name(paths: Iterable[Path]) -> dict[str, Path]:
            return {self.context.name_of(path): path for path in paths}

        return Groups(
            policy=self.context.policy,
            judged=by_name(self.models),
            everything=lambda: by_name(self.everything()),
            sources=sources,
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run: the models, the rules, and where everything is."""

    command: Command
    share: Share
    how: Judging
    shown_from: Path  # names in messages are relative to it
    sources: Sources  # where the content of models is
    baseline: Baseline  # what they are compared with
    targets: Mapping[Path, int] = field(default_factory=dict)  # what groups leave to models, in bytes
    look: Look | None = None  # None: every model is looked at once
    withheld: Mapping[Path, str] = field(default_factory=dict)  # models, and what is not run for them
    swept: set[Path] = field(default_factory=set)  # folders that were rid of what dead runs left
    notes: dict[str, None] = field(default_factory=dict)  # what else there is to say of the run
    seconds: dict[Path, float] = field(default_factory=dict)  # what models took

    @property
    def context(self) -> Context:
        return self.share.context

    def shown(self, path: Path) -> str:
        """A model's name in messages."""
        inside = path.is_relative_to(self.shown_from)
        return relative_name(path, self.shown_from if inside else self.context.root)


def run(plan: Plan) -> RunReport:
    """Judge every model; a group is judged as soon as one of its members was. A shard only notes what groups
    take before and after: what it would say of them now is not what holds in the end."""
    began = time.perf_counter()
    problems = _obtain(plan)
    rules = plan.context.policy.rules
    if plan.how.only_new or any(r.only_new or r.load_check or r.budget.growth is not None for r in rules):
        plan.baseline.look_up(plan.share.models)
    groups = plan.share.groups(plan.sources)
    sharded = plan.how.shard is not None
    before = {(size.name, size.measure): size.after for size in groups.sizes({})} if sharded else {}
    with ExitStack() as stack:
        contested = dict.fromkeys(path for members in groups.dependent() for path in members)
        if contested and plan.how.search:
            look = Look(stack.enter_context(scratch_folder()), first=True)
            first = replace(plan, share=replace(plan.share, models=tuple(contested)), look=look)
            sizes_by_rule = _sizes_by_rule(first)
            plan = replace(plan, targets=groups.targets(sizes_by_rule), look=replace(look, first=False))
        outcomes = list(_judge_all(plan, plan.how.progress))
    plan.sources.forget()  # a fix changed sizes
    # Whoever shows a finding beside the code goes by names from the top of the repository.
    policy, root = plan.context.policy_name, plan.context.root
    sizes = tuple(replace(size, file=policy) for size in groups.sizes(before))
    fixed = plan.command == "fix" and set(plan.share.models) >= set(plan.share.everything())
    named = zip(outcomes, plan.share.models, strict=True)
    return RunReport(
        command=plan.command,
        outcomes=tuple(replace(o, file=relative_name(path, root), rule_file=policy) for o, path in named),
        findings=() if sharded else tuple(found for size in sizes for found in size.findings(fixed=fixed)),
        groups=sizes if sharded else (),
        seconds=round(time.perf_counter() - began, 3),
        notes=tuple(dict.fromkeys([*problems, *plan.notes, *store().notes()])),
    )


def _sizes_by_rule(plan: Plan) -> dict[Path, int]:
    """What models take once their own rules were applied; nothing is written for that."""
    outcomes = _judge_all(
        replace(plan, command="check"), lambda _, count, *said: plan.how.progress(0, count, *said)
    )
    sizes = {}
    for path, outcome in zip(plan.share.models, outcomes, strict=True):
        found = outcome.after or outcome.before
        sizes[path] = found.size if found else plan.sources.of(path).size
    return sizes


def _obtain(plan: Plan) -> list[str]:
    """Only what is judged by its content is worth a download; what went wrong, in words."""
    rules = {path: plan.context.rule_of(path) for path in plan.share.models}
    wanted = [path for path, rule in rules.items() if rule and not rule.ignore and needs_content(rule)]
    problems = [obtain(wanted, plan.sources)] if plan.context.policy.lfs.missing == "fetch" else []
    if plan.command == "fix":
        problems.append(check_out(wanted, plan.sources))
    return [problem for problem in problems if problem]


def _judge_all(plan: Plan, progress: Progress) -> Iterator[Outcome]:
    output = InPlace(plan.context.root) if plan.command == "fix" else None
    asked = [Asked(plan, path, output) for path in plan.share.models]
    if plan.how.cluster is not None:
        return plan.how.cluster(asked, progress=progress)
    return judge_each(asked, jobs=plan.how.jobs, progress=progress)


@dataclass(frozen=True)
class Asked:
    """One model to be judged in a run, and where a proven candidate is put; None only looks."""

    plan: Plan
    path: Path
    output: InPlace | NewFile | None

    @property
    def name(self) -> str:
        return self.plan.shown(self.path)

    @property
    def rule(self) -> Rule:
        """The rule whose limits hold: without one, those that a rule has by default."""
        return self.plan.context.rule_of(self.path) or Rule(pattern="")

    @property
    def bound(self) -> Bound:
        """Where time is measured, or a command of the user's runs, nothing else runs beside it."""
        bound = bound_of(self.path, self.rule)
        alone = self.rule.budget.timed or self.rule.evaluate is not None
        return replace(bound, likely=math.inf) if alone else bound

    def unverified(self, finding: Finding, *, written: bool = False) -> Outcome:
        """What is left to say of a model that could not be judged."""
        return Outcome(
            path=self.name,
            verdict="unverified",
            rule_pattern=self.rule.pattern,
            rule_line=self.rule.line,
            verification=Verification(status="not_run", reason="the work on it ended before that"),
            findings=(finding,),
            written=written,
        )


def bound_of(path: Path, rule: Rule) -> Bound:
    """What the work on a model may take under a rule, and the memory that it is likely to take."""
    memory = process.memory_for(process.stored_bytes(path), rule.limits.memory)
    return Bound(rule.total_seconds, memory, float(process.usual_memory(path)))


@dataclass(frozen=True)
class Judged:
    """What another process found out about a model, and what the run has to know beside that."""

    outcome: Outcome
    seconds: float
    notes: tuple[str, ...]

    def noted(self, asked: Asked) -> Outcome:
        asked.plan.notes.update(dict.fromkeys(self.notes))
        asked.plan.seconds[asked.path] = self.seconds
        return replace(self.outcome, seconds=self.seconds)


def judge_each(
    asked: Sequence[Asked], *, jobs: int | None = None, progress: Progress = lambda *_: None
) -> Iterator[Outcome]:
    """The outcomes in order, of up to `jobs` models at a time: by default, as many as there are processors.
    Where a process can be forked, time and memory are bounded for each model, and large ones wait."""

    ended: set[int] = set()
    current: dict[int, str] = {}  # what is being done, the latest last

    def heard(number: int, doing: str | None) -> None:
        if doing is None:
            ended.add(number)
        if doing != "":
            current.pop(number, None)
        if doing:
            current[number] = doing
        if current:
            number, doing = list(current.items())[-1]
            progress(len(ended), len(asked), asked[number].name, doing)

    if can_fork():
        yield from _in_forks(asked, min(jobs or process.processors(), len(asked)), heard)
    else:
        yield from _in_threads(asked, jobs or _side_by_side(asked), heard)


def _in_forks(asked: Sequence[Asked], jobs: int, heard: Heard) -> Iterator[Outcome]:
    def work(number: int, runner: Runner, say: Say) -> Judged:
        began = time.perf_counter()
        outcome = judge_by_rule(asked[number], runner, say)
        return Judged(outcome, round(time.perf_counter() - began, 3), tuple(store().notes()))

    used = dict.fromkeys(sources for each in asked for sources in each.plan.baseline.all_sources())
    results = in_forks([each.bound for each in asked], work, used, jobs=jobs, heard=heard)
    for each, result in zip(asked, results, strict=True):
        yield ran_out(each, result) if isinstance(result, Stopped) else result.noted(each)


Result = TypeVar("Result")


def in_forks(
    bounds: Sequence[Bound],
    work: Callable[[int, Runner, Say], Result],
    used: Iterable[Sources],
    *,
    jobs: int,
    heard: Heard,
) -> list[Result | Stopped]:
    """Do work on each of several models. Each process keeps its worker for all the models it gets; `used` is
    where it looks for them."""

    @contextmanager
    def working() -> Iterator[Callable[[int, Say], Result]]:
        for sources in used:
            sources.fork()
        with Runner() as runner:
            yield lambda number, say: work(number, runner, say)

    for sources in used:
        sources.close_git()
    return run_tasks(bounds, working, jobs=jobs, room=process.free_memory() or math.inf, heard=heard)


def _side_by_side(asked: Sequence[Asked]) -> int:
    """How many models fit into memory together, the largest ones; no more than there are processors."""
    likely = sorted((each.bound.likely for each in asked), reverse=True)
    room = process.free_memory() or 0
    return max([1, *(n for n in range(1, process.processors() + 1) if sum(likely[:n]) < room)])


def _in_threads(asked: Sequence[Asked], jobs: int, heard: Heard) -> Iterator[Outcome]:
    """Each thread keeps its worker process for all the models it gets."""
    from concurrent.futures import ThreadPoolExecutor, wait
    from queue import SimpleQueue

    with ExitStack() as stack:
        free: SimpleQueue[Runner] = SimpleQueue()
        for _ in range(jobs):
            free.put(stack.enter_context(Runner()))

        def judge_one(number: int) -> Outcome:
            runner = free.get()
            try:
                return judge_by_rule(asked[number], runner, partial(heard, number))
            finally:
                free.put(runner)
                heard(number, None)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for future in [pool.submit(judge_one, number) for number in range(len(asked))]:
                    # Short waits: a signal that another thread got is seen by this one between two of them.
                    while not wait([future], timeout=0.2).done:
                        pass
                    yield future.result()
            except BaseException:  # interrupted, or one model ended the run: don't wait for the others' work
                with process.ended_children():
                    pool.shutdown(cancel_futures=True)
                raise


def _of(limits: Limits) -> str:
    if limits.total_seconds:
        return "limits.total_seconds"
    return f"{TOTAL} times limits.seconds, {limits.seconds:g}"


def ran_out(asked: Asked, stopped: Stopped) -> Outcome:
    """What is known of a model where the work on it had to be stopped."""
    rule, bound = asked.rule, asked.bound
    reasons = {
        "seconds": (
            f"the work on it did not end within {bound.seconds:g} s, which is {_of(rule.limits)}",
            "give it more time: limits: {total_seconds: ...}",
        ),
        "memory": (
            f"the work on it takes more memory than limits.memory, {format_size(bound.memory)}",
            "give it more room: limits: {memory: ...}",
        ),
        "crash": (f"the process that worked on it crashed ({stopped.how})", "please report it"),
    }
    reason, hint = reasons[stopped.why]
    message = f"{asked.name}: {reason}; it is not verified"
    hint = f"{hint}; if it is not meant to be judged, exclude it with `ignore: true`"
    return asked.unverified(Finding(code=RAN_OUT, severity=rule.severity, message=message, hint=hint))


def judge_by_rule(asked: Asked, runner: Runner, say: Say) -> Outcome:
    """One model under the rule that holds for it, if any does. What goes wrong with one is a finding about
    that one: the others are judged all the same."""
    ledger = Ledger()
    try:
        return judge_model(asked, runner, ledger, say)
    except OutOfTime:
        return ran_out(asked, Stopped("seconds"))
    except ModelError as error:
        finding = Finding(code=error.code, severity="error", message=error.message, hint=error.hint)
    except OnnxCiError:
        raise  # about the machine or the call: it would be the same for every model
    except OSError as error:
        finding = disk_trouble(asked.name, error)
    except Exception as error:  # noqa: BLE001 - a bug of ours; the command ends with exit code 4
        from onnx_ci.util.files import keep_traceback

        message, hint = keep_traceback(error)
        message = f"{asked.name}: could not be judged: {message}"
        finding = Finding(code=BUG, severity="error", message=message, hint=hint)
    return asked.unverified(finding, written=bool(ledger.written))


def judge_model(asked: Asked, runner: Runner, ledger: Ledger, say: Say) -> Outcome:
    """The walk of one model: where its content is, what is asked of it, what comes of it."""
    plan, path = asked.plan, asked.path
    rule = plan.context.rule_of(path)
    if rule is None:
        return _unmatched(plan, path)
    if rule.ignore:
        return Outcome(path=asked.name, verdict="ignored", rule_pattern=rule.pattern, rule_line=rule.line)
    brought = plan.withheld.get(path, "")
    if brought:  # it is weighed; what the rule wants to be run is not
        rule = replace(rule, methods=(), evaluate=None, libraries=())
    source = plan.sources.of(path)
    _sweep(plan, source)
    task = _task(asked, rule, source)
    base = _base(plan, task, source)  # before anything is written
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
        fixing=plan.command == "fix",
        wrote=bool(ledger.written),
        only_new=plan.how.only_new,
    )
    done = replace(standing.apply(_with_ended_override(plan, outcome, task.matched)), base=base)
    return _unverified(done, brought) if brought else done


def _base(plan: Plan, task: Task, source: Source) -> Base | None:
    """What the model was in the commit that the run is compared with. A hook does not ask: the old content
    would have to be got out of git for that."""
    baseline, path = task.baseline, task.user_path
    if baseline is None or not baseline.base or baseline.repository is None or not plan.how.search:
        return None
    former = baseline.former_name(path)
    if former is None:
        return Base(state="new")
    name = plan.shown(former) if former != path else ""
    if baseline.unchanged(path):
        return Base(state="unchanged", measure=Measure(size=source.size), path=name)
    try:
        then = baseline.sources.of(former)
    except (OnnxCiError, OSError):  # a clone may lack it: all that is missing then is a figure
        return Base(state="changed", path=name)
    files = [part.content for part in then.parts if part.content and part.content.is_file()]
    compressed = task.compressed if len(files) == len(then.parts) else ()
    sizes: dict[str, Any] = {kind: compressed_size(kind, files) for kind in compressed}
    diff, undiffed = _diffed((f"{baseline.base[:10]}:{name or task.name}", task.name), then, source)
    size = Measure(size=then.size, **sizes)
    return Base(state="changed", measure=size, path=name, diff=diff, undiffed=undiffed)


def _diffed(names: tuple[str, str], then: Source, now: Source) -> tuple[ModelDiff | None, str]:
    """What changed in a model, or why that is not known. No verdict hangs on it, so nothing it runs into
    may end the run."""
    from onnx_ci.model.diff import brief, diff_models

    before, after = (side.parts[0].content if side.absent else side.path for side in (then, now))
    roots = tuple(None if side.absent else side.root for side in (then, now))
    if before is None or after is None:
        where = "in the base" if before is None else "now"
        return None, f"only a pointer to its content {where} is here"
    try:
        diff = diff_models(before, after, names=names, roots=roots)
        return replace(brief(diff), size_before=then.size, size_after=now.size), ""
    except OnnxCiError as error:
        return None, f"one of the two versions can not be read: {error}"[:500]
    except Exception as error:  # noqa: BLE001
        return None, f"{type(error).__name__}: {error}"[:500]


def _task(asked: Asked, rule: Rule, source: Source) -> Task:
    plan, path = asked.plan, asked.path
    building = plan.command == "build"
    return Task(
        path=source.path,
        name=asked.name,
        matched=plan.context.name_of(path),
        rule=replace(rule, runtimes=(*rule.runtimes, *plan.how.runtimes)),
        root=source.root,
        home=plan.context.folder,
        policy=plan.context.policy,
        output=asked.output if source.in_place else None,
        strict=building,
        elsewhere=building,
        base_size=plan.baseline.size(path) if rule.budget.growth is not None else None,
        known_as=path,
        repository=plan.sources.repository,
        share=plan.targets.get(path),
        keeps_originals=plan.command == "fix",
        baseline=None if building else plan.baseline,
        cache=plan.how.cache,
        look=plan.look,
        search=plan.how.search,
    )


def _unverified(outcome: Outcome, brought: str) -> Outcome:
    """An error whatever the rule says: the rule is the change's own."""
    message = f"{outcome.path}: not verified: the change itself brings {brought}, and that is not run"
    allow = "allow such changes in the base's policy: new_commands: run"
    hint = f"merge the change of the policy first, or {allow}"
    finding = Finding(code="OCI047", severity="error", message=message, hint=hint)
    verdict = "unverified" if outcome.verdict == "ok" else outcome.verdict
    return replace(outcome, verdict=verdict, findings=(*outcome.findings, finding))


def _sweep(plan: Plan, source: Source) -> None:
    """Remove what dead runs left beside a model and its data; each folder is looked at once."""
    for folder in {part.path.parent for part in source.parts} - plan.swept:
        plan.swept.add(folder)
        sweep_files(folder, is_needed)


def _unmatched(plan: Plan, path: Path) -> Outcome:
    outcome = Outcome(path=plan.shown(path), verdict="ignored")
    severity = plan.context.policy.unmatched
    if severity == "ignore":
        return outcome
    # A build ships what it is told to ship; the gate over the repository is where a rule has to be.
    severity = "warning" if plan.command == "build" else severity
    why = f"no rule of {plan.context.policy.file} matches it"
    hint = _former_rule(plan, path) or f'add a rule for it, for example: - path: "**/*{path.suffix}"'
    if not path.is_relative_to(plan.context.folder):
        why = f"it is not below the folder of {plan.context.policy.file}, and rules reach no further"
        hint = "put a policy into its folder or above it"
    message = f"{outcome.path}: {why}, so it was not checked"
    finding = Finding(code="OCI015", severity=severity, message=message, hint=hint)
    return replace(outcome, findings=(finding,))


def _former_rule(plan: Plan, path: Path) -> str:
    """What to do where a model was moved out of reach of its rule."""
    former = plan.baseline.former_name(path)
    rule = plan.context.rule_of(former) if former else None
    if former is None or former == path or rule is None:
        return ""
    return (
        f"it was {plan.shown(former)} before, under the rule for {rule.pattern!r}"
        f" ({plan.context.policy.file}:{rule.line}): let that rule match its new name"
    )


def _with_ended_override(plan: Plan, outcome: Outcome, matched: str) -> Outcome:
    digest = outcome.before.sha256 if outcome.before else ""
    ended = ended_override(plan.context.policy, matched, digest, date.today())
    if ended is None:
        return outcome
    message = f"{outcome.path}: its override ended on {ended.until.isoformat()} ({ended.reason})"
    hint = "make the model fit, or renew the override with a new date"
    finding = Finding(code="OCI009", severity="warning", message=message, hint=hint)
    return replace(outcome, findings=(*outcome.findings, finding))
