"""Advice in the words of whoever reads it: who has a policy, who gave flags, who has a workflow to change.

A hint is put together of text and of these by `+`, and stays a hint; an f-string would leave the policy's
words only. Whoever makes an outcome for another audience asks it for that audience's words, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from onnx_ci.util.text import shell_word

Audience = Literal["policy", "flags", "workflow"]


class Hint(str):
    """What to do next. As text it speaks of the policy; `flags` and `workflow` say the same to others.
    `command` is what a shell is to run, where the hint is that and nothing else."""

    flags: str
    workflow: str
    command: str

    def __new__(
        cls, policy: str, *, flags: str | None = None, workflow: str | None = None, command: str = ""
    ) -> Hint:
        hint = super().__new__(cls, policy)
        hint.flags = policy if flags is None else flags
        hint.workflow = policy if workflow is None else workflow
        hint.command = command
        return hint

    def __add__(self, more: str) -> Hint:
        return _joined(self, more)

    def __radd__(self, text: str) -> Hint:
        return _joined(text, self)


def hint_for(audience: Audience, hint: str) -> str:
    """Return the words for one audience; plain text is the same for all, and so is a command."""
    if audience == "policy" or not isinstance(hint, Hint):
        return hint
    words = hint.flags if audience == "flags" else hint.workflow
    return hint if words == hint else words


def _joined(first: str, second: str) -> Hint:
    flags, workflow = (
        str(hint_for(who, first)) + str(hint_for(who, second)) for who in ("flags", "workflow")
    )
    return Hint(str(first) + str(second), flags=flags, workflow=workflow)


def command_of(hint: str) -> str:
    """Return the command that a hint asks for; empty where it says something else."""
    return hint.command if isinstance(hint, Hint) else ""


def to_run(command: str) -> Hint:
    return Hint(f"run: {command}", command=command)


GIVE_SAMPLES = Hint("inputs: {samples: [...]}", flags="--samples F.npz")
RECORD = Hint(
    "these inputs were made up: record real ones (onnx-ci record -- PROGRAM)",
    flags="these inputs were made up: record real ones (onnx-ci record -- PROGRAM), and give them: --samples",
)
CHECK_SAMPLES = Hint("check inputs.samples", flags="check --samples")
RAISE_BUDGET = Hint("raise the budget", flags="raise the --budget")
LOOSEN_TOLERANCE = Hint("loosen the tolerance", flags="loosen the --tolerance")
OR_OVERRIDE = Hint(", or accept this content with an override", flags="")  # which only a policy has
KEEP_IN_FLOAT32 = (
    "keep these operators in float32 when you convert (a block list of the converter), or scale down what"
    " goes into them; bfloat16 has the range of float32"
)


def set_dims(sizes: Mapping[str, int]) -> Hint:
    """Sizes for the open dims of a model, by its own names for them."""
    named = ", ".join(f"{_yaml_key(name)}: {size}" for name, size in sizes.items())
    flags = shell_word(",".join(f"{name}={size}" for name, size in sizes.items()))
    return Hint(f"inputs: {{dims: {{{named}}}}}", flags=f"--dims {flags}")


def _yaml_key(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def set_tolerance(limit: str, value: str) -> Hint:
    return set_tolerances({limit: value})


def set_tolerances(limits: Mapping[str, str]) -> Hint:
    named = ", ".join(f"{limit}: {value}" for limit, value in limits.items())
    flags = ",".join(f"{limit}={value}" for limit, value in limits.items())
    return Hint(f"tolerance: {{{named}}}", flags=f"--tolerance {flags}")


def allow_stronger(*methods: str) -> Hint:
    return Hint(
        f"allow a stronger method in the rule (for example methods: [{', '.join(methods)}])",
        flags=f"allow a stronger method (--methods {','.join(methods)})",
    )


def fetch_from_lfs(how: str) -> Hint:
    """In a workflow, the checkout is what can be changed."""
    in_workflow = f"set `lfs: true` of actions/checkout in the workflow; or {how}"
    return Hint(how, workflow=in_workflow, command=command_of(how))
