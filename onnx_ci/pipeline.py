"""All targets through the gate, and what holds for several of them together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path

from onnx_ci.absent import judge_absent, needs_content
from onnx_ci.baseline import Baseline
from onnx_ci.findings import Finding
from onnx_ci.groups import Groups
from onnx_ci.job import Job, Say, Write, noting, write_in_place
from onnx_ci.judge import judge
from onnx_ci.obtain import check_out, obtain
from onnx_ci.policy.match import ended_override, rule_for
from onnx_ci.policy.schema import Policy, Rule
from onnx_ci.results import Outcome, RunReport
from onnx_ci.sandbox.runner import Runner
from onnx_ci.sources import Sources
from onnx_ci.standing import Standing

Progress = Callable[[int, int, str, str], None]  # models done, models in all, name, what is being done


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run: the models, the rules, and where everything is."""

    command: str  # "check" | "fix" | "build"
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
    sharded: bool = False  # only a part of what is to be judged: then groups are judged by whoever has all


def run(plan: Plan, progress: Progress = lambda *_: None) -> RunReport:
    """Judge every model; a group is judged as soon as one of its members was. A shard only notes what groups
    take before and after: what it would say of them now is not what holds in the end."""
    began = time.perf_counter()
    problems = _obtain(plan)
    if plan.only_new or any(rule.only_new or rule.budget.growth is not None for rule in plan.policy.rules):
        plan.baseline.look_up(plan.models)
    groups = _groups(plan)
    before = groups.totals() if plan.sharded else {}
    plan = replace(plan, targets=groups.targets(lambda path: _size_by_rule(plan, path, progress)))
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


def _size_by_rule(plan: Plan, path: Path, progress: Progress) -> int:
    """What a model takes once its own rule was applied; nothing is written for that."""
    with Runner() as runner:
        say = partial(progress, 0, len(plan.models), shown(plan, path))
        outcome = judge_by_rule(plan, path, runner, None, say)
    found = outcome.after or outcome.before
    return found.size if found else plan.sources.of(path).size


def _obtain(plan: Plan) -> list[str]:
    """Only what is judged by its content is worth a download; what went wrong, in words."""
    rules = {path: rule_for(plan.policy, relative(path, plan.folder)) for path in plan.models}
    wanted = [path for path, rule in rules.items() if rule and not rule.ignore and needs_content(rule)]
    problems = [obtain(wanted, plan.sources)] if plan.policy.lfs.missing == "fetch" else []
    if plan.command == "fix":
        problems.append(check_out(wanted, plan.sources))
    return [problem for problem in problems if problem]


def _judge_all(plan: Plan, progress: Progress) -> Iterator[Outcome]:
    if plan.jobs > 1 and len(plan.models) > 1:
        yield from _in_parallel(plan, progress)
        return
    with Runner() as runner:
        for position, path in enumerate(plan.models):
            yield _one(plan, path, runner, position, progress)


def _in_parallel(plan: Plan, progress: Progress) -> Iterator[Outcome]:
    """Each thread keeps its worker process for all the models it gets."""
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    with ExitStack() as stack:
        free: SimpleQueue[Runner] = SimpleQueue()
        for _ in range(plan.jobs):
            free.put(stack.enter_context(Runner()))

        def work(numbered: tuple[int, Path]) -> Outcome:
            runner = free.get()
            try:
                return _one(plan, numbered[1], runner, numbered[0], progress)
            finally:
                free.put(runner)

        with ThreadPoolExecutor(plan.jobs) as pool:
            yield from pool.map(work, enumerate(plan.models))


def _one(plan: Plan, path: Path, runner: Runner, position: int, progress: Progress) -> Outcome:
    name = shown(plan, path)
    write = write_in_place(plan.root) if plan.command == "fix" else None
    return judge_by_rule(
        plan, path, runner, write, lambda doing: progress(position, len(plan.models), name, doing)
    )


def judge_by_rule(plan: Plan, path: Path, runner: Runner, write: Write | None, say: Say) -> Outcome:
    """One model under the rule that holds for it, if any does."""
    name, matched = shown(plan, path), relative(path, plan.folder)
    rule = rule_for(plan.policy, matched) if path.is_relative_to(plan.folder) else None
    if rule is None or rule.ignore:
        return _ignored(plan, path, name, rule)
    source = plan.sources.of(path)
    wrote: list[Path] = []
    job = Job(
        path=source.path,
        name=name,
        matched=matched,
        rule=replace(rule, runtimes=(*rule.runtimes, *plan.runtimes)),
        root=source.root,
        home=plan.folder,
        policy=plan.policy,
        write=noting(write, wrote) if write and source.in_place else None,
        strict=plan.command == "build",
        elsewhere=plan.command == "build",
        base_size=plan.baseline.size(path) if rule.budget.growth is not None else None,
        known_as=path,
        repository=plan.sources.repository,
        target=plan.targets.get(path),
        cache=plan.cache,
    )
    # A package needs the content itself: there a pointer is a model that can't be read.
    by_pointer = source.absent and plan.command != "build"
    outcome = judge_absent(job, source) if by_pointer else judge(job, runner, say)
    standing = Standing(
        job=job,
        source=source,
        sources=plan.sources,
        baseline=plan.baseline,
        fixing=plan.command == "fix" and write is not None,
        wrote=bool(wrote),
        only_new=plan.only_new,
    )
    return standing.apply(_with_ended_override(plan, outcome, matched))


def shown(plan: Plan, path: Path) -> str:
    """A model's name in messages."""
    return relative(path, plan.shown_from if path.is_relative_to(plan.shown_from) else plan.root)


def relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def _ignored(plan: Plan, path: Path, name: str, rule: Rule | None) -> Outcome:
    if rule is not None:
        return Outcome(path=name, verdict="ignored", rule_pattern=rule.pattern, rule_line=rule.line)
    why, hint = (
        f"no rule of {plan.policy.file} matches it",
        'add a rule for it, for example: - path: "**/*.onnx"',
    )
    if not path.is_relative_to(plan.folder):
        why = f"it is not below the folder of {plan.policy.file}, and rules reach no further"
        hint = "put a policy into its folder or above it"
    message = f"{name}: {why}, so it was not checked"
    finding = Finding(code="OCI015", severity="warning", message=message, hint=hint)
    return Outcome(path=name, verdict="ignored", findings=(finding,))


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
