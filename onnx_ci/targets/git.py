"""Runs git. The only module that does: always with an argument list, never through a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault

# Names are taken as they are, `*` and `:(top)` too: a file may be called like that.
LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_MOST_ARGUMENTS = 500


def find_root(start: Path) -> Path | None:
    """The top of the work tree around a folder, found without starting git."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return None


def repository_of(folder: Path, outer: Path | None) -> Path | None:
    """The repository a folder belongs to: the one we are in, or a submodule of it.

    Git runs what the configuration of a repository names, so one that only came with the files around
    a model is not entered."""
    found = find_root(folder)
    if found is None or outer is None or found == outer or not found.is_relative_to(outer):
        return outer
    marker = found / ".git"
    named = marker.read_text(errors="replace") if marker.is_file() else ""
    leads = found / named.removeprefix("gitdir:").strip()
    is_ours = bool(named) and leads.resolve().is_relative_to(shared_folder(outer).resolve() / "modules")
    return found if is_ours else outer


def run_git(root: Path, *arguments: str, also: Mapping[str, str] | None = None) -> str | None:
    """What git prints, or None where it says no."""
    done = _run(root, arguments, also)
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def complaint_of(root: Path, *arguments: str) -> str | None:
    """Run git for what it does; None where that went well, or else the line that says why it did not."""
    done = _run(root, arguments)
    lines = os.fsdecode(done.stderr).strip().splitlines()
    why = [line for line in lines if line.startswith("fatal: ")][:1]  # what follows is general advice
    return None if done.returncode == 0 else (why or lines or [f"it ended with {done.returncode}"])[-1]


def try_git(root: Path, *arguments: str, also: Mapping[str, str] | None = None) -> tuple[bool, str]:
    """Whether git did it, and all that it said: for those who have to tell reasons apart."""
    done = _run(root, arguments, also)
    return done.returncode == 0, os.fsdecode(done.stdout + done.stderr)


def git_into(target: Path, root: Path, *arguments: str) -> bool:
    """What git prints, into a file: a model need not fit into memory."""
    with target.open("wb") as file:
        return _run(root, arguments, output=file.fileno()).returncode == 0


def start_git(root: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A git that goes on answering what it is asked."""
    return subprocess.Popen(
        _command(root, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(None),
    )


def _command(root: Path, arguments: Sequence[str]) -> list[str]:
    return ["git", "-C", str(root), "-c", "core.quotepath=off", *arguments]


def _environment(also: Mapping[str, str] | None) -> dict[str, str]:
    """Nobody is there to answer a question."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return {**os.environ, **quiet, **(also or {})}


def _run(
    root: Path,
    arguments: Sequence[str],
    also: Mapping[str, str] | None = None,
    output: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            _command(root, arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            env=_environment(also),
            check=False,
        )
    except FileNotFoundError:
        raise EnvironmentFault(
            "git is not installed or not on the PATH", hint="install git, or name the models to check"
        ) from None


def split(output: str | None) -> list[str]:
    """The pieces of what git prints with -z."""
    return [piece for piece in (output or "").split("\0") if piece]


def file_names(output: str | None) -> list[str]:
    """The same where all are names. A tree made by hand may hold `..`, which git itself never checks out."""
    return [name for name in split(output) if ".." not in name.split("/")]


def ask_in_parts(root: Path, *arguments: str, names: Sequence[str]) -> list[str]:
    """Ask about many names, as they are, in as many calls as the length of a command line needs."""
    found: list[str] = []
    for start in range(0, len(names), _MOST_ARGUMENTS):
        part = names[start : start + _MOST_ARGUMENTS]
        found += split(run_git(root, *arguments, "--", *part, also=LITERAL))
    return found


def has_commits(root: Path) -> bool:
    return commit_of(root, "HEAD") is not None


def commit_of(root: Path, ref: str) -> str | None:
    """The commit a revision stands for, or None where git does not know it."""
    if ref.startswith("-"):
        return None
    found = run_git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return found.strip() if found else None


def empty_tree(root: Path) -> str:
    return (run_git(root, "hash-object", "-t", "tree", os.devnull) or "").strip()


def shared_folder(root: Path) -> Path:
    """The folder of git's own that all worktrees of a repository have in common."""
    found = (run_git(root, "rev-parse", "--git-common-dir") or ".git").rstrip("\n")
    return root / found
