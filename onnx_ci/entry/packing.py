"""What the hooks of Python build systems have in common: options, the policy, and how a build is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_ci.baseline import Baseline
from onnx_ci.entry.context import Context, context_for, open_context, policy_for
from onnx_ci.errors import BuildStopped, UsageError
from onnx_ci.inputs.sample_paths import sample_files
from onnx_ci.pipeline import Plan
from onnx_ci.policy.glob import matches
from onnx_ci.policy.suggest import did_you_mean
from onnx_ci.report.style import Style, one_line
from onnx_ci.report.text import render_run
from onnx_ci.shipping import Packed, pack
from onnx_ci.sources import Sources
from onnx_ci.targets.git import find_root
from onnx_ci.util.scalars import FLAG, NAMES, TEXT

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

    def chosen(self, found: Mapping[str, Path], root: Path) -> dict[str, Path]:
        """The models among a package's files, by their path in it."""
        models = models_of(found)
        if not self.models:
            return models
        wanted: set[str] = set()
        for pattern in self.models:
            named = {title for title, path in models.items() if matches(pattern, _below(path, root))}
            if not named:
                hint = "check that the file is there, and that the package includes it"
                raise UsageError(f"{self.where}: no model of the package matches {pattern!r}", hint=hint)
            wanted |= named
        return {title: path for title, path in models.items() if title in wanted}


def models_of(found: Mapping[str, Path]) -> dict[str, Path]:
    return {title: path for title, path in found.items() if path.suffix.lower() == ".onnx"}


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def packed_for(options: Options, root: Path, found: Mapping[str, Path], staging: Path) -> tuple[Packed, str]:
    """The package's models as they ship, and the report; stops the build where a rule is broken."""
    found = {title: path.parent.resolve() / path.name for title, path in found.items()}
    models = options.chosen(found, root.resolve())
    context = open_context(options.policy, root)
    if not models:
        _need_policy(context.policy_path, options, root)
        return Packed(), f"{options.where}: there is no model in this package\n"
    others = {title: path for title, path in models_of(found).items() if title not in models}
    packed, report = pack(models, others, _Plans(context, options).of, staging)
    text = render_run(replace(report, policy=context.checked.file), Style())
    if report.exit_code:
        raise BuildStopped(text)
    if not any(outcome.rule_pattern for outcome in report.outcomes):
        raise BuildStopped(
            f"{options.where}: no model of the package has a rule, so nothing was checked\n{text}"
        )
    return packed.checked(found), text


class _Plans:
    """For each model a run under the policy that rules it: the one that was named, or the nearest upward."""

    def __init__(self, context: Context, options: Options) -> None:
        self.context = context
        self.options = options
        self.known: dict[Path, Plan] = {}

    def of(self, model: Path) -> Plan:
        policy = _need_policy(policy_for(self.context, model.parent), self.options, model.parent)
        if policy not in self.known:
            context = context_for(self.context, policy)
            self.known[policy] = build_plan(context, (model,), shown_from=self.context.folder)
        return self.known[policy]


def build_plan(
    context: Context, models: tuple[Path, ...], *, shown_from: Path | None = None, cache: bool = True
) -> Plan:
    """A run for a build: of the files that are there, nothing to compare growth with, and no groups."""
    sources = Sources(context.root, repository=context.repository)
    return Plan(
        command="build",
        policy=context.policy,
        folder=context.folder,
        shown_from=shown_from or context.folder,
        root=context.root,
        models=models,
        everything=tuple,
        sources=sources,
        baseline=Baseline(sources, ""),
        cache=cache,
    )


def needed_by(options: Options, root: Path, files: Iterable[Path]) -> list[Path]:
    """What a build from these files alone needs beside them, relative to the project that it is in: the
    policies that rule its models, and the samples and libraries that they name."""
    root = root.resolve()
    context = open_context(options.policy, root)
    models = [path.resolve() for path in files if path.suffix.lower() == ".onnx"]
    found = dict.fromkeys([context.policy_path, *(policy_for(context, model.parent) for model in models)])
    policies = [path for path in found if path is not None]
    named = [file for path in policies for file in _named(context_for(context, path))]
    return [
        path.relative_to(root) for path in dict.fromkeys([*policies, *named]) if path.is_relative_to(root)
    ]


def _named(context: Context) -> list[Path]:
    patterns = [pattern for rule in context.policy.rules for pattern in rule.inputs.samples]
    libraries = [context.folder / name for rule in context.policy.rules for name in rule.libraries]
    return [*sample_files(patterns, context.folder), *(path for path in libraries if path.is_file())]


def _need_policy(found: Path | None, options: Options, folder: Path) -> Path:
    """A package without its policy would be built by other rules than the repository is checked by."""
    if found is None:
        top = find_root(folder)
        above = f" or above it, up to {one_line(str(top))}, the top of the repository" if top else ""
        raise UsageError(
            f"{options.where}: there is no .onnx-ci.yaml in {one_line(str(folder))}{above}",
            hint="`onnx-ci init` writes one; in a source distribution it has to be included",
        )
    return found
