"""Our commit on top of what others pushed meanwhile; dropped where they changed what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from onnx_ci.entry.github.branch import Branch
from onnx_ci.entry.github.git_settings import git_settings, identity
from onnx_ci.errors import EnvironmentFault
from onnx_ci.policy.load import FILE_NAMES
from onnx_ci.targets.changes import changed_between
from onnx_ci.targets.git import commit_of, complaint_of, git_or_none


def catch_up(branch: Branch, base: str, names: Sequence[str]) -> str:
    """Be on the fetched tip. The rebased commit; empty where it was dropped, and the models are to be fixed
    anew: they, or a policy, are not what they were when the fix was proven."""
    tip = commit_of(branch.root, branch.tracking) or ""
    theirs = changed_between(branch.root, base, tip)
    if not any(name in names or PurePosixPath(name).name in FILE_NAMES for name in theirs):
        with git_settings(identity(branch.root)):
            words = ("--quiet", "--autostash", "--onto", tip, base)
            if complaint_of(branch.root, "rebase", *words) is None:
                return commit_of(branch.root, "HEAD") or ""
        git_or_none(branch.root, "rebase", "--abort")
    complaint = complaint_of(branch.root, "reset", "--quiet", "--keep", tip)
    if complaint is not None:
        raise EnvironmentFault(
            f"the branch {branch.name} has moved, and its new state can't be checked out: {complaint}",
            hint="leave no changes in the work tree before mode commit, or commit them first",
        )
    return ""
