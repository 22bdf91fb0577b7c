"""Commits of our own: what they changed is not changed again on top of them, so no run leads to the next."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_ci.entry.github.branch import REMOTE, Branch, parents_of
from onnx_ci.entry.github.git_settings import git_settings, identity
from onnx_ci.entry.github.message import is_our_own
from onnx_ci.targets.changes import changed_between
from onnx_ci.targets.git import commit_of, complaint_of, git_or_none, run_git

_MOST = 20  # commits of ours, one on top of the other


def changed_again(branch: Branch, names: Sequence[str]) -> str:
    """Why these files may not be committed; empty where they may. What others have pushed below a commit of
    ours is still to be fixed; only what our own last commits changed has to stay as it is."""
    commit = commit_of(branch.root, "HEAD") or ""
    for _ in range(_MOST):
        if not _is_ours(branch, commit):
            return ""
        parent = _parent(branch, commit)
        if not parent:
            return "the last commit is one of our own, and it can't be seen what it changed"
        again = sorted({*names} & {*changed_between(branch.root, parent, commit)})
        if again:
            return f"{again[0]} was changed by the last commit, one of our own, and would change once more"
        commit = parent
    return f"the last {_MOST} commits are our own"


def _is_ours(branch: Branch, commit: str) -> bool:
    """By the mark and by the author: a squashed pull request has our mark too, and is somebody else's."""
    found = run_git(branch.root, "log", "-1", "--format=%ae%n%B", commit)
    address, _, message = found.partition("\n")
    with git_settings(identity(branch.root)):
        ours = git_or_none(branch.root, "var", "GIT_AUTHOR_IDENT") or ""
    return is_our_own(message) and f"<{address}>" in ours


def _parent(branch: Branch, commit: str) -> str:
    """The commit before, fetched where the clone ends here; empty where there is none to be had."""
    parent = next(iter(parents_of(branch.root, commit)), "")
    if parent and commit_of(branch.root, parent) is None:
        complaint_of(branch.root, "fetch", "--quiet", "--no-tags", f"--deepen={_MOST}", REMOTE, branch.ref)
    return (commit_of(branch.root, parent) or "") if parent else ""
