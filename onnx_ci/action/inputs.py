"""What the runner gives the action and takes from it: inputs, the event, outputs and the summary."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.policy.schema import PolicyFrom
from onnx_ci.util.scalars import FLAG, Scalar, choice, from_text, whole

Mode = Literal["check", "fix", "commit", "pull-request", "comment"]
FailOn = Literal["error", "warning", "never"]
DEFAULT_KEY = "default"
MESSAGE = "Shrink ONNX models"
BRANCH = "onnx-ci/shrink"
STATUS = "onnx-ci"
KEY = re.compile(r"[A-Za-z0-9](?:[ ._-]?[A-Za-z0-9]){0,49}")  # of a comment
KEY_WORDS = "true, false or a key: up to 50 letters, digits and single ' ', '.', '_', '-'"
_EXTRA = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the workflow asked for, one field an input."""

    mode: Mode = "check"
    policy: str = ""
    policy_from: PolicyFrom = "head"
    paths: tuple[str, ...] = ()
    since: str = ""
    all: bool = False
    fail_on: FailOn = "error"
    comment: str = ""  # the key of the sticky comment; empty: none
    commit_message: str = MESSAGE
    branch: str = BRANCH  # of the pull request that mode pull-request opens
    status: str = ""  # what a commit status is called; empty: none
    push_attempts: int = 3
    token: str = field(default="", repr=False)
    own_token: bool = False  # another than the one that every workflow has
    python_version: str = ""
    cache: bool = True
    extras: tuple[str, ...] = ()


_SCALARS = {
    "mode": choice(get_args(Mode)),
    "policy_from": choice(get_args(PolicyFrom)),
    "all": FLAG,
    "fail_on": choice(get_args(FailOn)),
    "push_attempts": whole(1, 20),
    "cache": FLAG,
}


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """`INPUT_FAIL_ON` is the input `fail-on`; one that is empty or missing has its default."""
    values: dict[str, Any] = {}
    for name in (item.name for item in fields(Inputs)):
        text = environment.get(f"INPUT_{name.upper()}", "").strip()
        if not text:
            continue
        if name in _SCALARS:
            values[name] = _scalar(name.replace("_", "-"), text, _SCALARS[name])
        elif name == "paths":  # one a line: a name may have spaces in it
            values[name] = tuple(line.strip() for line in text.splitlines() if line.strip())
        elif name == "comment":
            values[name] = _comment_key(text)
        elif name == "status":
            values[name] = {"false": "", "true": STATUS}.get(text.lower(), text[:100])
        elif name == "extras":
            values[name] = _extras(text)
        else:
            values[name] = text
    if values.get("mode") == "comment":
        values["comment"] = values.get("comment") or DEFAULT_KEY
    selections = [name for name in ("paths", "since", "all") if values.get(name)]
    if len(selections) > 1:
        raise UsageError(
            f"inputs {' and '.join(map(repr, selections))} can't be given together",
            hint="choose one of them; with none, the models that differ from the base are looked at",
        )
    own_token = values.get("token", "") not in ("", environment.get("ONNX_CI_JOB_TOKEN", ""))
    return Inputs(**{**values, "own_token": own_token})


def _scalar(name: str, text: str, scalar: Scalar) -> Any:
    value = from_text(text)
    if not scalar.fits(value):
        raise wrong(name, text, scalar.expected)
    return value


def _comment_key(text: str) -> str:
    """The input `comment`: `true` is the usual comment; any other word is the key of one of its own."""
    key = {"false": "", "true": DEFAULT_KEY}.get(text.lower(), text)
    if key and not KEY.fullmatch(key):
        raise wrong("comment", text[:60], KEY_WORDS)
    return key


def _extras(text: str) -> tuple[str, ...]:
    """Names of optional dependencies, separated by commas or white space."""
    names = tuple(dict.fromkeys(filter(None, re.split(r"[\s,]+", text))))
    for name in names:
        if not _EXTRA.fullmatch(name):
            raise wrong("extras", name, "names such as: simplify, compression")
    return names


def wrong(name: str, found: str, expected: str) -> UsageError:
    message = f"input {name!r}: found {found!r}, expected {expected}"
    return UsageError(message, hint=f"in the workflow: {name}: …")


PULLS = ("pull_request", "pull_request_target")
# These run with the rights of the default branch, whoever set them off.
PRIVILEGED = ("pull_request_target", "workflow_run", "issue_comment")
_NO_COMMIT = "0" * 40


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event; everything in the payload was written by somebody else."""

    name: str
    repository: str = ""  # owner/name
    ref: str = ""  # refs/heads/…, refs/tags/…, refs/pull/N/merge
    sha: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)

    def at(self, *keys: str) -> Any:
        """A value deep in the payload; None where something on the way is missing."""
        value: Any = self.payload
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def text(self, *keys: str) -> str:
        value = self.at(*keys)
        return value if isinstance(value, str) else ""

    @property
    def is_pull(self) -> bool:
        return self.name in PULLS

    @property
    def is_fork(self) -> bool:
        """Whether the code comes from another repository, or from one that is gone."""
        if self.is_pull:
            return self.text("pull_request", "head", "repo", "full_name") != self.repository
        if self.name == "workflow_run":
            return self.text("workflow_run", "head_repository", "full_name") != self.repository
        return False

    @property
    def branch(self) -> str:
        """The branch that commits go to; empty where there is none."""
        if self.is_pull:
            return self.text("pull_request", "head", "ref")
        if self.name == "workflow_run":
            return self.text("workflow_run", "head_branch")
        return self.ref.removeprefix("refs/heads/") if self.ref.startswith("refs/heads/") else ""

    @property
    def base(self) -> str:
        """The branch that the event's branch is to be merged into, or that its workflow was taken from."""
        if self.is_pull:
            return self.text("pull_request", "base", "ref")
        return self.text("repository", "default_branch") if self.name == "workflow_run" else ""

    @property
    def head(self) -> str:
        """The commit the branch was at."""
        if self.is_pull:
            return self.text("pull_request", "head", "sha")
        return self.text("workflow_run", "head_sha") if self.name == "workflow_run" else self.sha

    @property
    def since(self) -> str:
        """What to compare with, where git alone can't tell; empty: what onnx-ci finds by itself."""
        if self.name == "merge_group":
            return self.text("merge_group", "base_sha")
        before = self.text("before") if self.name == "push" else ""
        return "" if before == _NO_COMMIT else before

    @property
    def everything(self) -> bool:
        """On a clean checkout nothing differs from the last commit, so all models are looked at."""
        return not (self.is_pull or self.since)

    @property
    def trusts_cache(self) -> bool:
        """Whether only people who may write to the repository can have filled the cache this run would get.
        The cache of a pull request can be written by its code, and read by its later runs."""
        return not self.is_fork and self.name not in PRIVILEGED


def read_event(environment: Mapping[str, str]) -> Event:
    path = environment.get("GITHUB_EVENT_PATH", "")
    try:
        payload = json.loads(Path(path).read_bytes()) if path else None
    except (OSError, ValueError, RecursionError) as error:
        raise EnvironmentFault(f"the event can't be read from GITHUB_EVENT_PATH: {error}") from None
    return Event(
        name=environment.get("GITHUB_EVENT_NAME", ""),
        repository=environment.get("GITHUB_REPOSITORY", ""),
        ref=environment.get("GITHUB_REF", ""),
        sha=environment.get("GITHUB_SHA", ""),
        payload=payload if isinstance(payload, dict) else {},
    )


SUMMARY_LIMIT = 1 << 20  # bytes; GitHub drops a summary that is larger
_CUT = "\n\n… cut here: the whole report is in the artifact.\n"


def write_outputs(values: Mapping[str, str]) -> None:
    """Each value between delimiters nobody can guess: a value with line ends can't add outputs of its own."""
    for name, value in values.items():
        mark = f"onnx-ci-{secrets.token_hex(16)}"
        append_to("GITHUB_OUTPUT", f"{name}<<{mark}\n{value}\n{mark}\n")


def write_summary(markdown: str) -> None:
    """Added to what the step has said already, within the limit for all of it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY", "")
    there = Path(path).stat().st_size if path and Path(path).exists() else 0
    append_to("GITHUB_STEP_SUMMARY", cut(markdown, SUMMARY_LIMIT - there))


def cut(text: str, most: int) -> str:
    """As much as fits, at the end of a line."""
    data = text.encode(errors="backslashreplace")
    if len(data) <= most:
        return data.decode()
    kept = data[: max(0, most - len(_CUT.encode()))]
    return kept[: kept.rfind(b"\n") + 1].decode() + _CUT if most > len(_CUT) else ""


def append_to(variable: str, text: str) -> None:
    """Add to the file that an environment variable names; nothing where there is no such variable."""
    path = os.environ.get(variable)
    if path and text:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
