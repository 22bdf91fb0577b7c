"""The branch that a commit goes to: the one that is checked out, or the one the event is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx_ci.entry.github.event import Event
from onnx_ci.errors import UsageError
from onnx_ci.targets.base import is_shallow
from onnx_ci.targets.git import ask_git, commit_of, complaint_of, git_or_none

REMOTE = "origin"


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A branch of the remote; `root` is where it is checked out."""

    root: Path
    name: str

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.name}"

    @property
    def tracking(self) -> str:
        return f"refs/remotes/{REMOTE}/{self.name}"

    def fetch(self) -> str | None:
        """Get its tip; None where that went well, or else why not."""
        depth = ("--depth=1",) if is_shallow(self.root) else ()
        wanted = f"+{self.ref}:{self.tracking}"
        return complaint_of(self.root, "fetch", "--quiet", "--no-tags", *depth, REMOTE, wanted)

    def tip(self) -> str | None:
        """Where the remote has it at this moment; empty: it has none of that name; None: it did not say."""
        found = git_or_none(self.root, "ls-remote", REMOTE, self.ref)
        return None if found is None else found.partition("\t")[0].strip()

    def is_gone(self, event: Event, tip: str | None) -> bool:
        """Whether the remote had it, and has it no more. One that was made in this job is only new."""
        known = self.name == event.branch or commit_of(self.root, self.tracking) is not None
        return known and tip == ""


def gone(name: str) -> str:
    return f"the branch {name} is not there any more: it was deleted, perhaps after a merge"


def parents_of(root: Path, commit: str = "HEAD") -> list[str]:
    """As the commit itself names them: a shallow clone pretends that there are none."""
    top = (git_or_none(root, "cat-file", "commit", commit) or "").partition("\n\n")[0]
    return [line.removeprefix("parent ") for line in top.splitlines() if line.startswith("parent ")]


def checked_out(root: Path) -> str:
    """The name of the branch that is checked out; empty where HEAD is detached."""
    return (ask_git(root, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip()


def refusal(event: Event, root: Path) -> str:
    """Why nothing can be committed for this event; empty: nothing is known against it."""
    if event.is_fork:
        return "the branch is in a fork, where this workflow may not write"
    if event.name == "merge_group":
        return "this is a merge queue: its branch is merged as it is, and a commit would not get anywhere"
    if event.ref.startswith("refs/tags/") and not checked_out(root):
        return f"this run is for the tag {event.ref.removeprefix('refs/tags/')}, and a tag stays what it is"
    if checked_out(root) == event.base != event.branch and event.base:
        return f"{event.base} is checked out, and this run is about {event.branch}: set `ref` of the checkout"
    if not checked_out(root) and not _belongs(event, root):
        return (
            "no branch is checked out (HEAD is detached), and the event names none: set `ref` of the checkout"
        )
    return ""


def _belongs(event: Event, root: Path) -> bool:
    """Whether what is checked out stands for the event's branch: its commit, or a merge made for it."""
    return bool(event.branch) and (event.is_pull or commit_of(root, "HEAD") in (event.sha, event.head))


def branch_of(event: Event, root: Path) -> Branch:
    """The branch that is checked out, or else the one that the event is about."""
    name = checked_out(root) or event.branch
    if name.startswith("-") or ask_git(root, "check-ref-format", f"refs/heads/{name}") is None:
        raise UsageError(f"the event names a branch {name!r}, which can't be the name of one")
    return Branch(root=root, name=name)


def take(branch: Branch) -> None:
    """Be on the branch. A pull request is checked out as a merge on no branch: its head is fetched then."""
    if checked_out(branch.root):
        return
    complaint = branch.fetch()
    if complaint is None:
        complaint = complaint_of(branch.root, "checkout", "--quiet", "-B", branch.name, branch.tracking)
    if complaint is not None:
        raise UsageError(
            f"the branch {branch.name!r} could not be checked out: {complaint}",
            hint="check it out first, with `ref: ${{ github.head_ref }}` of actions/checkout",
        )
