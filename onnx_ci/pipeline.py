"""All targets through the gate, and what holds for several of them together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.findings import Finding
from onnx_ci.job import Job, Say, Write, write_in_place
from onnx_ci.judge import judge
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.measure import compressed_size, files_of
from onnx_ci.model.ownership import data_of
from onnx_ci.policy.match import ended_override, group_members, rule_for
from onnx_ci.policy.schema import Group, Policy, Rule
from onnx_ci.results import Outcome, RunReport
from onnx_ci.sizes import format_size
from onnx_ci.targets.git import blob, blob_size
from onnx_ci.verify.client import Runner

Progress = Callable[[int, int, str, str], None]  # models done, models in all, name, what is being done


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run: the models, the rules, and where everything is."""

    command: str  # "check" | "fix" | "build"
    policy: Policy
    folder: Path  # patterns are relative to it
    root: Path  # nothing outside of it is read or written
    models: tuple[Path, ...]
    everything: Callable[[], Sequence[Path]]  # all models there are, for groups
    repository: Path | None = None
    base: str = ""
    jobs: int = 1
    notes: tuple[str, ...] = ()
    cache: bool = True


def run(plan: Plan, progress: Progress = lambda *_: None) -> RunReport:
    """Judge every model; a group is judged as soon as one of its members was."""
    began = time.perf_counter()
    outcomes = tuple(_judge_all(plan, progress))
    return RunReport(
        command=plan.command,
        outcomes=outcomes,
        findings=tuple(_group_findings(plan)),
        policy=plan.policy.file,
        seconds=round(time.perf_counter() - began, 3),
        notes=plan.notes,
    )


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
    name = shown(plan, path)
    rule = rule_for(plan.policy, name) if path.is_relative_to(plan.folder) else None
    if rule is None or rule.ignore:
        return _ignored(plan, name, rule)
    job = Job(
        path=path,
        name=name,
        rule=rule,
        root=plan.root,
        home=plan.folder,
        policy=plan.policy,
        write=write,
        strict=plan.command == "build",
        base_size=_base_size(plan, path, rule),
        repository=plan.repository,
        cache=plan.cache,
    )
    return _with_ended_override(plan, judge(job, runner, say))


def shown(plan: Plan, path: Path) -> str:
    """A model's name in messages and patterns: relative to the policy file."""
    return path.relative_to(plan.folder).as_posix() if path.is_relative_to(plan.folder) else str(path)


def _ignored(plan: Plan, name: str, rule: Rule | None) -> Outcome:
    if rule is not None:
        return Outcome(path=name, verdict="ignored", rule_pattern=rule.pattern, rule_line=rule.line)
    finding = Finding(
        code="OCI015",
        severity="warning",
        message=f"{name}: no rule of {plan.policy.file} matches it, so it was not checked",
        hint='add a rule for it, for example: - path: "**/*.onnx"',
    )
    return Outcome(path=name, verdict="ignored", findings=(finding,))


def _base_size(plan: Plan, path: Path, rule: Rule) -> int | None:
    """What the model and the data it named then took in the commit this run is compared with."""
    if rule.budget.growth is None or not plan.base or plan.repository is None:
        return None
    name = path.relative_to(plan.repository).as_posix()
    size = blob_size(plan.repository, plan.base, name)
    if size is None:
        return None
    folder = Path(name).parent
    data = [(folder / item).as_posix() for item in _data_in_commit(plan.repository, plan.base, name)]
    return size + sum(blob_size(plan.repository, plan.base, item) or 0 for item in data)


def _data_in_commit(repository: Path, commit: str, name: str) -> list[str]:
    """The data files that the model of that commit names."""
    content = blob(repository, commit, name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "model.onnx"
        copy.write_bytes(content or b"")
        try:
            return data_of(copy)
        except ModelError:  # a pointer of Git LFS, or broken: its size is all there is
            return []


def _with_ended_override(plan: Plan, outcome: Outcome) -> Outcome:
    digest = outcome.before.sha256 if outcome.before else ""
    ended = ended_override(plan.policy, outcome.path, digest, date.today())
    if ended is None:
        return outcome
    finding = Finding(
        code="OCI009",
        severity="warning",
        message=f"{outcome.path}: its override ended on {ended.until.isoformat()} ({ended.reason})",
        hint="make the model fit, or renew the override with a new date",
    )
    return replace(outcome, findings=(*outcome.findings, finding))


def _group_findings(plan: Plan) -> Iterator[Finding]:
    judged = {shown(plan, path) for path in plan.models}
    for group in plan.policy.groups:
        everything = {shown(plan, path): path for path in plan.everything()}
        members = group_members(group, tuple(everything))
        if judged.intersection(members):
            yield from _over_group(plan, group, [everything[name] for name in members])


def _files(path: Path) -> list[Path]:
    try:
        return [file for file in files_of(path, read_skeleton(path)) if file.exists()]
    except ModelError:  # reported where the model itself is judged
        return [path]


def _over_group(plan: Plan, group: Group, members: list[Path]) -> Iterator[Finding]:
    files = {file for path in members for file in _files(path)}  # data that two models share counts once
    totals = {
        name: sum(file.stat().st_size for file in files) if name == "size" else compressed_size(name, files)
        for name in group.budget.size_like
    }
    for name, limit in group.budget.size_like.items():
        if totals[name] > limit:
            yield Finding(
                code="OCI008",
                severity="error",
                message=f"group {group.name!r}: {len(members)} models take {format_size(totals[name])}"
                f" ({name}), over the budget of {format_size(limit)} ({plan.policy.file}:{group.line})",
                hint="shrink its largest models: onnx-ci fix --all, or raise the group's budget",
            )
