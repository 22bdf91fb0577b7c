"""The policy file to a Policy, or to one error that names the line, what was found and what is right.

Rules cascade: a model gets the defaults, then what each matching rule names, in order. A later rule replaces
a key whole; what its `budget`, `inputs` and `limits` leave open, the defaults say. `none` takes away.
"""

from __future__ import annotations

from pathlib import Path

from onnx_ci.errors import PolicyError
from onnx_ci.policy.fields import POLICY
from onnx_ci.policy.glob import matches
from onnx_ci.policy.reader import EXAMPLE, HINT, LARGEST, Place, Reading, compose, decode

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date
    from typing import Any

    from onnx_ci.policy.reader import MethodRegistry
    from onnx_ci.policy.schema import Group, Override, Policy, Rule


FILE_NAMES = (".onnx-ci.yaml", ".onnx-ci.yml")


class CheckedPolicy:
    """A policy file that is right in every value. The Policy is made when it is first needed:
    in a run with nothing to do it never is, and its classes take a third of that run to load."""

    def __init__(self, file: str, values: dict[str, Any], lines: dict[str, int] | None = None) -> None:
        self.file = file
        self.values = values
        self.lines = lines or {}  # of the keys at the top

    def policy(self) -> Policy:
        from onnx_ci.policy.schema import build_policy

        return build_policy(self.file, self.values)


def find_policy(start: Path, stop: Path | None) -> Path | None:
    """The nearest policy file in `start` or a folder above it, up to and including `stop`."""
    folder, last = start.resolve(), stop.resolve() if stop else None
    for candidate in (folder, *folder.parents):
        for name in FILE_NAMES:
            if (candidate / name).is_file():
                return candidate / name
        if candidate == last:
            return None
    return None


def check_policy(path: Path, *, methods: MethodRegistry, name: str | None = None) -> CheckedPolicy:
    """Read and check a policy file; `name` is how messages call it."""
    file = name or str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        raise PolicyError(file, 1, message, hint="`onnx-ci init` writes one; " + HINT) from None
    return check_content(data, file=file, folder=path.resolve().parent, methods=methods)


def check_content(data: bytes, *, file: str, folder: Path, methods: MethodRegistry) -> CheckedPolicy:
    """Check what a policy file in a folder holds; `file` is how messages call it."""
    return _checked(decode(data, file), Reading(file, methods, folder.as_posix()))


def parse_policy(text: str, *, file: str, methods: MethodRegistry) -> Policy:
    """The policy in a text; `file` is how messages call it."""
    return _checked(text, Reading(file, methods)).policy()


def _checked(text: str, reading: Reading) -> CheckedPolicy:
    root = Place(reading, compose(text, reading.file), "", example=f"\n{EXAMPLE}")
    _check_version(root)
    values = POLICY.read(root)
    _check_names(values.get("groups", ()), root)
    lines = {key: entry.key_line for key, entry in root.entries("").items()}
    return CheckedPolicy(reading.file, values, lines)


def _check_version(root: Place) -> None:
    """First of all: a policy of another version has other keys, and that is not what is wrong with it."""
    version = root.entries("a mapping with `version` and `models`").get("version")
    if version:
        version.example = "version: 1"
        POLICY.keys["version"].kind.read(version)


def _check_names(groups: tuple[dict[str, Any], ...], root: Place) -> None:
    lines: dict[str, int] = {}
    for group in groups:
        name, line = group["name"], group["line"]
        if name in lines:
            both = f"on lines {lines[name]} and {line}"
            message = f"groups: found the name {name!r} twice, {both}, expected it once"
            raise root.error(message, hint="for example: name: app bundle", line=line)
        lines[name] = line


def rule_for(policy: Policy, path: str) -> Rule | None:
    """All that the matching rules say together; paths are relative to the policy file, with `/`."""
    rules = matching_rules(policy, path)
    if len(rules) < 2:
        return next(iter(rules), None)
    from onnx_ci.policy.schema import cascade

    return cascade(rules)


def matching_rules(policy: Policy, path: str) -> tuple[Rule, ...]:
    """All rules that match, in the order of the file: later ones win, key by key."""
    return tuple(rule for rule in policy.rules if matches(rule.pattern, path))


def rule_naming(policy: Policy, path: str, key: str) -> Rule | None:
    """The rule that decides on a key, or else the last that matches."""
    rules = matching_rules(policy, path)
    naming = [rule for rule in rules if key in rule.named]
    return (naming or rules or (None,))[-1]


def group_members(group: Group, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that count towards the budget of a group."""
    return tuple(path for path in paths if any(matches(pattern, path) for pattern in group.paths))


def override_for(policy: Policy, path: str, sha256: str, today: date) -> Override | None:
    """The override that accepts exactly this content today; its last day still counts."""
    latest = _latest_override(policy, path, sha256)
    return latest if latest and latest.until >= today else None


def ended_override(policy: Policy, path: str, sha256: str, today: date) -> Override | None:
    """The override that accepted this content until some day before today, when none does now."""
    latest = _latest_override(policy, path, sha256)
    return latest if latest and latest.until < today else None


def names(override: Override, path: str) -> bool:
    """Whether an override is for this path, with whatever content."""
    # A path that holds a `[` is no pattern to its writer, so the plain path counts as well.
    return override.path == path or matches(override.path, path)


def idle_rules(policy: Policy, paths: Collection[str]) -> list[Rule]:
    """Rules that ask something of models, and match none of these, or only such as are ignored already."""
    useful: set[int] = set()
    for path in paths:
        rules = matching_rules(policy, path)
        ignored = False
        for rule in rules:
            ignored = rule.ignore if "ignore" in rule.named else ignored
            if not ignored:
                useful.add(id(rule))
    return [rule for rule in policy.rules if not rule.ignore and id(rule) not in useful]


def _latest_override(policy: Policy, path: str, sha256: str) -> Override | None:
    same = (override for override in policy.overrides if override.sha256 == sha256.lower())
    ours = (override for override in same if names(override, path))
    return max(ours, key=lambda override: override.until, default=None)
