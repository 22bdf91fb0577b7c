"""Checked values of a policy file to the Policy they describe."""

from __future__ import annotations

from typing import Any

from onnx_ci.policy.schema import (
    Budget,
    Evaluate,
    Group,
    History,
    InputSpec,
    Lfs,
    Limits,
    MethodChoice,
    Override,
    Policy,
    Rule,
    Tolerance,
)

_MERGED = ("budget", "inputs", "limits")
_PARTS: dict[str, Any] = {
    "budget": Budget,
    "tolerance": Tolerance,
    "inputs": InputSpec,
    "evaluate": Evaluate,
    "limits": Limits,
}


def build_policy(file: str, values: dict[str, Any]) -> Policy:
    defaults = values.get("defaults", {})
    groups = [{**group, "budget": Budget(**group["budget"])} for group in values.get("groups", ())]
    return Policy(
        file=file,
        rules=tuple(_rule(rule, defaults) for rule in values["models"]),
        groups=tuple(Group(**group) for group in groups),
        overrides=tuple(Override(**override) for override in values.get("overrides", ())),
        history=History(**values["history"]) if "history" in values else None,
        lfs=Lfs(**values.get("lfs", {})),
        **{key: values[key] for key in ("unmatched", "policy_changes", "new_commands") if key in values},
    )


def _rule(values: dict[str, Any], defaults: dict[str, Any]) -> Rule:
    given = {**defaults, **values}
    for key in _MERGED:
        if key in defaults and key in values:
            given[key] = {**defaults[key], **values[key]}
    made = {key: _PARTS[key](**value) if key in _PARTS else value for key, value in given.items()}
    if "methods" in made:
        made["methods"] = tuple(MethodChoice(name=name, options=options) for name, options in made["methods"])
    return Rule(pattern=made.pop("path"), **made)
