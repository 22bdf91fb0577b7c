"""Models on their way into a package: each under its rule, written elsewhere, the source tree as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from time import perf_counter

from onnx_ci.job import Say, write_to
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.measure import files_of
from onnx_ci.model.ownership import data_of, is_own
from onnx_ci.pipeline import Plan, judge_by_rule
from onnx_ci.results import Outcome, RunReport
from onnx_ci.single import check_target
from onnx_ci.verify.client import Runner


@dataclass
class Packed:
    """What a package holds otherwise than the source tree, by its path in the package."""

    files: dict[str, Path] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)  # data of models that no longer need it

    def add(self, title: str, source: Path, target: Path) -> None:
        """Take what was written for a model. Data that is not called after it may be another's, and stays."""
        folder = PurePosixPath(title).parent
        own = {(folder / name).as_posix() for name in data_of(source) if is_own(name, source)}
        for file in files_of(target, read_skeleton(target)):
            self.files[(folder / file.relative_to(target.parent).as_posix()).as_posix()] = file
        self.dropped |= own - self.files.keys()


def ship(plan: Plan, source: Path, target: Path, runner: Runner, say: Say = lambda _: None) -> Outcome:
    """Write the target if the rule makes something else of the model, and all of the rule holds then."""
    check_target(source, target)
    return judge_by_rule(plan, source, runner, write_to(target), say)


def pack(plan: Plan, models: Mapping[str, Path], staging: Path) -> tuple[Packed, RunReport]:
    """Models by their path in the package. What is staged is for use only if the report has no error."""
    began, packed, outcomes = perf_counter(), Packed(), []
    with Runner() as runner:
        for number, (title, source) in enumerate(models.items()):
            target = staging / str(number) / PurePosixPath(title).name
            target.parent.mkdir(parents=True)
            outcome = ship(plan, source, target, runner)
            if outcome.written:
                packed.add(title, source, target)
            outcomes.append(outcome)
    report = RunReport(command="build", outcomes=tuple(outcomes), policy=plan.policy.file, notes=plan.notes)
    return packed, replace(report, seconds=round(perf_counter() - began, 3))
