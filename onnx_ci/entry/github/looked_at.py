"""Whether what is checked out has the commit that the event is about: nothing else may pass for it."""

from __future__ import annotations

import re
from pathlib import Path

from onnx_ci.entry.github.branch import checked_out, parents_of
from onnx_ci.entry.github.event import Event
from onnx_ci.errors import UsageError
from onnx_ci.targets.base import merge_base
from onnx_ci.targets.git import commit_of


def refuse_other_checkout(event: Event, root: Path) -> None:
    """A pull request is judged by its own models. Those of the branch it is to go to, which is what a
    checkout gives for `pull_request_target`, would always be found in order."""
    head = event.text("pull_request", "head", "sha")
    if not re.fullmatch(r"[0-9a-f]{40,64}", head) or _has(event, head, root):
        return
    here = (commit_of(root, "HEAD") or "nothing")[:12]
    found = checked_out(root) or "no branch"
    raise UsageError(
        f"the commit {head[:12]} of the pull request is not in what is checked out ({here}, {found}),"
        " so its models can't be judged",
        hint="on `pull_request`, leave `ref` of actions/checkout away, or set it to ${{ github.head_ref }};"
        " `pull_request_target` checks out the branch that the pull request is to go to: use `pull_request`",
    )


def _has(event: Event, head: str, root: Path) -> bool:
    at = commit_of(root, "HEAD")
    known = [head, event.text("pull_request", "merge_commit_sha")]
    if event.name != "pull_request_target":  # there it is the commit of the base
        known.append(event.sha)
    if at in known or head in parents_of(root):
        return True
    if not event.is_fork and checked_out(root) == event.branch:  # pushed to since, perhaps by force
        return True
    try:
        return merge_base(root, head) == head
    except UsageError:  # it can't even be fetched
        return False
