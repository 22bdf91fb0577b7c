"""What a change makes of the policies that rule its models: less asked of them than in its base, and
commands of its own that are not run on its behalf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from onnx_ci.baseline import Baseline
from onnx_ci.entry.base_policies import BasePolicies
from onnx_ci.entry.context import Context, context_for, policy_for
from onnx_ci.errors import PolicyError
from onnx_ci.findings import Finding
from onnx_ci.methods.catalogue import method
from onnx_ci.pipeline import relative
from onnx_ci.policy.loosening import (
    Loosening,
    group_loosenings,
    history_loosenings,
    loosenings,
    new_overrides,
    setting_loosenings,
)
from onnx_ci.policy.match import group_members, names, rule_for
from onnx_ci.policy.schema import Override, Policy, Rule
from onnx_ci.sources import Sources
from onnx_ci.targets.git import repository_of
from onnx_ci.targets.tree import Tree

SHOWN = 3


class Ruling:
    """One policy, and where it is; the Policy is built once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.policy: Policy = context.policy

    def name(self, model: Path) -> str:
        return relative(model, self.context.folder)

    def rule(self, model: Path) -> Rule | None:
        return rule_for(self.policy, self.name(model)) if model.is_relative_to(self.context.folder) else None

    def place(self, line: int) -> str:
        return f"{self.policy.file}:{line}" if line else self.policy.file


@dataclass(frozen=True)
class Ruled:
    """One model under the policy of the base, by its name now or then, and under that of the change."""

    path: Path
    former: Path
    base: Ruling | None  # None: the policy of the base can't be read
    head: Ruling

    @cached_property
    def base_rule(self) -> Rule | None:
        return self.base.rule(self.former) if self.base else None

    @cached_property
    def head_rule(self) -> Rule | None:
        return self.head.rule(self.path)


@dataclass(frozen=True)
class Change:
    """One loosening, and where its old and new value stand."""

    loosening: Loosening
    base: Ruling
    head: Ruling
    base_line: int = 0
    head_line: int = 0


class PolicyChanges:
    """The models of a run, each with its rule in the base and its rule in the change."""

    def __init__(self, head: Context, models: Sequence[Path]) -> None:
        self.head = head
        self.base = BasePolicies(head)
        self.unreadable: dict[Path | None, PolicyError] = {}  # policies of the base
        self._rulings: dict[tuple[str, Path | None], Ruling] = {}
        # A submodule has a base of its own.
        inside = [path for path in models if repository_of(path.parent, head.repository) == head.repository]
        self.base.look_up(inside)
        sources = Sources(head.root, head.tree, repository=head.repository)
        with sources, Baseline(sources, head.base) as baseline:
            baseline.look_up(inside)
            self.models = [self._ruled(path, path) for path in inside]
            formers = ((path, baseline.former_name(path) or path) for path in inside)
            self.moved = [self._ruled(path, former) for path, former in formers if former != path]

    def _ruled(self, path: Path, former: Path) -> Ruled:
        head = self._head(policy_for(self.head, path.parent))
        return Ruled(path, former, self._base(self.base.policy_for(former.parent)), head)

    def _head(self, policy: Path | None) -> Ruling:
        key = ("head", policy)
        if key not in self._rulings:
            self._rulings[key] = Ruling(context_for(self.head, policy))
        return self._rulings[key]

    def _base(self, policy: Path | None) -> Ruling | None:
        key = ("base", policy)
        if key not in self._rulings and policy not in self.unreadable:
            try:
                self._rulings[key] = Ruling(self.base.context_for(policy))
            except PolicyError as error:
                self.unreadable[policy] = error
        return self._rulings.get(key)

    def withheld(self, *, by_base: bool) -> dict[Path, str]:
        """Models with a command or library that the change itself brings, and which that is."""
        rules = ((model, model.base_rule if by_base else model.head_rule) for model in self.models)
        found = ((model.path, self._brought(model, rule)) for model, rule in rules)
        return {path: brought for path, brought in found if brought}

    def _brought(self, model: Ruled, rule: Rule | None) -> str:
        known = model.base_rule
        if rule is None or rule.ignore or (model.base and model.base.policy.new_commands == "run"):
            return ""
        # The same words in another folder run another program.
        moved = model.base is None or model.base.context.folder != model.head.context.folder
        if known is None or (moved and rule is not known):
            known = Rule(pattern="")
        if rule.evaluate and (known.evaluate is None or known.evaluate.command != rule.evaluate.command):
            return f"the command {rule.evaluate.command!r} (evaluate)"
        home = model.base.context.folder if model.base and rule is known else model.head.context.folder
        for library in rule.libraries:
            if library not in known.libraries or self._is_changed(home / library):
                return f"the library {library!r}"
        return ""

    def _is_changed(self, file: Path) -> bool:
        """Whether git has another content for it than the base; what git does not have, a job has built."""
        for path in {file, file.resolve()}:  # a link may stay, and what it leads to change
            name = relative(path, self.base.root)
            if not path.is_relative_to(self.base.root):
                continue
            if self.base.tree.entry(name) is None and Tree(self.base.root).entry(name) is not None:
                return True
            if self.base.tree.entry(name) is not None and not self.base.tree.is_in_work_tree(name):
                return True
        return False

    def loosened(self) -> list[tuple[Path, Context]]:
        """Models of which less is asked than the base asks, by their rule, an override or the lack of a rule;
        each with the policy that it has there."""
        known = [(model, model.base) for model in self.models if model.base]
        return [(model.path, base.context) for model, base in known if self._is_loosened(model, base)]

    def _is_loosened(self, model: Ruled, base: Ruling) -> bool:
        if any(not found.permits for found in self._loosenings(model, base)):
            return True
        if model.head_rule is None:
            settings = setting_loosenings(base.policy, model.head.policy)
            return any(found.key == "unmatched" for found in settings)
        lines = {found.line for found in self._new_overrides(model.head)}
        named = [override for override in model.head.policy.overrides if override.line in lines]
        return any(names(override, model.head.name(model.path)) for override in named)

    @staticmethod
    def _loosenings(model: Ruled, base: Ruling) -> list[Loosening]:
        return loosenings(model.base_rule, model.head_rule, unmatched=base.policy.unmatched)

    def _new_overrides(self, head: Ruling) -> list[Loosening]:
        return list(new_overrides(self._known_overrides, head.policy.overrides))

    @cached_property
    def _known_overrides(self) -> list[Override]:
        bases = dict.fromkeys(model.base for model in self.models if model.base)
        return [override for base in bases if base for override in base.policy.overrides]

    def findings(self) -> list[Finding]:
        """A finding for each loosening, with all models that it is about."""
        about: dict[Change, list[str]] = {}
        for model in (*self.models, *self.moved):
            for change in self._changes(model):
                moved = "" if model.former == model.path else f" (was {self._shown(model.former)})"
                about.setdefault(change, []).append(self._shown(model.path) + moved)
        for change in self._changes_of_all():
            about.setdefault(change, [])
        return [
            *map(self._unreadable, self.unreadable.values()),
            *(self._finding(*one) for one in about.items()),
        ]

    def _changes(self, model: Ruled) -> Iterator[Change]:
        base, head = model.base, model.head
        if base is None:
            return
        base_line = model.base_rule.line if model.base_rule else 0
        head_line = model.head_rule.line if model.head_rule else 0
        for found in self._loosenings(model, base):
            if not found.permits or found.key != "method" or method(found.new).fidelity == "approximate":
                yield Change(found, base, head, base_line, head_line)
        kept = {group.name: group for group in head.policy.groups}
        for group in base.policy.groups:
            if not group_members(group, [base.name(model.former)]) or self._successor(base) is None:
                continue
            same = base.context.policy_path == head.context.policy_path
            if same and group.name not in kept:
                continue  # said once, of the group
            if not (same and group_members(kept[group.name], [head.name(model.path)])):
                yield Change(
                    Loosening(f"group {group.name!r}", "counted", "not counted"), base, head, group.line
                )

    def _changes_of_all(self) -> Iterator[Change]:
        """What is not about single models."""
        pairs = dict.fromkeys((model.base, model.head) for model in self.models if model.base)
        for base, head in pairs:
            for found in setting_loosenings(base.policy, head.policy) if base else ():
                key = found.key.split()[0]
                lines = base.context.checked.lines.get(key, 0), head.context.checked.lines.get(key, 0)
                yield Change(found, base, head, *lines)
        for base in dict.fromkeys(base for base, _ in pairs):
            if base is not None and base.context.policy_path is not None:
                yield from self._changes_of_file(base)
        for head in dict.fromkeys(head for _, head in pairs):
            asked = [base for base, other in pairs if other is head and base]
            strict = [base for base in asked if base.policy.policy_changes == "error"]
            for found in self._new_overrides(head):
                yield Change(found, (strict or asked)[0], head, 0, found.line)

    def _changes_of_file(self, base: Ruling) -> Iterator[Change]:
        """Groups and history are those of one file, whichever models the change puts under another."""
        head = self._successor(base)
        kept = {group.name: group for group in head.policy.groups} if head else {}
        for group in base.policy.groups:
            for found in group_loosenings(group, kept.get(group.name)):
                yield Change(found, base, head or self._head(self.head.policy_path), group.line, found.line)
        history = base.policy.history
        for found in history_loosenings(history, head.policy.history if head else None):
            line = history.line if history else 0
            yield Change(found, base, head or self._head(self.head.policy_path), line, found.line)

    def _successor(self, base: Ruling) -> Ruling | None:
        """The same policy file in the change, if it is still there."""
        path = base.context.policy_path
        return self._head(path) if path is not None and path.is_file() else None

    def _finding(self, change: Change, models: list[str]) -> Finding:
        found, base, head = change.loosening, change.base, change.head
        more = f" and {len(models) - SHOWN} more" if len(models) > SHOWN else ""
        whom = f" for {', '.join(models[:SHOWN])}{more}" if models else ""
        what = "may now be used by fix" if found.permits else "is looser"
        severity = "note" if found.permits else base.policy.policy_changes
        hint = "keep what the base says, or have whoever owns the policy approve the change"
        if severity == "warning":
            hint += "; `policy_changes: error` in the base's policy makes this an error"
        return Finding(
            code="OCI044",
            severity=severity,
            message=f"{found.key} {what}{whom}: {found.old} before ({base.place(change.base_line)}),"
            f" {found.new} now ({head.place(change.head_line)})",
            hint="" if found.permits else hint,
            file=head.context.policy_name or base.context.policy_name,
            line=change.head_line,
        )

    def _unreadable(self, error: PolicyError) -> Finding:
        return Finding(
            code="OCI044",
            severity="warning",
            message=f"nothing was compared with the policy of the base, which is wrong: {error}",
            hint="read the change of the policy yourself",
            file=self.head.policy_name,
        )

    def _shown(self, path: Path) -> str:
        return relative(path, self.head.folder if path.is_relative_to(self.head.folder) else self.head.root)
