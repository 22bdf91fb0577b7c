"""One push, and what became of it: done, overtaken by another, or refused for a reason that can be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_ci.entry.github.branch import REMOTE, Branch, gone
from onnx_ci.entry.github.event import Event
from onnx_ci.entry.github.lfs_objects import send
from onnx_ci.report.style import one_line
from onnx_ci.targets.git import ask_git, commit_of, try_git

_MOVED = re.compile(
    r"\[rejected\]|fetch first|non-fast-forward|cannot lock ref|\bstale info\b", re.IGNORECASE
)
_PROTECTED = re.compile(r"GH006|GH013|protected branch|rule violations", re.IGNORECASE)
_DENIED = re.compile(
    r"\b40[13]\b|permission .* denied|write access .* not granted|authentication failed"
    r"|could not read username|resource not accessible",
    re.IGNORECASE,
)
_LONGEST = 300


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """`moved`: the branch has commits that we do not have. `refused`: trying again would not help."""

    done: bool = False
    moved: bool = False
    refused: str = ""


def push(branch: Branch, names: Sequence[str], event: Event) -> Pushed:
    """Only onto the very tip that our commit was made for: a branch that goes away is not made anew."""
    tip = branch.tip()
    if branch.is_gone(event, tip):
        return Pushed(refused=gone(branch.name))
    if tip and not _is_below(branch, tip):
        return Pushed(moved=True)
    complaint = send(branch.root, names)
    if complaint is not None:
        return Pushed(refused=f"Git LFS could not send the models: {_short(complaint)}")
    expected = () if tip is None else (f"--force-with-lease={branch.ref}:{tip}",)
    done, said = try_git(branch.root, "push", "--porcelain", *expected, REMOTE, f"HEAD:{branch.ref}")
    return Pushed(done=True) if done else read_refusal(branch.name, said)


def _is_below(branch: Branch, tip: str) -> bool:
    """Whether our commit has the tip below it: with a lease git itself would not ask."""
    known = commit_of(branch.root, tip) is not None
    return known and ask_git(branch.root, "merge-base", "--is-ancestor", tip, "HEAD") is not None


def read_refusal(name: str, said: str) -> Pushed:
    """What GitHub, or git, says about a push that did not go through."""
    if _PROTECTED.search(said):
        why = f"the branch {name} is protected, and this token may not push to it"
        return Pushed(refused=f"{why} ({_remote(said)})")
    if re.search("hook declined", said):
        return Pushed(refused=f"the repository does not take this push ({_remote(said)})")
    if _MOVED.search(said):
        return Pushed(moved=True)
    if _DENIED.search(said):
        why = "the token may not write to this repository: the job needs `permissions: contents: write`"
        return Pushed(refused=f"{why} ({_remote(said)})")
    return Pushed(refused=f"git push failed: {_remote(said)}")


def _remote(said: str) -> str:
    """The line that says most: an error of the other side, or else git's own."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"remote: .*\w", line)] or [
        line for line in lines if line.startswith(("fatal:", "error:", "!"))
    ]
    errors = [line for line in told if "error" in line.lower()] or told or lines or ["it did not say why"]
    return _short(errors[0])


def _short(text: str) -> str:
    return one_line(text.replace("\t", " ")).removeprefix("remote: ")[:_LONGEST]
