"""Models in builds: those of a Python package for the hooks, and a single one by its rule for `shrink`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from filecmp import cmp
from functools import cache
from pathlib import Path, PurePosixPath
from time import perf_counter
from typing import Any

from onnx_ci.errors import BuildStopped, ModelError, UsageError
from onnx_ci.gate.project import Context, Judging, context_for, open_context, policy_for, ruling_context
from onnx_ci.gate.run import Asked, Plan, Progress, Share, judge_each
from onnx_ci.gate.single import check_target, copy_model
from onnx_ci.gate.subject import NewFile
from onnx_ci.inputs.sample_paths import sample_files, sample_folders
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.measure import files_of
from onnx_ci.model.replace import data_of, is_own, orphaned_data, replaceable_data, shared_data
from onnx_ci.policy.glob import matches
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.content import Sources
from onnx_ci.repo.git import find_root
from onnx_ci.report.text import render_run
from onnx_ci.results import RunReport
from onnx_ci.util.scalars import FLAG, NAMES, TEXT
from onnx_ci.util.text import Style, did_you_mean, one_line, relative_name


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

    def checked(self, package_files: Mapping[str, Path]) -> Packed:
        """All in all: nobody's data is dropped, and none is another's, given what else is in the package."""
        self.dropped -= {*self.files, *self.kept}
        for name, file in self.kept.items():
            _refuse_other(name, file, package_files)
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
        message = f"{title} would have to be {file} and {other} in the package, and they differ"
        raise UsageError(message, hint="put the models into folders of their own")


def shipped(plan: Plan, source: Path, target: Path, reserved: Collection[str] = ()) -> Asked:
    """A model whose target is written if its rule makes something else of it and holds as a whole then.

    Names that are `reserved` are not given to its data: another model needs what is called so.
    """
    check_target(source, target)
    return Asked(plan, source, NewFile(target, tuple(reserved)))


def _shared(models: Mapping[str, Path]) -> list[PurePosixPath]:
    """Data that several models of the package name: what is written for one must not take its place."""
    named = Counter(name for title, path in models.items() for name in _titled(title, path) if name != title)
    return [PurePosixPath(name) for name, users in named.items() if users > 1]


# What may stand in the table of a build hook, with an example.
KINDS = {
    "policy": (TEXT, '".onnx-ci.yaml"'),
    "models": (NAMES, '["package/**/*.onnx"]'),
    "sdist": (FLAG, "true"),
}


class Options:
    """The table of the build hook in pyproject.toml, checked; `where` is how messages call it."""

    def __init__(self, table: Mapping[str, Any], where: str, *known: str) -> None:
        self.where = where
        if not isinstance(table, Mapping):
            raise UsageError(f"{where} is {table!r}, expected a table", hint=f"for example: {where}")
        for name, value in table.items():
            if name not in known:
                hint = f"known keys: {', '.join(known)}"
                raise UsageError(f"{where}: unknown key {name!r}, {did_you_mean(name, known)}", hint=hint)
            scalar, example = KINDS[name]
            if not scalar.fits(value):
                hint = f"for example: {name} = {example}"
                raise UsageError(f"{where}: {name} can't be {value!r}", hint=hint)
        self.policy: str | None = table.get("policy")
        self.models: tuple[str, ...] = tuple(table.get("models", ()))
        self.sdist: bool = table.get("sdist", False)

    def chosen(self, files: Mapping[str, Path], root: Path) -> dict[str, Path]:
        """The models among a package's files, by their path in it."""
        models = models_of(files)
        if not self.models:
            return models
        wanted: set[str] = set()
        for pattern in self.models:
            named = {title for title, path in models.items() if matches(pattern, relative_name(path, root))}
            if not named:
                hint = "check that the file is there, and that the package includes it"
                raise UsageError(f"{self.where}: no model of the package matches {pattern!r}", hint=hint)
            wanted |= named
        return {title: path for title, path in models.items() if title in wanted}


def models_of(files: Mapping[str, Path]) -> dict[str, Path]:
    return {title: path for title, path in files.items() if path.suffix.lower() == ".onnx"}


def packed_for(options: Options, root: Path, files: Mapping[str, Path], staging: Path) -> tuple[Packed, str]:
    """The package's models as they ship, and the report; stops the build where a rule is broken."""
    files = {title: path.parent.resolve() / path.name for title, path in files.items()}
    models = options.chosen(files, root.resolve())
    context = open_context(options.policy, root)
    if not models:
        _need_policy(context.policy_path, options, root)
        return Packed(), f"{options.where}: there is no model in this package\n"
    began, packed, asked = perf_counter(), Packed(), list[Asked]()
    everything = {**models, **models_of(files)}
    shared = _shared(everything)
    plan_under = cache(lambda policy: build_plan(context_for(context, policy), shown_from=context.folder))
    targets = {title: staging / str(i) / PurePosixPath(title).name for i, title in enumerate(models)}
    for title, target in targets.items():
        target.parent.mkdir(parents=True)
        source, folder = models[title], PurePosixPath(title).parent
        policy = _need_policy(policy_for(context, source.parent), options, source.parent)
        reserved = [path.relative_to(folder).as_posix() for path in shared if path.is_relative_to(folder)]
        asked.append(shipped(plan_under(policy), source, target, reserved))
    outcomes = dict(zip(models, judge_each(asked), strict=True))
    for title, source in everything.items():
        if title in outcomes and outcomes[title].written:
            packed.add(title, source, targets[title])
        else:
            packed.keep(title, source)
    seconds = round(perf_counter() - began, 3)
    report = RunReport(
        command="build", outcomes=tuple(outcomes.values()), policy=context.checked.file, seconds=seconds
    )
    text = render_run(report, Style())
    if report.exit_code:
        raise BuildStopped(f"the models of the package break their rules\n{text}")
    if not any(outcome.rule_pattern for outcome in report.outcomes):
        message = f"{options.where}: no model of the package has a rule, so nothing was checked\n{text}"
        raise BuildStopped(message)
    return packed.checked(files), text


def build_plan(context: Context, *, shown_from: Path | None = None, cache: bool = True) -> Plan:
    """A run for a build: of the files that are there, nothing to compare growth with, and no groups."""
    sources = Sources(context.root, repository=context.repository)
    return Plan(
        command="build",
        share=Share(context=context, repository=context.repository, base="", models=()),
        how=Judging(cache=cache),
        shown_from=shown_from or context.folder,
        sources=sources,
        baseline=Baseline(sources, ""),
    )


def needed_by(options: Options, root: Path, files: Iterable[Path]) -> list[Path]:
    """What a build from these files alone needs beside them, relative to the project that it is in: the
    policies that rule its models, and the samples and libraries that they name."""
    root = root.resolve()
    context = open_context(options.policy, root)
    models = [path.resolve() for path in files if path.suffix.lower() == ".onnx"]
    paths = dict.fromkeys([context.policy_path, *(policy_for(context, model.parent) for model in models)])
    policies = [path for path in paths if path is not None]
    named = [file for path in policies for file in _named(context_for(context, path))]
    for model in models:
        named += _recorded(ruling_context(context, model), model)
    return [
        path.relative_to(root) for path in dict.fromkeys([*policies, *named]) if path.is_relative_to(root)
    ]


def _named(context: Context) -> list[Path]:
    patterns = [pattern for rule in context.policy.rules for pattern in rule.inputs.samples]
    libraries = [context.folder / name for rule in context.policy.rules for name in rule.libraries]
    return [*sample_files(patterns, context.folder), *(path for path in libraries if path.is_file())]


def _recorded(context: Context, model: Path) -> Iterable[Path]:
    """The samples of a model that no policy names, since they are where they are looked for."""
    rule = context.rule_of(model)
    return sample_files(rule.inputs.samples, context.folder) if rule else ()


def _need_policy(policy: Path | None, options: Options, folder: Path) -> Path:
    """A package without its policy would be built by other rules than the repository is checked by."""
    if policy is None:
        top = find_root(folder)
        above = f" or above it, up to {one_line(str(top))}, the top of the repository" if top else ""
        raise UsageError(
            f"{options.where}: there is no .onnx-ci.yaml in {one_line(str(folder))}{above}",
            hint="`onnx-ci init` writes one; in a source distribution it has to be included",
        )
    return policy


class ByRule:
    """`source` as its rule in `policy` wants it, at `target`; a copy where the rule changes nothing."""

    def __init__(self, source: Path, target: Path, policy: str) -> None:
        self.policy = Path(policy)
        if not self.policy.is_file():
            message = f"there is no policy file {policy!r}"
            raise UsageError(message, hint="`onnx-ci init` writes .onnx-ci.yaml")
        # Seen from where the policy is, as `check` sees it: a build may run anywhere.
        self.context: Context = open_context(self.policy.name, self.policy.resolve().parent)
        near = source.parent.resolve() / source.name
        # A sandbox is made of links: the policy it shows is somewhere else, and so is the model.
        self.source = near if near.is_relative_to(self.context.folder) else source.resolve()
        if not self.source.is_relative_to(self.context.folder):
            raise UsageError(
                f"{source} is not below {self.context.folder}, the folder of the policy,"
                " and rules reach no further",
                hint="name a policy that is in the model's folder or above it",
            )
        self.target = target
        if target.exists() and target.samefile(source):
            message = f"{target} is the model itself"
            raise UsageError(message, hint=f"to shrink it in place: onnx-ci fix {target}")

    def run(self, *, cache: bool, progress: Progress = lambda *_: None) -> RunReport:
        try:
            shared = shared_data(self.source, self.context.root)  # perhaps it ships to the same place
        except ModelError:
            shared = []  # it can't be read, and the report will say so
        earlier = replaceable_data(self.target)
        for file in orphaned_data(self.target):
            if file.name not in shared:
                file.unlink(missing_ok=True)
        plan = build_plan(self.context, cache=cache)
        (outcome,) = judge_each([shipped(plan, self.source, self.target, shared)], progress=progress)
        report = RunReport(command="build", outcomes=(outcome,), policy=self.context.checked.file)
        if not report.exit_code:
            if not outcome.written:
                copy_model(self.source, self.target, over_orphans=True)
            for name in earlier - set(data_of(self.target)):
                (self.target.parent / name).unlink(missing_ok=True)
        return report

    def samples(self) -> list[Path]:
        """The files that verification read, and the folders in which more samples may appear. A folder
        that is written to by the build itself would never be old enough."""
        folder = self.context.folder
        rule = self.context.rule_of(self.source)
        if rule is None:
            return []
        files = sample_files(rule.inputs.samples, folder)
        folders = sample_folders(rule.inputs.samples, folder)
        libraries = (folder / name for name in rule.libraries)
        return [*files, *libraries, *(path for path in folders if path != self.target.resolve().parent)]
