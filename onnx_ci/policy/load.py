"""The policy file to a Policy, or to one error that names the line, what was found and what is right.

A rule starts from `defaults:`. What both give: `budget`, `inputs` and `limits` are merged key by key;
everything else, `tolerance` and `methods` above all, is replaced by the rule's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx_ci.errors import PolicyError
from onnx_ci.policy.compose import EXAMPLE, HINT, LARGEST, compose, decode
from onnx_ci.policy.fields import POLICY
from onnx_ci.policy.nodes import Place, Reading
from onnx_ci.policy.registry import MethodRegistry
from onnx_ci.policy.schema import (
    Budget,
    Evaluate,
    Group,
    InputSpec,
    Limits,
    Override,
    Policy,
    Rule,
    Tolerance,
)
from onnx_ci.policy.shapes import read_table

FILE_NAMES = (".onnx-ci.yaml", ".onnx-ci.yml")

_MERGED = ("budget", "inputs", "limits")
_PARTS: dict[str, Any] = {
    "budget": Budget,
    "tolerance": Tolerance,
    "inputs": InputSpec,
    "evaluate": Evaluate,
    "limits": Limits,
}


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


def load_policy(path: Path, *, methods: MethodRegistry, name: str | None = None) -> Policy:
    """The policy in a file; `name` is how messages call the file."""
    file = name or str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        raise PolicyError(file, 1, message, hint="`onnx-ci init` writes one; " + HINT) from None
    folder = path.resolve().parent.as_posix()
    return _policy(decode(data, file), Reading(file, methods, folder))


def parse_policy(text: str, *, file: str, methods: MethodRegistry) -> Policy:
    """The policy in a text; `file` is how messages call it."""
    return _policy(text, Reading(file, methods))


def _policy(text: str, reading: Reading) -> Policy:
    root = Place(reading, compose(text, reading.file), "", example=f"\n{EXAMPLE}")
    _check_version(root)
    values = read_table(root, POLICY)
    defaults = values.get("defaults", {})
    groups = [Group(**{**group, "budget": Budget(**group["budget"])}) for group in values.get("groups", ())]
    _check_names(groups, root)
    return Policy(
        file=reading.file,
        rules=tuple(_rule(rule, defaults) for rule in values["models"]),
        groups=tuple(groups),
        overrides=tuple(Override(**override) for override in values.get("overrides", ())),
    )


def _check_version(root: Place) -> None:
    """First of all: a policy of another version has other keys, and that is not what is wrong with it."""
    version = root.entries("a mapping with `version` and `models`").get("version")
    if version:
        version.example = "version: 1"
        POLICY["version"].kind.read(version)


def _rule(values: dict[str, Any], defaults: dict[str, Any]) -> Rule:
    given = {**defaults, **values}
    for key in _MERGED:
        if key in defaults and key in values:
            given[key] = {**defaults[key], **values[key]}
    made = {key: _PARTS[key](**value) if key in _PARTS else value for key, value in given.items()}
    return Rule(pattern=made.pop("path"), **made)


def _check_names(groups: list[Group], root: Place) -> None:
    lines: dict[str, int] = {}
    for group in groups:
        if group.name in lines:
            both = f"on lines {lines[group.name]} and {group.line}"
            message = f"groups: found the name {group.name!r} twice, {both}, expected it once"
            raise root.error(message, hint="for example: name: app bundle", line=group.line)
        lines[group.name] = group.line
