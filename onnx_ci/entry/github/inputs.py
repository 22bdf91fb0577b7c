"""The inputs of the action, read from the environment and checked: a wrong one is named in the error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_ci.errors import UsageError
from onnx_ci.util.scalars import FLAG, Scalar, choice, from_text, whole

MODES = ("check", "fix", "commit", "comment")
LEVELS = ("error", "warning", "never")
POLICIES = ("head", "base")
DEFAULT_KEY = "default"
MESSAGE = "Shrink ONNX models"
KEY = re.compile(r"[A-Za-z0-9](?:[ ._-]?[A-Za-z0-9]){0,49}")  # of a comment
KEY_WORDS = "true, false or a key: up to 50 letters, digits and single ' ', '.', '_', '-'"
_MOST_ATTEMPTS = 20
_EXTRA = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the workflow asked for, one field an input."""

    mode: str = "check"
    policy: str = ""
    policy_from: str = "head"
    paths: tuple[str, ...] = ()
    since: str = ""
    all: bool = False
    fail_on: str = "error"
    comment: str = ""  # the key of the sticky comment; empty: none
    commit_message: str = MESSAGE
    push_attempts: int = 3
    token: str = field(default="", repr=False)
    own_token: bool = False  # another than the one that every workflow has
    python_version: str = ""
    cache: bool = True
    extras: tuple[str, ...] = ()


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """`INPUT_FAIL_ON` is the input `fail-on`; one that is empty or missing has its default."""
    given = _Given(environment)
    inputs = Inputs(
        mode=given.scalar("mode", choice(MODES), MODES[0]),
        policy=given.text("policy"),
        policy_from=given.scalar("policy-from", choice(POLICIES), POLICIES[0]),
        paths=given.lines("paths"),
        since=given.text("since"),
        all=given.scalar("all", FLAG, False),
        fail_on=given.scalar("fail-on", choice(LEVELS), LEVELS[0]),
        comment=given.key("comment"),
        commit_message=given.text("commit-message") or MESSAGE,
        push_attempts=given.scalar("push-attempts", whole(1, _MOST_ATTEMPTS), 3),
        token=given.text("token"),
        own_token=given.text("token") not in ("", environment.get("ONNX_CI_JOB_TOKEN", "")),
        python_version=given.text("python-version"),
        cache=given.scalar("cache", FLAG, True),
        extras=read_extras(given.text("extras")),
    )
    _refuse_two_selections(inputs)
    return inputs


def comment_key(environment: Mapping[str, str]) -> str:
    """The input `comment` alone, where another one is wrong."""
    return _Given(environment).key("comment")


def read_extras(text: str) -> tuple[str, ...]:
    """Names of optional dependencies, separated by commas or white space."""
    names = tuple(dict.fromkeys(re.split(r"[\s,]+", text.strip()))) if text.strip() else ()
    for name in names:
        if not _EXTRA.fullmatch(name):
            raise wrong("extras", name, "names such as: simplify, compression")
    return names


def wrong(name: str, found: str, expected: str) -> UsageError:
    return UsageError(
        f"input {name!r}: found {found!r}, expected {expected}", hint=f"in the workflow: {name}: …"
    )


class _Given:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def text(self, name: str) -> str:
        return self.environment.get(f"INPUT_{name.upper().replace('-', '_')}", "").strip()

    def lines(self, name: str) -> tuple[str, ...]:
        """One a line: a name may have spaces in it."""
        found = self.environment.get(f"INPUT_{name.upper().replace('-', '_')}", "").splitlines()
        return tuple(line.strip() for line in found if line.strip())

    def scalar(self, name: str, scalar: Scalar, default: Any) -> Any:
        text = self.text(name)
        value = from_text(text)
        if text and not scalar.fits(value):
            raise wrong(name, text, scalar.expected)
        return value if text else default

    def key(self, name: str) -> str:
        """`true` is the usual comment; any other word is the key of one of its own."""
        found = self.text(name)
        key = {"": "", "false": "", "true": DEFAULT_KEY}.get(found.lower(), found)
        if key and not KEY.fullmatch(key):
            raise wrong(name, found[:60], KEY_WORDS)
        return key


def _refuse_two_selections(inputs: Inputs) -> None:
    given = [name for name in ("paths", "since", "all") if getattr(inputs, name)]
    if len(given) > 1:
        raise UsageError(
            f"inputs {' and '.join(map(repr, given))} can't be given together",
            hint="choose one of them; with none, the models that differ from the base are looked at",
        )
