"""Which files differ: from a commit, between two, or staged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnx_ci.targets.git import LITERAL, empty_tree, file_names, has_commits, run_git, split

MODELS = (":(icase)*.onnx", ":(icase)*.onnx.dvc")
# Far below git's own 50%: a model that grew to four times its size is still the same model.
_PAIRED = ("--name-status", "-z", "-M20%", "-l0")


def changed_since_head(root: Path) -> list[str] | None:
    """Files that differ from HEAD, new and deleted ones too, in one call; None where there is no commit."""
    output = run_git(
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
    changed = run_git(root, "diff", "--name-only", "-z", "--no-renames", base, "--")
    new = run_git(root, "ls-files", "-z", "--others", "--exclude-standard")
    return sorted({*file_names(changed), *file_names(new)})


def changed_between(root: Path, base: str, commit: str) -> list[str]:
    return file_names(run_git(root, "diff", "--name-only", "-z", "--no-renames", base, commit, "--"))


def staged(root: Path) -> list[str]:
    base = "HEAD" if has_commits(root) else empty_tree(root)
    return file_names(run_git(root, "diff", "--cached", "--name-only", "-z", "--no-renames", base))


def known_files(root: Path, patterns: Sequence[str]) -> list[str]:
    """Tracked and new files (ignored ones not) that match git pathspecs."""
    output = run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    return sorted(set(file_names(output)))


def renamed_since(root: Path, base: str, *, staged: bool = False, commit: str = "") -> dict[str, str]:
    """New names of models to the names they had in a commit; work tree, index or commit against it."""
    if staged or commit:
        side = [base, commit] if commit else ["--cached", base]
        return _renames(run_git(root, "diff", *_PAIRED, *side, "--", *MODELS))
    new = run_git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *MODELS)
    return _renames_with_new(root, base, file_names(new))


def _renames_with_new(root: Path, base: str, new: Sequence[str]) -> dict[str, str]:
    """Git pairs only what it knows: new files are made known in a copy of the index."""
    import shutil

    from onnx_ci.scratch import scratch_folder

    place = run_git(root, "rev-parse", "--git-path", "index").rstrip("\n")
    with scratch_folder() as folder:
        copy = folder / "index"
        if (root / place).is_file():
            shutil.copyfile(root / place, copy)
        index = {"GIT_INDEX_FILE": str(copy)}
        if new:
            run_git(root, "add", "--intent-to-add", "--", *new, also={**LITERAL, **index})
        return _renames(run_git(root, "diff", *_PAIRED, base, "--", *MODELS, also=index))


def _renames(output: str) -> dict[str, str]:
    found = iter(split(output))
    renames = {}
    for status in found:
        name = next(found)
        if status[0] in "RC":
            renames[next(found)] = name
    return renames
