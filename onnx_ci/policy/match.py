"""Which part of a policy holds for a path: its rule, its group, its override."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date

from onnx_ci.policy.glob import matches
from onnx_ci.policy.schema import Group, Override, Policy, Rule


def rule_for(policy: Policy, path: str) -> Rule | None:
    """The last rule that matches; paths are relative to the policy file, with `/`."""
    return next((rule for rule in reversed(policy.rules) if matches(rule.pattern, path)), None)


def matching_rules(policy: Policy, path: str) -> tuple[Rule, ...]:
    """All rules that match, in the order of the file: the last one holds, the others explain why."""
    return tuple(rule for rule in policy.rules if matches(rule.pattern, path))


def group_members(group: Group, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that count towards the budget of a group."""
    return tuple(path for path in paths if any(matches(pattern, path) for pattern in group.paths))


def override_for(policy: Policy, path: str, sha256: str, today: date) -> Override | None:
    """The override that accepts exactly this content today; its last day still counts."""
    accepted = [override for override in _overrides(policy, path, sha256) if override.until >= today]
    return max(accepted, key=_until, default=None)


def ended_override(policy: Policy, path: str, sha256: str, today: date) -> Override | None:
    """The override that accepted this content until some day before today, when none does now."""
    found = _overrides(policy, path, sha256)
    latest = max(found, key=_until, default=None)
    return latest if latest and latest.until < today else None


def names(override: Override, path: str) -> bool:
    """Whether an override is for this path, with whatever content."""
    # A path that holds a `[` is no pattern to its writer, so the plain path counts as well.
    return override.path == path or matches(override.path, path)


def idle_rules(policy: Policy, paths: Collection[str]) -> list[Rule]:
    """Rules that ask something of models, and match none of these."""
    asking = (rule for rule in policy.rules if not rule.ignore)
    return [rule for rule in asking if not any(matches(rule.pattern, path) for path in paths)]


def _overrides(policy: Policy, path: str, sha256: str) -> list[Override]:
    found = (override for override in policy.overrides if override.sha256 == sha256.lower())
    return [override for override in found if names(override, path)]


def _until(override: Override) -> date:
    return override.until
