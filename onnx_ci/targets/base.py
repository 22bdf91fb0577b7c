"""What a run is compared with: the merge base of a branch, fetched where a clone is too shallow."""

from __future__ import annotations

import os
import re
from pathlib import Path

from onnx_ci.errors import UsageError
from onnx_ci.targets.git import ask_git, commit_of, complaint_of, has_commits, run_git

_NAME = re.compile(r"[\w./-]+")  # of a branch or commit; never a refspec, which could write elsewhere
# Where a pull request is to go, in GitHub, Azure Pipelines, Jenkins, Buildkite and Bitbucket.
_TARGETS = (
    "GITHUB_BASE_REF",
    "SYSTEM_PULLREQUEST_TARGETBRANCH",
    "CHANGE_TARGET",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
    "BITBUCKET_PR_DESTINATION_BRANCH",
)
_STEPS = ("--deepen=50", "--deepen=500", "--unshallow")


def pull_request_base() -> str | None:
    """The branch or commit this run is to be compared with, where a CI service or pre-commit says so."""
    return reviewed_against() or os.environ.get("PRE_COMMIT_FROM_REF") or None


def reviewed_against() -> str | None:
    """The same where a CI service says that somebody is to review the change: a pull or merge request."""
    branch = next(filter(None, map(os.environ.get, _TARGETS)), None)
    if branch:
        return f"origin/{branch.removeprefix('refs/heads/')}"
    return os.environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or None


def pushed_commit(root: Path) -> str:
    """The commit that a pre-push hook is asked about; empty where no push is under way."""
    ref = os.environ.get("PRE_COMMIT_TO_REF") or os.environ.get("PRE_COMMIT_LOCAL_BRANCH")
    return (commit_of(root, ref) or "") if ref else ""


def merge_base(root: Path, ref: str, head: str = "HEAD") -> str:
    """The commit a branch left another at; a clear error where it can't be known."""
    if ref.startswith("-"):
        raise UsageError(f"{ref!r} is not a git revision", hint="for example: --since origin/main")
    commit = commit_of(root, ref)
    if commit is None:
        has_commits(root)  # refuses where it is not the revision that is wrong
        commit = _fetched(root, ref)
    base = ask_git(root, "merge-base", commit, head) or _deepened(root, commit, ref, head)
    return base.strip()


def _fetched(root: Path, ref: str) -> str:
    """A shallow clone knows one branch: fetch the tip of another by its name, or a commit by its digits."""
    remote, branch = _remote(root, ref)
    command = f"git fetch {remote} {branch}"
    if not remote:
        raise UsageError(
            f"git does not know the revision {ref!r}, and there is no remote to fetch it from",
            hint="git branch --all lists what it knows; or: git remote add origin URL, and fetch",
        )
    if not (is_shallow(root) and _NAME.fullmatch(branch)):
        raise UsageError(f"git does not know the revision {ref!r}", hint=f"fetch it first: {command}")
    wanted = branch if ref == branch else f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
    complaint = complaint_of(root, "fetch", "--quiet", "--no-tags", "--depth=1", remote, wanted)
    commit = commit_of(root, ref) or (commit_of(root, "FETCH_HEAD") if complaint is None else None)
    if commit is None:
        raise UsageError(
            f"this clone is shallow, does not know {ref!r} and could not fetch it: {complaint}",
            hint=f"run: {command}",
        )
    return commit


def _deepened(root: Path, commit: str, ref: str, head: str) -> str:
    """History is fetched step by step, until the two have a commit in common."""
    remote, _ = _remote(root, ref)
    tips = [commit, commit_of(root, head) or head]
    complaint: str | None = "there is no remote to fetch it from"
    for step in _STEPS if remote else ():
        if not is_shallow(root):
            break
        complaint = complaint_of(root, "fetch", "--quiet", "--no-tags", step, remote, *tips)
        base = ask_git(root, "merge-base", commit, head)
        if base is not None:
            return base
    if not is_shallow(root):
        raise UsageError(
            f"{ref!r} and {head} have no commit in common",
            hint="name a branch that this one was made from, for example: --since origin/main",
        )
    raise UsageError(
        f"this clone is too shallow to know where {ref!r} and {head} parted, and {complaint}",
        hint=f"run: git fetch --unshallow {remote or 'origin'}   (in a GitHub workflow: fetch-depth: 0)",
    )


def is_shallow(root: Path) -> bool:
    return run_git(root, "rev-parse", "--is-shallow-repository").strip() == "true"


def _remote(root: Path, ref: str) -> tuple[str, str]:
    """The remote to ask and what to ask it for: `origin/main` is `main` of `origin`; `""`: there is none."""
    remotes = run_git(root, "remote").split("\n")
    first, _, branch = ref.partition("/")
    if branch and first in remotes:
        return first, branch
    return ("origin" if "origin" in remotes else remotes[0]), ref
