"""What started the workflow: the branch it is about, where that is, and what to compare with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx_ci.errors import EnvironmentFault

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
        found: Any = self.payload
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def text(self, *keys: str) -> str:
        found = self.at(*keys)
        return found if isinstance(found, str) else ""

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
    return Event(
        name=environment.get("GITHUB_EVENT_NAME", ""),
        repository=environment.get("GITHUB_REPOSITORY", ""),
        ref=environment.get("GITHUB_REF", ""),
        sha=environment.get("GITHUB_SHA", ""),
        payload=_payload(environment.get("GITHUB_EVENT_PATH", "")),
    )


def _payload(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise EnvironmentFault(f"the event can't be read from GITHUB_EVENT_PATH: {error}") from None
    return found if isinstance(found, dict) else {}
