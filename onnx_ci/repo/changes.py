"""What changed: the commit to compare with, the files that differ from it, and all that a branch adds."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.model.locations import DATA_ENDINGS
from onnx_ci.repo import git
from onnx_ci.repo.git import commit_of, file_names, has_commits, look_in_git, run_git, split
from onnx_ci.util.text import first_of

_NAME = r"[\w./-]+"  # of a branch or commit; never a refspec, which could write elsewhere
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
    base = git.ask_git(root, "merge-base", commit, head) or _deepened(root, commit, ref, head)
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
    if not (is_shallow(root) and re.fullmatch(_NAME, branch)):
        raise UsageError(f"git does not know the revision {ref!r}", hint=f"fetch it first: {command}")
    wanted = branch if ref == branch else f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
    complaint = git.complaint_of(root, "fetch", "--quiet", "--no-tags", "--depth=1", remote, wanted)
    commit = commit_of(root, ref) or (commit_of(root, "FETCH_HEAD") if complaint is None else None)
    if commit is None:
        from onnx_ci.util.advice import to_run

        raise UsageError(
            f"this clone is shallow, does not know {ref!r} and could not fetch it: {complaint}",
            hint=to_run(command),
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
        complaint = git.complaint_of(root, "fetch", "--quiet", "--no-tags", step, remote, *tips)
        base = git.ask_git(root, "merge-base", commit, head)
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
    names = git.remotes(root)
    first, _, branch = ref.partition("/")
    if branch and first in names:
        return first, branch
    return (names[0] if names else ""), ref


MODELS = (":(icase)*.onnx", ":(icase)*.onnx.dvc")
# Far below git's own 50%: a model that grew to four times its size is still the same model.
_PAIRED = ("--name-status", "-z", "-M20%", "-l0")


def changed_since_head(root: Path) -> list[str] | None:
    """Files that differ from HEAD, new and deleted ones too, in one call; None where there is no commit."""
    output = look_in_git(
        root, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames"
    )
    if "# branch.oid (initial)" in output and not has_commits(root):
        return None
    return [name for line in split(output) if (name := _status_name(line))]


def _status_name(line: str) -> str:
    """The path in one line of `git status --porcelain=v2`; empty for headers."""
    if line.startswith("? "):
        return line[2:]
    if line.startswith("1 "):
        return line.split(" ", 8)[8]
    return line.split(" ", 10)[10] if line.startswith("u ") else ""


def changed_since(root: Path, base: str) -> list[str]:
    """Files of the work tree that differ from a commit, new and deleted ones included."""
    return sorted({*changed_between(root, base), *_listed(root, "--others")})


def changed_between(root: Path, *sides: str) -> list[str]:
    return file_names(look_in_git(root, "diff", "--name-only", "-z", "--no-renames", *sides, "--"))


def staged(root: Path) -> list[str]:
    return changed_between(root, "--cached", "HEAD" if has_commits(root) else git.empty_tree(root))


def known_files(root: Path, patterns: Sequence[str]) -> list[str]:
    """Tracked and new files (ignored ones not) that match git pathspecs."""
    return sorted({*_listed(root, "--cached", "--others", "--", *patterns)})


def _listed(root: Path, *arguments: str) -> list[str]:
    return file_names(run_git(root, "ls-files", "-z", "--exclude-standard", *arguments))


def refuse_left_out(root: Path, models: Sequence[Path]) -> None:
    """Raise where a model that is not in the work tree is not deleted, but left out by a sparse checkout."""
    if not models:
        return
    names = [model.relative_to(root).as_posix() for model in models]
    listed = git.ask_in_parts(root, "ls-files", "-z", "-t", names=names)
    left_out = [line[2:] for line in listed if line.startswith("S ")]
    if left_out:
        raise EnvironmentFault(
            f"a sparse checkout leaves models out, so they can't be checked: {first_of(left_out, 3)}",
            hint="run: git sparse-checkout disable   or add their folders: git sparse-checkout add FOLDER",
        )


def renamed_since(root: Path, base: str, commit: str | None) -> dict[str, str]:
    """New names of models to the names they had in `base`: those of a commit, of the index where that is
    empty, of the work tree where it is None."""
    if commit is not None:
        return _renames(root, *([base, commit] if commit else ["--cached", base]))
    import shutil

    from onnx_ci.util.files import scratch_folder

    place = run_git(root, "rev-parse", "--git-path", "index").rstrip("\n")
    with scratch_folder() as folder:
        # Git pairs only what it knows: new files are made known in a copy of the index.
        copy = folder / "index"
        if (root / place).is_file():
            shutil.copyfile(root / place, copy)
        index = {"GIT_INDEX_FILE": str(copy)}
        new = _listed(root, "--others", "--", *MODELS)
        if new:
            run_git(root, "add", "--intent-to-add", "--", *new, also={**git.LITERAL, **index})
        return _renames(root, base, also=index)


def _renames(root: Path, *sides: str, also: Mapping[str, str] | None = None) -> dict[str, str]:
    words = iter(split(run_git(root, "diff", *_PAIRED, *sides, "--", *MODELS, also=also)))
    renames = {}
    for status in words:
        name = next(words)
        if status[0] in "RC":
            renames[next(words)] = name
    return renames


_FILES = (":(icase)*.onnx", *(f"*{ending}" for ending in DATA_ENDINGS))
_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames")


class Version:
    """One content of one file: what it takes in git, or in Git LFS if it is a pointer to there."""

    def __init__(self, name: str, blob: str, objects: git.Objects) -> None:
        pointer = objects.pointer(blob)
        self.name = name
        self.blob = blob
        self.size = pointer.size if pointer else objects.size(blob)
        self.in_lfs = pointer is not None


class CommitRange:
    """The commits of a branch, and what is staged on top of them where `staged` is asked for."""

    def __init__(self, repository: Path, base: str, head: str, *, staged: bool) -> None:
        self.repository = repository
        self.base = base
        self.head = head
        self.staged = staged

    def versions(self) -> list[Version]:
        """Each content once, under the first name it had, oldest first."""
        commits = f"{self.base}..{self.head}"
        new = set(run_git(self.repository, "rev-list", "--objects", "--no-object-names", commits).split())
        # Of a merge all sides are looked at: it may hold a content that no side has.
        logged = self._changes("log", "--format=", "-m", "--root", commits)
        names = {blob: name for blob, name in logged.items() if blob in new}
        if self.staged:
            staged = self._changes("diff", "--cached", self.head)
            names.update({blob: name for blob, name in staged.items() if blob not in names})
        # A branch that goes back to what the base has already adds nothing.
        old = self._changes("diff", git.empty_tree(self.repository), self.base)
        from contextlib import closing

        with closing(git.Objects(self.repository)) as objects:
            return [Version(name, blob, objects) for blob, name in names.items() if blob not in old]

    def last(self) -> set[str]:
        """The contents that would be left if the branch were one commit."""
        sides = ["--cached", self.base] if self.staged else [self.base, self.head]
        return set(self._changes("diff", *sides))

    def models(self) -> list[str]:
        """The models there are at the end of the branch."""
        listing = ["ls-files", "-z"] if self.staged else ["ls-tree", "-r", "-z", "--name-only", self.head]
        names = file_names(run_git(self.repository, *listing))
        return [name for name in names if name.lower().endswith(".onnx")]

    def _changes(self, command: str, *arguments: str) -> dict[str, str]:
        """The new content of each change that git tells of, and its name; deletions have none."""
        output = run_git(self.repository, command, *_RAW, *arguments, "--", *_FILES)
        changes = {}
        fields = iter(split(output))
        for words in fields:
            name = next(fields)
            _, mode, _, blob, status = words.split(" ")
            if status != "D" and mode.startswith("100"):
                changes[blob] = name
        return changes


def called_after(data: str, models: Sequence[str]) -> bool:
    """Whether a data file is called after a model that is in its folder or above."""
    path = PurePosixPath(data)
    return any(
        path.name.startswith(PurePosixPath(model).stem) and PurePosixPath(model).parent in path.parents
        for model in models
    )
