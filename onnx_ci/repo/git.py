"""Runs git. The only module that does: always with an argument list, never through a shell.

A git that refuses is an error. Where a no is an answer, the call says so: `ask_git`, `git_or_none`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.locations import LARGEST, Pointer, read_pointer

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    import subprocess
    from typing import IO


# Names are taken as they are, `*` and `:(top)` too: a file may be called like that.
LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_MOST_ARGUMENTS = 500
_TRUST = "git config --global --add safe.directory "


def find_root(start: Path) -> Path | None:
    """The top of the work tree around a folder, found without starting git unless only GIT_DIR names it."""
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    if "GIT_DIR" not in os.environ:
        return None
    top = Path(run_git(start, "rev-parse", "--show-toplevel").rstrip("\n"))
    return top if start.is_relative_to(top) else None


def repository_of(folder: Path, outer: Path | None) -> Path | None:
    """The repository a folder belongs to: the one we are in, or a submodule of it.

    Git runs what the configuration of a repository names, so one that only came with the files around
    a model is not entered."""
    inner = find_root(folder)
    if inner is None or outer is None or inner == outer or not inner.is_relative_to(outer):
        return outer
    marker = inner / ".git"
    named = marker.read_text(errors="replace") if marker.is_file() else ""
    leads = inner / named.removeprefix("gitdir:").strip()
    is_ours = bool(named) and leads.resolve().is_relative_to(shared_folder(outer).resolve() / "modules")
    return inner if is_ours else outer


def run_git(root: Path, *arguments: str, also: Mapping[str, str] | None = None) -> str:
    """What git prints. Where it refuses nothing is known, and there is no verdict."""
    done = _run(root, arguments, also)
    if done.returncode:
        raise _refusal(root, done)
    return os.fsdecode(done.stdout)


def look_in_git(root: Path, *arguments: str) -> str:
    """The same for what changes nothing, with a light start. Where git refuses, it is asked once more for its
    words."""
    printed = _glance(root, arguments)
    return run_git(root, *arguments) if printed is None else printed


def _glance(root: Path, arguments: Sequence[str]) -> str | None:
    """What git prints if all goes well, without `subprocess`: loading that takes a tenth of an idle run."""
    if not hasattr(os, "posix_spawnp"):
        return None
    answers, theirs = os.pipe()
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, theirs, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    with open(answers, "rb") as output:  # noqa: PTH123 - a pipe
        try:
            command = _command(root, arguments)
            process = os.posix_spawnp(command[0], command, _environment(root, None), file_actions=streams)
        except OSError:
            return None
        finally:
            os.close(theirs)
        printed = output.read()
    _, status = os.waitpid(process, 0)
    return None if status else os.fsdecode(printed)


def ask_git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where it says no, which is exit 1: no such setting, no commit in common."""
    done = _run(root, arguments)
    if done.returncode not in (0, 1):
        raise _refusal(root, done)
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def git_or_none(root: Path, *arguments: str, also: Mapping[str, str] | None = None) -> str | None:
    """What git prints; None where it refuses for whatever reason. For callers to whom that is an answer."""
    done = _run(root, arguments, also)
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def complaint_of(root: Path, *arguments: str) -> str | None:
    """Run git for what it does; None where that went well, or else the line that says why it did not."""
    done = _run(root, arguments)
    return None if done.returncode == 0 else _reason(done)


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = os.fsdecode(done.stderr).strip().splitlines()
    why = [line for line in lines if line.startswith("fatal: ")][:1]  # what follows is general advice
    return (why or lines or [f"it ended with {done.returncode}"])[-1]


def _refusal(root: Path, done: subprocess.CompletedProcess[bytes]) -> EnvironmentFault:
    """Git's own words, and the way out: its own advice on ownership, or where to look."""
    advice = (line.strip() for line in os.fsdecode(done.stderr).splitlines())
    command = next((line for line in advice if line.startswith(_TRUST)), "")
    hint = f"if you trust what is in it, run: {command}"
    if not command:
        hint = _look(root, "status")
        if given := os.environ.get("GIT_DIR"):
            hint += f"; GIT_DIR is set, to {given}: unset it if it should not be"
    return EnvironmentFault(f"git refused, so nothing was checked: {_reason(done)}", hint=hint)


def unreadable(root: Path, blob: str) -> EnvironmentFault:
    """A content that git names and can't give."""
    return EnvironmentFault(f"git can't read {blob}, so nothing was checked", hint=_look(root, "fsck"))


def _look(root: Path, command: str) -> str:
    from onnx_ci.util.text import shell_word

    return f"run: git -C {shell_word(str(root))} {command}   and mend what it complains about"


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
    import subprocess

    return subprocess.Popen(
        _command(root, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(root, None),
    )


def _command(root: Path, arguments: Sequence[str]) -> list[str]:
    return ["git", "-C", str(root), "-c", "core.quotepath=off", *arguments]


def _environment(root: Path, also: Mapping[str, str] | None) -> dict[str, str]:
    """Nobody is there to answer a question. Where `.git` is no repository git would go on upward, and name
    the files of another one."""
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    here = {"GIT_CEILING_DIRECTORIES": str(root.absolute().parent)}
    environment = {**os.environ, **quiet, **here, **(also or {})}
    if "GIT_DIR" not in environment:
        environment.pop("GIT_WORK_TREE", None)  # files would be named from another folder than ours
    return environment


def _run(
    root: Path,
    arguments: Sequence[str],
    also: Mapping[str, str] | None = None,
    output: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    import subprocess

    try:
        return subprocess.run(
            _command(root, arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env=_environment(root, also),
            check=False,
        )
    except FileNotFoundError:
        raise EnvironmentFault(
            "git is not installed or not on the PATH", hint="install git, or name the models to check"
        ) from None


def split(output: str) -> list[str]:
    """The pieces of what git prints with -z."""
    return [piece for piece in output.split("\0") if piece]


def file_names(output: str) -> list[str]:
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
    """Whether there is a last commit: a branch that was just made has none. A broken one is no answer."""
    if commit_of(root, "HEAD") is not None:
        return True
    named = ask_git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    ask_git(root, "symbolic-ref", "--quiet", "HEAD")  # refuses where the file of a branch is garbage
    if named is not None:
        raise EnvironmentFault(
            f"git does not have the commit that HEAD names, so nothing was checked: {named.strip()}",
            hint=_look(root, "fsck"),
        )
    return False


def commit_of(root: Path, ref: str) -> str | None:
    """The commit a revision stands for, or None where git does not know it."""
    if ref.startswith("-"):
        return None
    asked = ("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    commit = _glance(root, asked) or git_or_none(root, *asked)
    if not commit:
        run_git(root, "rev-parse", "--git-dir")  # is it the revision, or does git refuse altogether?
        return None
    return commit.strip()


def remotes(root: Path) -> list[str]:
    """All remotes, `origin` first."""
    return sorted(run_git(root, "remote").splitlines(), key=lambda name: name != "origin")


def empty_tree(root: Path) -> str:
    return run_git(root, "hash-object", "-t", "tree", os.devnull).strip()


def shared_folder(root: Path) -> Path:
    """The folder of git's own that all worktrees of a repository have in common."""
    return root / run_git(root, "rev-parse", "--git-common-dir").rstrip("\n")


CHUNK = 1 << 20


class Objects:
    """The contents of one repository, by their names in git. Close it when done."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Another process asks a git of its own."""
        return Objects, (self.repository,)

    def size(self, blob: str) -> int:
        return self._number(self._ask("--batch-check=%(objectsize)", blob).readline(), blob)

    def copy(self, blob: str, target: IO[bytes]) -> None:
        """A content into a file, piece by piece: a model need not fit into memory."""
        answer = self._ask("--batch=%(objectsize)", blob)
        left = self._number(answer.readline(), blob)
        while left > 0:
            piece = answer.read(min(left, CHUNK))
            if not piece:
                raise unreadable(self.repository, blob)
            left -= target.write(piece)
        answer.read(1)  # each content ends with a line break

    def text(self, blob: str) -> str:
        """The content of a small file."""
        content = io.BytesIO()
        self.copy(blob, content)
        return os.fsdecode(content.getvalue())

    def pointer(self, blob: str) -> Pointer | None:
        """The pointer of Git LFS that a content is, if it is one."""
        return read_pointer(self.text(blob)) if self.size(blob) <= LARGEST else None

    def close(self) -> None:
        """Nothing is asked for a while; the next question starts git again."""
        import contextlib

        for process in self._running.values():
            with contextlib.suppress(BrokenPipeError):  # one that died has not read all
                process.communicate()
        self._running.clear()

    def _ask(self, how: str, blob: str) -> IO[bytes]:
        if how not in self._running:
            self._running[how] = start_git(self.repository, "cat-file", how)
        process = self._running[how]
        if process.stdin is None or process.stdout is None:
            raise ValueError("git was started without pipes")
        try:
            process.stdin.write(f"{blob}\n".encode())
            process.stdin.flush()
        except OSError:
            raise unreadable(self.repository, blob) from None
        return process.stdout

    def _number(self, line: bytes, blob: str) -> int:
        """The size git names; of what it does not have it says `… missing`, or nothing."""
        if not line.strip().isdigit():
            raise unreadable(self.repository, blob)
        return int(line)
