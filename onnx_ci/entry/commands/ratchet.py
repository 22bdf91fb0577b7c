"""`onnx-ci ratchet`: lower the budgets of the policy to what the models weigh now; never raise one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from onnx_ci.entry.context import Context, open_context, policy_for
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.methods.catalogue import Catalogue
from onnx_ci.model.load import read_skeleton
from onnx_ci.model.measure import compressed_size, parameters
from onnx_ci.policy.append import with_rules
from onnx_ci.policy.match import group_members, rule_for
from onnx_ci.policy.ratchet import Holder, Lowered, lower
from onnx_ci.policy.schema import Policy
from onnx_ci.report.style import one_line
from onnx_ci.sizes import format_size
from onnx_ci.sources import Part, Sources
from onnx_ci.targets.select import all_models
from onnx_ci.whole import whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", metavar="FILE", help="policy file (default: .onnx-ci.yaml, found upward)")


def run(options: argparse.Namespace) -> int:
    context = open_context(options.policy)
    path = context.policy_path
    if path is None:
        raise UsageError("there is no policy to lower budgets in", hint="run: onnx-ci init --ratchet")
    data = path.read_bytes()
    with Sources(context.root) as sources:
        present = Present(context, sources)
        text, lowered = lower(data.decode("utf-8-sig"), present.value, Catalogue())
        uncovered = present.uncovered()
    added = with_rules(text, uncovered, Catalogue()) if uncovered else None
    if lowered or added:
        _write(path, data[:3] if data.startswith(b"\xef\xbb\xbf") else b"", added or text)
    name = one_line(context.checked.file)
    for line in (*_changes(name, lowered), *_additions(name, uncovered, done=added is not None)):
        sys.stdout.write(f"{line}\n")
    return 0


def _changes(name: str, lowered: Sequence[Lowered]) -> Iterator[str]:
    yield from (f"{name}:{change.line}: {_said(change)}" for change in lowered)
    if not lowered:
        yield f"{name}: no budget is above what the models weigh now"


def _additions(name: str, models: Sequence[tuple[str, int]], *, done: bool) -> Iterator[str]:
    for path, size in models:
        said = f"a rule for {one_line(path)}, at {format_size(size)}"
        yield f"{name}: {'added' if done else 'could not add'} {said}{'' if done else ': add it by hand'}"


def _said(change: Lowered) -> str:
    if change.key == "params":
        return f"params {change.before:,} -> {change.after:,}"
    return (
        f"{change.key} {format_size(change.before)} -> {format_size(change.after)} ({change.after:,} bytes)"
    )


def _write(path: Path, mark: bytes, text: str) -> None:
    """In one step: a policy that is half written would stop everybody."""
    with whole(path) as temporary:
        temporary.write_bytes(mark + text.encode())
        temporary.chmod(path.stat().st_mode)


class Present:
    """What the models weigh now, by the rule or group that a budget holds for."""

    def __init__(self, context: Context, sources: Sources) -> None:
        self.sources = sources
        self.policy: Policy = context.policy
        found = (
            path for path in all_models(context.folder, context.repository) if self._is_ruled(context, path)
        )
        self.models = {path.relative_to(context.folder).as_posix(): path for path in found}
        self.measured = cache(self._measured)

    @staticmethod
    def _is_ruled(context: Context, path: Path) -> bool:
        return policy_for(context, path.parent) == context.policy_path

    def uncovered(self) -> list[tuple[str, int]]:
        """Models that no rule matches, with what they weigh: nothing would stop them from growing."""
        names = [name for name in self.models if rule_for(self.policy, name) is None]
        sizes = {name: self.measured("size", self.models[name]) for name in names}
        return [(name, size) for name, size in sizes.items() if size]

    def value(self, holder: Holder, key: str) -> int | None:
        section, number = holder
        if section == "groups":
            members = group_members(self.policy.groups[number], self.models)
            return self._together(key, [self.models[name] for name in members])
        rule = self.policy.rules[number]
        names = [name for name in self.models if rule_for(self.policy, name) is rule and not rule.ignore]
        values = [self.measured(key, self.models[name]) for name in names]
        known = [value for value in values if value is not None]
        return max(known, default=0) if len(known) == len(values) else None

    def _together(self, key: str, members: list[Path]) -> int | None:
        if key == "params":
            return None
        parts = {part.path: part for path in members for part in self.sources.of(path).parts}
        sizes = [_size(key, part) for part in parts.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _measured(self, key: str, path: Path) -> int | None:
        if key != "params":
            return self._together(key, [path])
        source = self.sources.of(path)
        if source.absent:
            return None
        try:
            return parameters(read_skeleton(source.path))
        except ModelError:
            return None


def _size(key: str, part: Part) -> int | None:
    """None where it can't be known: data that is missing weighs nothing only today."""
    if part.content is not None and not part.content.is_file():
        return None
    if key == "size":
        return part.size
    return compressed_size(key, [part.content]) if part.content else None
