"""Which pull request a finished workflow run was for: asked of GitHub, never read from what the run left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx_ci.entry.github.api import Api, Pull


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a run was of, as GitHub itself tells in the event. All but the numbers is chosen by the author."""

    sha: str
    branch: str
    owner: str
    repository: int  # the number of the repository that the branch is in
    pulls: tuple[int, ...] = ()  # GitHub names them for branches of this repository, never for forks


def head_of(event: Mapping[str, Any]) -> Head | None:
    """From the payload of a `workflow_run` event; None where a fork was deleted since."""
    try:
        run = event["workflow_run"]
        source = run["head_repository"]
        return Head(
            sha=str(run["head_sha"]),
            branch=str(run["head_branch"]),
            owner=str(source["owner"]["login"]),
            repository=int(source["id"]),
            pulls=tuple(int(pull["number"]) for pull in run.get("pull_requests") or ()),
        )
    except (KeyError, TypeError, ValueError):
        return None


def pull_of(api: Api, head: Head) -> tuple[int, str]:
    """The number of the one open pull request that has this very commit as its head; or 0, and why not."""
    found = _matching(api.pulls_of_branch(head.owner, head.branch), head)
    found = found or _matching(api.pulls_of_commit(head.sha), head)
    if len(found) > 1:
        found = [number for number in found if number in head.pulls] or found
    if len(found) == 1:
        return found[0], ""
    if found:
        return (
            0,
            f"{len(found)} open pull requests have this head, and it can't be told which the run was for",
        )
    return 0, f"no open pull request has {head.sha[:12]} as its head: it was closed, or has moved on since"


def _matching(pulls: list[Pull], head: Head) -> list[int]:
    """Others may have a branch of this name, or this commit: the repository has to be the same too."""
    return sorted(
        {
            pull.number
            for pull in pulls
            if pull.is_open and pull.sha == head.sha and pull.repository == head.repository != 0
        }
    )
