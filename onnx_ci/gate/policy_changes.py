"""What a change makes of the policies that rule its models: less asked of them than in its base, and
commands of its own that are not run on its behalf."""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, PolicyError
from onnx_ci.gate.project import Context, built_in_context, context_for, ruling_context
from onnx_ci.methods.catalogue import Catalogue, method
from onnx_ci.policy import loosening
from onnx_ci.policy.load import FILE_NAMES, check_content, group_members, names
from onnx_ci.policy.loosening import Loosening
from onnx_ci.policy.reader import LARGEST
from onnx_ci.policy.schema import Override, Rule
from onnx_ci.repo.baseline import Baseline
from onnx_ci.repo.content import Sources
from onnx_ci.repo.git import repository_of
from onnx_ci.repo.tree import LINK, Tree
from onnx_ci.results import Finding
from onnx_ci.util.text import first_of, relative_name

NO_POLICY = "the base has no .onnx-ci.yaml: its models are checked by built-in rules (all exact methods)"
_MOST_LINKS = 5


class BasePolicies:
    """As `policy_for` and `context_for` find them in the work tree, for the commit in `head.base`."""

    def __init__(self, head: Context) -> None:
        if head.repository is None:
            raise EnvironmentFault("the policy of a base needs a git repository")
        self.head = head
        self.root = head.repository
        self.tree = Tree(self.root, head.base)
        self.context_for = cache(self._context)
        self._content = cache(self._read)

    def __reduce__(self) -> tuple[object, ...]:
        """Another process reads them again."""
        return BasePolicies, (self.head,)

    def look_up(self, models: Iterable[Path]) -> None:
        """Ask git at once for all files that may be the policy of a model."""
        folders = {folder for model in models for folder in self._upward(model.parent)}
        self.tree.look_up(
            (folder / name).relative_to(self.root).as_posix() for folder in folders for name in FILE_NAMES
        )

    def policy_for(self, folder: Path) -> Path | None:
        if self.head.named:
            path = self.head.policy_path
            return path if path and self._is_there(path) else None
        return self._nearest(folder) or self._nearest(self.head.here)

    def _context(self, policy: Path | None) -> Context:
        """The same place under a policy as it is in the base; a PolicyError where that one is wrong."""
        here = self.head.here
        if policy is None:
            context = built_in_context(here)
            context.notes = (NO_POLICY,)
        elif not policy.is_relative_to(self.root):  # a named one from elsewhere: no change can touch it
            context = Context(here, policy, self.head.checked, named=True)
        else:
            name = policy.relative_to(self.root).as_posix()
            file = f"{self.head.base[:10]}:{name}"
            checked = check_content(
                self._content(name) or b"", file=file, folder=policy.parent, methods=Catalogue()
            )
            context = Context(here, policy, checked, named=self.head.named)
        context.tree, context.base, context.base_policies = self.head.tree, self.head.base, self
        return context

    def _nearest(self, folder: Path) -> Path | None:
        paths = (each / name for each in self._upward(folder) for name in FILE_NAMES)
        return next(filter(self._is_there, paths), None)

    def _upward(self, folder: Path) -> list[Path]:
        """The folders up to the top of the repository, the nearest first; none from outside of it."""
        start = folder.resolve()
        return [each for each in (start, *start.parents) if each.is_relative_to(self.root)]

    def _is_there(self, path: Path) -> bool:
        if not path.is_relative_to(self.root):
            return True
        return self._content(path.relative_to(self.root).as_posix()) is not None

    def _read(self, name: str) -> bytes | None:
        """What a file holds, whatever links are on the way; None where it is not there."""
        with closing(self.tree.objects):
            return self._linked(name)

    def _linked(self, name: str) -> bytes | None:
        for _ in range(_MOST_LINKS):
            entry = None if name.startswith(("/", "..")) else self.tree.entry(name)
            if entry is None or not entry.mode.startswith(("100", LINK)):
                return None
            if self.tree.objects.size(entry.blob) > LARGEST:
                return b" " * (LARGEST + 1)
            content = io.BytesIO()
            self.tree.objects.copy(entry.blob, content)
            if entry.mode != LINK:
                return content.getvalue()
            target = os.fsdecode(content.getvalue())
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        return None


SHOWN = 3


@dataclass(frozen=True)
class Ruled:
    """One model under the policy of the base, by its name now or then, and under that of the change."""

    path: Path
    former: Path
    base: Context | None  # None: the policy of the base can't be read
    head: Context
    base_rule: Rule | None
    head_rule: Rule | None


@dataclass(frozen=True)
class Change:
    """One loosening, and where its old and new value stand."""

    loosening: Loosening
    base: Context
    head: Context
    base_line: int = 0
    head_line: int = 0


class PolicyChanges:
    """The models of a run, each with its rule in the base and its rule in the change."""

    def __init__(self, head: Context, models: Sequence[Path]) -> None:
        self.head = head
        self.base = BasePolicies(head)
        self.unreadable: dict[Path | None, PolicyError] = {}  # policies of the base
        # A submodule has a base of its own.
        inside = [path for path in models if repository_of(path.parent, head.repository) == head.repository]
        self.base.look_up(inside)
        sources = Sources(head.root, head.tree, repository=head.repository)
        with sources, Baseline(sources, head.base) as baseline:
            baseline.look_up(inside)
            self.models = [self._ruled(path, path) for path in inside]
            formers = ((path, baseline.former_name(path) or path) for path in inside)
            self.moved = [self._ruled(path, former) for path, former in formers if former != path]
        self.compared = [(model, model.base) for model in self.models if model.base]

    def _ruled(self, path: Path, former: Path) -> Ruled:
        base = self._base(self.base.policy_for(former.parent))
        head = ruling_context(self.head, path)
        base_rule = base.rule_of(former) if base else None
        return Ruled(path, former, base, head, base_rule, head.rule_of(path))

    def _base(self, policy: Path | None) -> Context | None:
        if policy in self.unreadable:
            return None
        try:
            return self.base.context_for(policy)
        except PolicyError as error:
            self.unreadable[policy] = error
            return None

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
        moved = model.base is None or model.base.folder != model.head.folder
        if known is None or (moved and rule is not known):
            known = Rule(pattern="")
        if rule.evaluate and (known.evaluate is None or known.evaluate.command != rule.evaluate.command):
            return f"the command {rule.evaluate.command!r} (evaluate)"
        if rule.evaluate and known.evaluate and not set(rule.evaluate.env) <= set(known.evaluate.env):
            return (
                f"more variables for {rule.evaluate.command!r} (evaluate env: {', '.join(rule.evaluate.env)})"
            )
        home = model.base.folder if model.base and rule is known else model.head.folder
        for library in rule.libraries:
            if library not in known.libraries or self._is_changed(home / library):
                return f"the library {library!r}"
        return ""

    def _is_changed(self, file: Path) -> bool:
        """Whether git has another content for it than the base; what git does not have, a job has built."""
        for path in {file, file.resolve()}:  # a link may stay, and what it leads to change
            name = relative_name(path, self.base.root)
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
        return [(model.path, base) for model, base in self.compared if self._is_loosened(model, base)]

    def _is_loosened(self, model: Ruled, base: Context) -> bool:
        if any(not found.permits for found in self._loosenings(model, base)):
            return True
        if model.head_rule is None:
            settings = loosening.setting_loosenings(base.policy, model.head.policy)
            return any(found.key == "unmatched" for found in settings)
        lines = {found.line for found in self._new_overrides(model.head)}
        named = [override for override in model.head.policy.overrides if override.line in lines]
        return any(names(override, model.head.name_of(model.path)) for override in named)

    @staticmethod
    def _loosenings(model: Ruled, base: Context) -> list[Loosening]:
        return loosening.loosenings(model.base_rule, model.head_rule, unmatched=base.policy.unmatched)

    def _new_overrides(self, head: Context) -> list[Loosening]:
        return list(loosening.new_overrides(self._known_overrides, head.policy.overrides))

    @cached_property
    def _known_overrides(self) -> list[Override]:
        bases = dict.fromkeys(base for _, base in self.compared)
        return [override for base in bases for override in base.policy.overrides]

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
        for found in self._loosenings(model, base):
            if not found.permits or found.key != "method" or method(found.new).fidelity == "approximate":
                # "budget size", "severity", "method NAME"
                key, _, name = found.key.replace("method ", "methods ").partition(" ")
                rules = model.base_rule, model.head_rule
                yield Change(found, base, head, *(rule.line_of(key, name) if rule else 0 for rule in rules))
        kept = {group.name: group for group in head.policy.groups}
        for group in base.policy.groups:
            if not group_members(group, [base.name_of(model.former)]) or self._successor(base) is None:
                continue
            same = base.policy_path == head.policy_path
            if same and group.name not in kept:
                continue  # said once, of the group
            if not (same and group_members(kept[group.name], [head.name_of(model.path)])):
                yield Change(
                    Loosening(f"group {group.name!r}", "counted", "not counted"), base, head, group.line
                )

    def _changes_of_all(self) -> Iterator[Change]:
        """What is not about single models."""
        pairs = dict.fromkeys((base, model.head) for model, base in self.compared)
        for base, head in pairs:
            for found in loosening.setting_loosenings(base.policy, head.policy):
                key = found.key.split()[0]
                lines = base.checked.lines.get(key, 0), head.checked.lines.get(key, 0)
                yield Change(found, base, head, *lines)
        for base in dict.fromkeys(base for base, _ in pairs):
            if base.policy_path is not None:
                yield from self._changes_of_file(base)
        for head in dict.fromkeys(head for _, head in pairs):
            asked = [base for base, other in pairs if other is head]
            strict = [base for base in asked if base.policy.policy_changes == "error"]
            for found in self._new_overrides(head):
                yield Change(found, (strict or asked)[0], head, 0, found.line)

    def _changes_of_file(self, base: Context) -> Iterator[Change]:
        """Groups and history are those of one file, whichever models the change puts under another."""
        head = self._successor(base)
        kept = {group.name: group for group in head.policy.groups} if head else {}
        for group in base.policy.groups:
            for found in loosening.group_loosenings(group, kept.get(group.name)):
                yield Change(found, base, head or self.head, group.line, found.line)
        history = base.policy.history
        for found in loosening.history_loosenings(history, head.policy.history if head else None):
            line = history.line if history else 0
            yield Change(found, base, head or self.head, line, found.line)

    def _successor(self, base: Context) -> Context | None:
        """The same policy file in the change, if it is still there."""
        path = base.policy_path
        return context_for(self.head, path) if path is not None and path.is_file() else None

    def _finding(self, change: Change, models: list[str]) -> Finding:
        found, base, head = change.loosening, change.base, change.head
        whom = f" for {first_of(models, SHOWN)}" if models else ""
        what = "may now be used by fix" if found.permits else "is looser"
        severity = "note" if found.permits else base.policy.policy_changes
        hint = "keep what the base says, or have whoever owns the policy approve the change"
        if severity == "warning":
            hint += "; `policy_changes: error` in the base's policy makes this an error"
        return Finding(
            code="OCI044",
            severity=severity,
            message=f"{found.key} {what}{whom}: {found.old} before ({_place(base, change.base_line)}),"
            f" {found.new} now ({_place(head, change.head_line)})",
            hint="" if found.permits else hint,
            file=head.policy_name or base.policy_name,
            line=change.head_line,
        )

    def _unreadable(self, error: PolicyError) -> Finding:
        message = f"nothing was compared with the policy of the base, which is wrong: {error}"
        hint = "read the change of the policy yourself"
        file = self.head.policy_name
        return Finding(code="OCI044", severity="warning", message=message, hint=hint, file=file)

    def _shown(self, path: Path) -> str:
        folder = self.head.folder if path.is_relative_to(self.head.folder) else self.head.root
        return relative_name(path, folder)


def _place(context: Context, line: int) -> str:
    return f"{context.checked.file}:{line}" if line else context.checked.file
