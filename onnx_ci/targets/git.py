"""Asks git. The only module that runs it: always with an argument list, never through a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault, UsageError


def find_root(start: Path) -> Path | None:
    """The top of the work tree around a folder, found without starting git."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return None


def run_git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None where it says no."""
    done = _run(root, arguments, subprocess.PIPE)
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def git_into(target: Path, root: Path, *arguments: str) -> bool:
    """What git prints, into a file: a model need not fit into memory."""
    with target.open("wb") as file:
        return _run(root, arguments, file.fileno()).returncode == 0


def _run(root: Path, arguments: Sequence[str], output: int) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(root), "-c", "core.quotepath=off", *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, env=environment, check=False)
    except FileNotFoundError:
        raise EnvironmentFault(
            "git is not installed or not on the PATH", hint="install git, or name the models to check"
        ) from None


def shared_folder(root: Path) -> Path:
    """The folder of git's own that all worktrees of a repository have in common."""
    found = (run_git(root, "rev-parse", "--git-common-dir") or ".git").rstrip("\n")
    return root / found


def _names(output: str | None) -> list[str]:
    return [name for name in (output or "").split("\0") if name]


def has_commits(root: Path) -> bool:
    return run_git(root, "rev-parse", "--verify", "--quiet", "HEAD") is not None


def changed_since_head(root: Path) -> list[str] | None:
    """Files that differ from HEAD, new and deleted ones too, in one call; None where there is no commit."""
    output = run_git(
        root, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames"
    )
    if output is None or "# branch.oid (initial)" in output:
        return None
    return [name for line in _names(output) if (name := _status_name(line))]


def _status_name(line: str) -> str:
    """The path in one line of `git status --porcelain=v2`; empty for headers."""
    if line.startswith("? "):
        return line[2:]
    if line.startswith("1 "):
        return line.split(" ", 8)[8]
    return line.split(" ", 10)[10] if line.startswith("u ") else ""


def changed_since(root: Path, base: str) -> list[str]:
    """Files of the work tree that differ from a commit, new and deleted ones included."""
    changed = run_git(root, "diff", "--name-only", "-z", "--no-renames", base, "--")
    new = run_git(root, "ls-files", "-z", "--others", "--exclude-standard")
    return sorted({*_names(changed), *_names(new)})


def staged(root: Path) -> list[str]:
    base = "HEAD" if has_commits(root) else _empty_tree(root)
    return _names(run_git(root, "diff", "--cached", "--name-only", "-z", "--no-renames", base))


def unstaged(root: Path) -> list[str]:
    """Files whose content in the work tree is not what is staged."""
    return _names(run_git(root, "diff", "--name-only", "-z", "--no-renames"))


def _empty_tree(root: Path) -> str:
    return (run_git(root, "hash-object", "-t", "tree", os.devnull) or "").strip()


def known_files(root: Path, patterns: Sequence[str]) -> list[str]:
    """Tracked and new files (ignored ones not) that match git pathspecs."""
    output = run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return sorted(set(_names(output)))


def merge_base(root: Path, ref: str) -> str:
    """The commit a branch left another at; a clear error where it can't be known."""
    if ref.startswith("-"):
        raise UsageError(f"{ref!r} is not a git revision", hint="for example: --since origin/main")
    if run_git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") is None:
        raise UsageError(
            f"git does not know the revision {ref!r}",
            hint=f"fetch it first, for example: git fetch origin {ref.removeprefix('origin/')}",
        )
    base = run_git(root, "merge-base", ref, "HEAD")
    if base is None:
        raise UsageError(
            f"{ref!r} and HEAD have no commit in common here (a shallow clone?)",
            hint="run: git fetch --unshallow   (in a GitHub workflow: fetch-depth: 0)",
        )
    return base.strip()


def blob(root: Path, commit: str, path: str) -> bytes | None:
    """The content of a file in a commit."""
    text = run_git(root, "cat-file", "blob", f"{commit}:{path}")
    return None if text is None else os.fsencode(text)


def blob_size(root: Path, commit: str, path: str) -> int | None:
    """The size a file had in a commit; of a Git LFS pointer the size it stands for."""
    size = run_git(root, "cat-file", "-s", f"{commit}:{path}")
    if size is None:
        return None
    if int(size) < 1024:
        text = run_git(root, "cat-file", "blob", f"{commit}:{path}") or ""
        if text.startswith("version https://git-lfs.github.com/spec/v1"):
            sizes = [line[5:] for line in text.splitlines() if line.startswith("size ")]
            return int(sizes[0]) if sizes and sizes[0].isdigit() else None
    return int(size)


def pull_request_base() -> str | None:
    """The branch or commit this run is to be compared with, where a CI service or pre-commit says so."""
    branch = os.environ.get("GITHUB_BASE_REF")
    if branch:
        return f"origin/{branch}"
    return os.environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA") or os.environ.get("PRE_COMMIT_FROM_REF") or None
