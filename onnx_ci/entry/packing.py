"""What the hooks of Python build systems have in common: options, the policy, and how a build is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onnx_ci.baseline import Baseline
from onnx_ci.entry.context import Context, open_context
from onnx_ci.errors import BuildStopped, UsageError
from onnx_ci.pipeline import Plan
from onnx_ci.policy.glob import matches
from onnx_ci.policy.load import find_policy
from onnx_ci.policy.suggest import did_you_mean
from onnx_ci.report.style import Style, one_line
from onnx_ci.report.text import render_run
from onnx_ci.shipping import Packed, pack
from onnx_ci.sources import Sources
from onnx_ci.targets.git import find_root

# What may stand in the table of a build hook: how it is told apart, and an example.
KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "policy": (lambda value: isinstance(value, str), '".onnx-ci.yaml"'),
    "models": (
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        '["package/**/*.onnx"]',
    ),
    "sdist": (lambda value: isinstance(value, bool), "true"),
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
            fits, example = KINDS[name]
            if not fits(value):
                hint = f"for example: {name} = {example}"
                raise UsageError(f"{where}: {name} can't be {value!r}", hint=hint)
        self.policy: str | None = table.get("policy")
        self.models: tuple[str, ...] = tuple(table.get("models", ()))
        self.sdist: bool = table.get("sdist", False)

    def chosen(self, found: Mapping[str, Path], root: Path) -> dict[str, Path]:
        """The models among a package's files, by their path in it."""
        models = {title: path for title, path in found.items() if path.suffix.lower() == ".onnx"}
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


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def packed_for(options: Options, root: Path, found: Mapping[str, Path], staging: Path) -> tuple[Packed, str]:
    """The package's models as they ship, and the report; stops the build where a rule is broken."""
    models = options.chosen(found, root)
    context = _context(options, root)
    if not models:
        return Packed(), f"{options.where}: there is no model in this package\n"
    sources = {title: path.parent.resolve() / path.name for title, path in models.items()}
    packed, report = pack(build_plan(context, tuple(sources.values())), sources, staging)
    text = render_run(report, Style())
    if report.exit_code:
        raise BuildStopped(text)
    return packed, text


def build_plan(context: Context, models: tuple[Path, ...], *, cache: bool = True) -> Plan:
    """A run for a build: of the files that are there, nothing to compare growth with, and no groups."""
    sources = Sources(context.root, repository=context.repository)
    return Plan(
        command="build",
        policy=context.policy,
        folder=context.folder,
        shown_from=context.folder,
        root=context.root,
        models=models,
        everything=tuple,
        sources=sources,
        baseline=Baseline(sources, ""),
        cache=cache,
    )


def policy_file(options: Options, root: Path) -> Path | None:
    """Where the policy is, if there is one."""
    return root / options.policy if options.policy else find_policy(root, find_root(root) or root)


def _context(options: Options, root: Path) -> Context:
    """A package without its policy would be built by other rules than the repository is checked by."""
    context = open_context(options.policy, root)
    if context.policy_path is None:
        raise UsageError(
            f"{options.where}: there is no .onnx-ci.yaml in {one_line(str(root))}",
            hint="`onnx-ci init` writes one; in a source distribution it has to be included",
        )
    return context
