"""Changed files to a commit of their own, after a look at what git made of them; or to a patch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from onnx_ci.entry.context import open_context
from onnx_ci.entry.gate import judge_selection, select_models
from onnx_ci.entry.github.git_settings import git_settings, identity
from onnx_ci.entry.github.lfs_objects import kept_by_lfs, staged_objects
from onnx_ci.errors import EnvironmentFault
from onnx_ci.results import RunReport
from onnx_ci.scratch import scratch_folder
from onnx_ci.targets.git import LITERAL, git_into, git_or_none, try_git
from onnx_ci.targets.select import Wanted

PATCH = "changes.patch"
# Not readable, a pointer without content, data that is missing, content that git would change.
_BROKEN = ("OCI006", "OCI007", "OCI012", "OCI028")


def stage(root: Path, names: Sequence[str]) -> None:
    _do(root, "add", "--all", "--", *names)


def unstage(root: Path, names: Sequence[str]) -> None:
    git_or_none(root, "reset", "--quiet", "--", *names, also=LITERAL)


def commit(root: Path, names: Sequence[str], message: str) -> None:
    """These files alone, whatever else is staged; signed where the runner's git is set up for it."""
    with scratch_folder() as folder:
        file = folder / "message"
        file.write_text(message, encoding="utf-8", errors="backslashreplace")
        with git_settings(identity(root)):
            _do(root, "commit", "--quiet", "--only", "--file", str(file), "--", *names)


def problem_with(root: Path, names: Sequence[str], report: RunReport, policy: str) -> str:
    """Why what is staged must not be committed: a model would lack its data, or not be what was proven."""
    kept = kept_by_lfs(root, names)
    plain = sorted(set(kept) - set(staged_objects(root, kept)))
    if plain:
        return f"{plain[0]} belongs to Git LFS, which is not installed here: git would add it as it is"
    models = [outcome.file for outcome in report.outcomes if outcome.written and outcome.file in names]
    if not models:
        return ""
    context = open_context(policy or None)
    wanted = Wanted(paths=[str(root / model) for model in models], staged=True)
    staged = judge_selection("check", context, select_models(context, wanted))
    found = (finding for outcome in staged.outcomes for finding in outcome.findings)
    return next((f.message for f in found if f.code in _BROKEN and f.severity == "error"), "")


def keep_patch(root: Path, names: Sequence[str], base: str, folder: Path) -> None:
    """What would have been committed, for `git apply`. Of files in Git LFS a patch holds pointers, so these
    files are kept beside it."""
    stage(root, names)
    words = ("--cached", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", base)
    if not git_into(folder / PATCH, root, "--literal-pathspecs", "diff", *words, "--", *names):
        raise EnvironmentFault("git could not make a patch of the changes", hint="nothing was pushed")
    for name in kept_by_lfs(root, names):
        target = folder / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
    unstage(root, names)


def _do(root: Path, *arguments: str) -> None:
    done, said = try_git(root, *arguments, also=LITERAL)
    if not done:
        last = (said.strip().splitlines() or ["it did not say why"])[-1]
        raise EnvironmentFault(f"git {arguments[0]} failed: {last}", hint="nothing was pushed")
