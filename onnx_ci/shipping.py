"""Models on their way into a package: each under its rule, written elsewhere, the source tree as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from filecmp import cmp
from pathlib import Path, PurePosixPath
from time import perf_counter

from onnx_ci.errors import ModelError, UsageError
from onnx_ci.job import Say, write_to
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.measure import files_of
from onnx_ci.model.ownership import data_of, is_own
from onnx_ci.pipeline import Plan, judge_by_rule
from onnx_ci.results import Outcome, RunReport
from onnx_ci.sandbox.runner import Runner
from onnx_ci.single import check_target


@dataclass
class Packed:
    """What becomes of a package's models, by their path in the package."""

    files: dict[str, Path] = field(default_factory=dict)  # written for it
    kept: dict[str, Path] = field(default_factory=dict)  # as in the source tree: models and all their data
    dropped: set[str] = field(default_factory=set)  # data of models that no longer need it

    def add(self, title: str, source: Path, target: Path) -> None:
        """Take what was written for a model. Data that is not called after it may be another's, and stays."""
        folder = PurePosixPath(title).parent
        self.files.update(_titled(title, target))
        own = ((folder / name).as_posix() for name in data_of(source) if is_own(name, source))
        self.dropped.update(own)

    def keep(self, title: str, source: Path) -> None:
        """A model that ships as it is ships with its data, whatever else a package was told to hold."""
        for name, file in _titled(title, source).items():
            _refuse_other(name, file, self.kept)
            self.kept[name] = file

    def checked(self, found: Mapping[str, Path]) -> Packed:
        """All in all: nobody's data is dropped, and none is another's, given what else is in the package."""
        self.dropped -= {*self.files, *self.kept}
        for name, file in self.kept.items():
            _refuse_other(name, file, found)
        return self


def _titled(title: str, model: Path) -> dict[str, Path]:
    """A model's files that are there, by their paths in the package; of one that can't be read, itself."""
    try:
        files = files_of(model, read_skeleton(model))
    except ModelError:
        files = [model]
    folder = PurePosixPath(title).parent
    data = {(folder / file.relative_to(model.parent).as_posix()).as_posix(): file for file in files[1:]}
    return {title: model, **{name: file for name, file in data.items() if file.is_file()}}


def _refuse_other(title: str, file: Path, others: Mapping[str, Path]) -> None:
    other = others.get(title, file)
    if other != file and not cmp(file, other, shallow=False):
        raise UsageError(
            f"{title} would have to be {file} and {other} in the package, and they differ",
            hint="put the models into folders of their own",
        )


def ship(
    plan: Plan,
    source: Path,
    target: Path,
    runner: Runner,
    *,
    reserved: Collection[str] = (),
    say: Say = lambda _: None,
) -> Outcome:
    """Write the target if the rule makes something else of the model, and all of the rule holds then.

    Names that are `reserved` are not given to its data: another model needs what is called so.
    """
    check_target(source, target)
    return judge_by_rule(plan, source, runner, write_to(target, reserved), say)


def pack(
    models: Mapping[str, Path],
    others: Mapping[str, Path],
    plan_of: Callable[[Path], Plan],
    staging: Path,
) -> tuple[Packed, RunReport]:
    """Models by their path in the package; the others ship as they are. What is staged is for use only if
    the report has no error."""
    began, packed, outcomes = perf_counter(), Packed(), []
    shared = _shared({**models, **others})
    with Runner() as runner:
        for number, (title, source) in enumerate(models.items()):
            target = staging / str(number) / PurePosixPath(title).name
            target.parent.mkdir(parents=True)
            folder = PurePosixPath(title).parent
            reserved = [path.relative_to(folder).as_posix() for path in shared if path.is_relative_to(folder)]
            outcome = ship(plan_of(source), source, target, runner, reserved=reserved)
            if outcome.written:
                packed.add(title, source, target)
            else:
                packed.keep(title, source)
            outcomes.append(outcome)
    for title, source in others.items():
        packed.keep(title, source)
    report = RunReport(command="build", outcomes=tuple(outcomes))
    return packed, replace(report, seconds=round(perf_counter() - began, 3))


def _shared(models: Mapping[str, Path]) -> list[PurePosixPath]:
    """Data that several models of the package name: what is written for one must not take its place."""
    named = Counter(name for title, path in models.items() for name in _titled(title, path) if name != title)
    return [PurePosixPath(name) for name, users in named.items() if users > 1]
