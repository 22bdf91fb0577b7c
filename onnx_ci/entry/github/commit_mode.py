"""Mode `commit`: fix the models, commit what that changed, and push it, or say plainly why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from onnx_ci.entry.github.branch import Branch, branch_of, gone, refusal, take
from onnx_ci.entry.github.changed import changed_files, of_models_in_git, work_tree
from onnx_ci.entry.github.event import Event
from onnx_ci.entry.github.fixed import Fixed
from onnx_ci.entry.github.git_settings import credentials, git_settings, require_git
from onnx_ci.entry.github.inputs import Inputs
from onnx_ci.entry.github.judged import NO_CHECKOUT, judged
from onnx_ci.entry.github.message import commit_message
from onnx_ci.entry.github.own_commits import changed_again
from onnx_ci.entry.github.push import push
from onnx_ci.entry.github.staging import PATCH, commit, keep_patch, problem_with, stage, unstage
from onnx_ci.entry.github.tell import Told
from onnx_ci.entry.github.upstream import catch_up
from onnx_ci.errors import UsageError
from onnx_ci.targets.git import commit_of, find_root

NO_NEW_RUN = (
    "pushed with the workflow's own token: GitHub starts no workflow for such a push, so required checks do"
    " not run on it; the input `token` takes another one"
)


@dataclass(frozen=True, kw_only=True)
class Committing:
    """What stays the same however often it has to be done."""

    inputs: Inputs
    event: Event
    root: Path
    folder: Path  # where the report goes, and the patch

    def run(self) -> Told:
        reason = refusal(self.event, self.root)
        if reason:
            return self._refused(self._fix(), reason)
        branch = branch_of(self.event, self.root)
        with git_settings(credentials(self.inputs.token)):
            is_gone = branch.is_gone(self.event, branch.tip())
            if not is_gone:
                take(branch)
        if is_gone:
            return self._refused(self._fix(), gone(branch.name))
        return self._push(branch, self._commit(branch))

    def _fix(self) -> Fixed:
        before = work_tree(self.root)
        report = judged("fix", self.inputs, self.event)
        changed = changed_files(before, work_tree(self.root))
        models = [outcome.file for outcome in report.outcomes if outcome.written and outcome.file in changed]
        names, outside = of_models_in_git(self.root, changed, models)
        base = commit_of(self.root, "HEAD") or ""
        return Fixed(report=report, names=tuple(names), outside=tuple(outside), base=base)

    def _commit(self, branch: Branch) -> Fixed:
        """Fix, and commit what that changed, if it changed anything."""
        fixed = self._fix()
        if not fixed.names:
            return fixed
        with git_settings(credentials(self.inputs.token)):
            again = changed_again(branch, fixed.names)
        if again:
            return replace(fixed, refused=again)
        stage(self.root, fixed.names)
        problem = problem_with(self.root, fixed.names, fixed.report, self.inputs.policy)
        if problem:
            unstage(self.root, fixed.names)
            return replace(fixed, refused=problem)
        commit(self.root, fixed.names, commit_message(self.inputs.commit_message, fixed.committed))
        return replace(fixed, commit=commit_of(self.root, "HEAD") or "")

    def _push(self, branch: Branch, fixed: Fixed) -> Told:
        for attempt in range(1, self.inputs.push_attempts + 1):
            if not fixed.commit:
                return self._refused(fixed, fixed.refused) if fixed.refused else fixed.told()
            with git_settings(credentials(self.inputs.token)):
                pushed = push(branch, fixed.names, self.event)
            if pushed.done:
                notes = () if self.inputs.own_token else (NO_NEW_RUN,)
                done = replace(fixed, report=fixed.after_commit)
                return replace(done.told(*notes), commit=fixed.commit)
            if not pushed.moved:
                return self._refused(fixed, pushed.refused)
            if attempt < self.inputs.push_attempts:
                fixed = self._again(branch, fixed)
        moved = f"the branch {branch.name} has moved at each of {self.inputs.push_attempts} attempts to push"
        return self._refused(fixed, moved)

    def _again(self, branch: Branch, fixed: Fixed) -> Fixed:
        """After others pushed: the same on top of theirs, or anew where they changed what it is about."""
        with git_settings(credentials(self.inputs.token)):
            complaint = branch.fetch()
        if complaint is not None:
            return replace(
                fixed, commit="", refused=f"the branch {branch.name} can't be fetched: {complaint}"
            )
        rebased = catch_up(branch, fixed.base, fixed.names)
        if not rebased:
            return self._commit(branch)
        return replace(fixed, base=commit_of(self.root, branch.tracking) or "", commit=rebased)

    def _refused(self, fixed: Fixed, reason: str) -> Told:
        """Nothing to commit is nothing to refuse. Otherwise the patch is what is left of the work."""
        if not fixed.names:
            return fixed.told()
        keep_patch(self.root, fixed.names, fixed.base, self.folder)
        told = f"{reason}. The changes are in {PATCH} of this run's artifact: git apply {PATCH}"
        return replace(fixed.told(), refused=told)


def run_commit(inputs: Inputs, event: Event, here: Path, folder: Path) -> Told:
    root = find_root(here)
    if root is None:
        raise UsageError("mode commit needs a git repository, and there is none here", hint=NO_CHECKOUT)
    require_git(root)
    return Committing(inputs=inputs, event=event, root=root, folder=folder).run()
