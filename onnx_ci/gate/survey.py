"""What could be had of models, a few proven forms of each, whatever their rules allow; nothing is changed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from onnx_ci.errors import ModelError
from onnx_ci.gate.attempts import LEVELS, each_level
from onnx_ci.gate.judge import about_sharers, disk_trouble, how_to_get, opened
from onnx_ci.gate.project import Context, ruling_context
from onnx_ci.gate.run import Progress, bound_of, in_forks
from onnx_ci.gate.subject import Say, Task
from onnx_ci.policy.schema import DEFAULT_METHODS, Budget, MethodChoice, Rule, Tolerance
from onnx_ci.repo.content import Source, Sources
from onnx_ci.results import Surveyed
from onnx_ci.sandbox.forks import Bound, Stopped, can_fork
from onnx_ci.sandbox.process import processors
from onnx_ci.sandbox.runner import Runner
from onnx_ci.util.text import relative_name

RUNS = 60  # to plan with: fewer than `fix` takes, for an answer in seconds
METHODS = (*DEFAULT_METHODS, *(MethodChoice(name=name) for name in LEVELS["smallest"]))


@dataclass(frozen=True, kw_only=True)
class Request:
    """A model to be surveyed: where its content is, and what its rule says of inputs and tolerance."""

    task: Task
    source: Source
    seconds: float  # that it may take

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def result(self) -> Surveyed:
        return Surveyed(path=self.name, matched=self.task.matched, size=self.source.size)

    @property
    def bound(self) -> Bound:
        return replace(bound_of(self.source.path, self.task.rule), seconds=self.seconds)


def survey_models(
    context: Context,
    models: Sequence[Path],
    *,
    tolerance: Tolerance | None = None,
    seconds: float = math.inf,
    progress: Progress = lambda *_: None,
) -> list[Surveyed | None]:
    """What could be had of each model; None for those that were not begun after so many seconds."""
    until = time.monotonic() + seconds
    with Sources(context.root) as sources:
        asked = [_asked(context, path, sources, tolerance, seconds) for path in models]
        begun: set[int] = set()

        def heard(number: int, doing: str | None) -> None:
            begun.add(number)
            if doing:
                progress(len(begun) - 1, len(asked), asked[number].name, doing)

        def work(number: int, runner: Runner, say: Say) -> Surveyed | None:
            return survey(asked[number], runner, say) if time.monotonic() < until else None

        if not can_fork():
            with Runner() as runner:
                return [work(number, runner, partial(heard, number)) for number in range(len(asked))]
        # In the order given, where not all may get their turn.
        jobs = 1 if math.isfinite(seconds) else min(processors(), len(asked))
        found = in_forks([one.bound for one in asked], work, [sources], jobs=jobs, heard=heard)
        pairs = zip(asked, found, strict=True)
        return [_stopped(one, end) if isinstance(end, Stopped) else end for one, end in pairs]


def _asked(
    context: Context, path: Path, sources: Sources, tolerance: Tolerance | None, seconds: float
) -> Request:
    ruled = ruling_context(context, path)
    rule = ruled.rule_of(path) or Rule(pattern="")
    rule = replace(
        rule,
        methods=METHODS,
        shrink="smallest",
        budget=Budget(),
        tolerance=tolerance or rule.tolerance,
        evaluate=None,
        runtimes=(),
        plan_runs=RUNS,
        plan_seconds=None,
    )
    source = sources.of(path)
    task = Task(
        path=source.path,
        name=relative_name(path, context.here),
        matched=ruled.name_of(path),
        rule=rule,
        root=source.root,
        home=ruled.folder,
    )
    return Request(task=task, source=source, seconds=min(seconds, rule.total_seconds))


def _stopped(asked: Request, stopped: Stopped) -> Surveyed:
    reasons = {
        "seconds": f"{asked.name}: it was not done within {asked.seconds:g} s",
        "memory": f"{asked.name}: the work on it takes more memory than limits.memory",
        "crash": f"{asked.name}: the process that worked on it crashed ({stopped.how})",
    }
    return replace(asked.result, problem=reasons[stopped.why])


def survey(asked: Request, runner: Runner, say: Say = lambda _: None) -> Surveyed:
    """What could be had of one model. Its outputs are verified; latency and score are not looked at."""
    task, result = asked.task, asked.result
    if asked.source.absent:
        part = asked.source.absent[0]
        keeper = part.pointer.keeper if part.pointer else ""
        how = how_to_get(part.path, keeper, fetching=False)
        return replace(result, problem=f"{asked.name}: its content has not been downloaded; {how}")
    try:
        with opened(task, runner, say) as subject:
            for shared in about_sharers(task, subject.sharers):
                return replace(result, problem=shared.message)
            problem = f"{asked.name}: rounded before: only its original tells what else could be had"
            forms = tuple(each_level(subject))
            return replace(result, forms=forms, problem=problem if subject.lineage.lossy else "")
    except ModelError as error:
        return replace(result, problem=error.message)
    except OSError as error:
        return replace(result, problem=disk_trouble(asked.name, error).message)
