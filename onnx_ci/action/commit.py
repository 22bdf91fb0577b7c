"""Modes `commit` and `pull-request`: fix the models, commit what that changed, push it to the branch or as a
pull request, or say plainly why not."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_ci.action import comment, push
from onnx_ci.action.inputs import DEFAULT_KEY, Event, Inputs
from onnx_ci.action.push import NO_CHECKOUT, judged
from onnx_ci.action.reports import ActionResult
from onnx_ci.errors import ApiFault, EnvironmentFault, ModelError, UsageError
from onnx_ci.gate.project import judge_selection, open_context, select_models
from onnx_ci.model.replace import data_of
from onnx_ci.repo import git
from onnx_ci.repo.changes import changed_between, changed_since_head
from onnx_ci.repo.select import Wanted
from onnx_ci.results import Outcome, RunReport, gain
from onnx_ci.util.files import scratch_folder
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import one_line
from onnx_ci.version import __version__

OUTSIDE = "fixed in the work tree and left out of the commit, since the last commit does not have them"
_MOST_NAMED = 10
NO_NEW_RUN = (
    "pushed with the workflow's own token: GitHub starts no workflow for such a push, so required checks do"
    " not run on it; the input `token` takes another one"
)


PROPOSAL = """\
The models below can be smaller, and are so in this pull request. Each was run against its original, and
was put in place only because its outputs stay within what the policy allows.

"""
MAY_NOT = (
    "; the job needs `permissions: {contents: write, pull-requests: write}`, and the repository has to let"
    " workflows open pull requests (Settings, Actions, General)"
)
DECLINED = "the pull request with these very changes was closed, so it is not opened again"


def run_pull_request(inputs: Inputs, event: Event, root: Path | None, folder: Path) -> ActionResult:
    if event.is_pull:
        message = "mode pull-request makes one of its own, and this run is of a pull request"
        raise UsageError(message, hint="run it on a schedule; to change this one: mode: commit")
    if not (inputs.paths or inputs.since):
        inputs = replace(inputs, all=True)  # what is there already, not what was pushed last
    try:
        return _committing(inputs, event, root, folder).propose()
    except push.Refused as refusal:
        raise UsageError(str(refusal)) from None


def run_commit(inputs: Inputs, event: Event, root: Path | None, folder: Path) -> ActionResult:
    return _committing(inputs, event, root, folder).run()


def _committing(inputs: Inputs, event: Event, root: Path | None, folder: Path) -> Committing:
    if root is None:
        message = f"mode {inputs.mode} needs a git repository, and there is none here"
        raise UsageError(message, hint=NO_CHECKOUT)
    push.require_git(root)
    return Committing(inputs=inputs, event=event, root=root, folder=folder)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Models that were fixed: the report, the files that changed, and the commit that they were fixed on."""

    report: RunReport
    names: tuple[str, ...]
    outside: tuple[str, ...]  # models that were fixed and are not for us to commit
    base: str


@dataclass(frozen=True, kw_only=True)
class Committing:
    """What stays the same however often it has to be done."""

    inputs: Inputs
    event: Event
    root: Path
    folder: Path  # where the report goes, and the patch

    def run(self) -> ActionResult:
        try:
            branch = push.branch_of(self.event, self.root)
            with push.signed_in(self.inputs.token):
                push.take(branch, self.event)
        except push.Refused as refusal:
            return self._result(self._fix(), refused=str(refusal))
        fixed, commit, attempts = self._fix(), "", self.inputs.push_attempts
        try:
            for attempt in range(attempts):
                if attempt:
                    # Others pushed: the same on top of theirs, or anew where they changed what it is about.
                    commit = self._rebase(branch, fixed)
                    tip = git.commit_of(self.root, branch.tracking) or ""
                    fixed = replace(fixed, base=tip) if commit else self._fix()
                if not fixed.names:
                    return self._result(fixed)
                commit = commit or self._commit(branch, fixed)
                with push.signed_in(self.inputs.token):
                    if push.push(branch, fixed.names, self.event):
                        return self._result(fixed, commit=commit)
            raise push.Refused(f"the branch {branch.name} has moved at each of {attempts} attempts to push")
        except push.Refused as refusal:
            return self._result(fixed, refused=str(refusal))

    def propose(self) -> ActionResult:
        """The same as a pull request: one commit on a branch of its own, made anew when there is more."""
        base = push.branch_of(self.event, self.root)
        fixed = self._fix()
        if not fixed.names:
            return self._result(fixed)
        try:
            commit = self._push_apart(base, fixed)
            return self._result(fixed, commit=commit, pull=self._pull(base.name, commit, fixed))
        except push.Refused as refusal:
            return self._result(fixed, refused=str(refusal))
        except ApiFault as fault:
            why = f"the branch {self.inputs.branch} was pushed, but not its pull request: {fault.message}"
            return self._result(fixed, refused=why + (MAY_NOT if fault.status in (401, 403, 404) else ""))

    def _push_apart(self, base: push.Branch, fixed: Fixed) -> str:
        """The commit on the branch of the pull request; one that is there already and says the same stays."""
        branch = push.Branch(root=self.root, name=self.inputs.branch)
        wrong_name = git.ask_git(self.root, "check-ref-format", branch.ref) is None
        if wrong_name or branch.name in (base.name, "") or branch.name.startswith("-"):
            raise UsageError(
                f"input 'branch': found {branch.name!r}, expected a branch of its own for the pull request",
                hint="in the workflow: branch: onnx-ci/shrink",
            )
        with push.signed_in(self.inputs.token):
            tip = branch.tip()
            if tip and branch.fetch() is None and not _is_ours(branch, tip):
                words = "has commits of others on top, which would be lost: merge or delete it"
                raise push.Refused(f"the branch {branch.name} {words}")
        _do(self.root, "checkout", "--quiet", "--detach")  # the branch that is checked out stays where it is
        commit = self._commit(base, fixed)
        if tip and _is_same(self.root, tip, commit):
            return tip
        with push.signed_in(self.inputs.token):
            if not push.send(branch, fixed.names, tip):
                raise push.Refused(
                    f"the branch {branch.name} was pushed to meanwhile; the next run tries again"
                )
        return commit

    def _pull(self, base: str, commit: str, fixed: Fixed) -> int:
        inside = [outcome for outcome in fixed.report.outcomes if outcome.file not in fixed.outside]
        title = commit_message(self.inputs.commit_message, inside).partition("\n")[0]
        body = comment.body(_after_commit(fixed), self.event, self.inputs.comment or DEFAULT_KEY, PROPOSAL)
        api = comment.api_of(self.inputs, self.event)
        number = api.open_pull(self.inputs.branch, base)
        if number:
            api.change_pull(number, body)
        elif not api.was_closed(self.inputs.branch, commit):
            number = api.create_pull(branch=self.inputs.branch, base=base, title=title, body=body)
        return number

    def _result(self, fixed: Fixed, *, commit: str = "", refused: str = "", pull: int = 0) -> ActionResult:
        """Nothing to commit is nothing to refuse. Otherwise the patch is what is left of the work."""
        notes = []
        if fixed.outside:
            more = ", …" if len(fixed.outside) > _MOST_NAMED else ""
            notes.append(f"{OUTSIDE}: {', '.join(fixed.outside[:_MOST_NAMED])}{more}")
        if commit and not self.inputs.own_token:
            notes.append(NO_NEW_RUN)
        if commit and self.inputs.mode == "pull-request" and not pull:
            notes.append(DECLINED)
        if refused and fixed.names:
            keep_patch(self.root, fixed.names, fixed.base, self.folder)
            refused += f". The changes are in {PATCH} of this run's artifact: git apply {PATCH}"
        return ActionResult(
            report=_after_commit(fixed) if commit else fixed.report,
            changed=bool(fixed.names or fixed.outside),
            commit=commit,
            pull=pull,
            refused=refused if fixed.names else "",
            notes=tuple(notes),
        )

    def _fix(self) -> Fixed:
        before = work_tree(self.root)
        report = judged("fix", self.inputs, self.event)
        after = work_tree(self.root)
        # What an earlier step left in the work tree stays there.
        changed = sorted(name for name in after if name not in before or before[name] != after[name])
        models = [outcome.file for outcome in report.outcomes if outcome.written and outcome.file in changed]
        names, outside = of_models_in_git(self.root, changed, models)
        base = git.commit_of(self.root, "HEAD") or ""
        return Fixed(report=report, names=tuple(names), outside=tuple(outside), base=base)

    def _commit(self, branch: push.Branch, fixed: Fixed) -> str:
        with push.signed_in(self.inputs.token):
            refuse_own_changes(branch, fixed.names)
        stage(self.root, fixed.names)
        problem = problem_with(self.root, fixed.names, fixed.report, self.inputs.policy)
        if problem:
            unstage(self.root, fixed.names)
            raise push.Refused(problem)
        inside = [outcome for outcome in fixed.report.outcomes if outcome.file not in fixed.outside]
        commit(self.root, fixed.names, commit_message(self.inputs.commit_message, inside))
        return git.commit_of(self.root, "HEAD") or ""

    def _rebase(self, branch: push.Branch, fixed: Fixed) -> str:
        """The commit on top of what others pushed; empty where the models are to be fixed anew."""
        with push.signed_in(self.inputs.token):
            complaint = branch.fetch()
        if complaint is not None:
            raise push.Refused(f"the branch {branch.name} can't be fetched: {complaint}")
        return push.catch_up(branch, fixed.base, fixed.names)


def _after_commit(fixed: Fixed) -> RunReport:
    """What a fix leaves to be staged is in the commit by then; not so for models that stay out."""
    outcomes = []
    for outcome in fixed.report.outcomes:
        left = tuple(finding for finding in outcome.findings if finding.code != "OCI029")
        outcomes.append(outcome if outcome.file in fixed.outside else replace(outcome, findings=left))
    return replace(fixed.report, outcomes=tuple(outcomes))


TRAILER = "Shrunk-by"
_MOST_MODELS = 100  # models that are named
# What GitHub or another service acts on wherever it stands: people, issues, links, [skip ci], ***NO_CI***.
_CALLS = re.compile(r"[@#\[]|\bgh-(?=\d)|:(?=//)|\*(?=\*)|\bwww(?=\.)", re.IGNORECASE)
_APART = "\u200b"  # a space of no width


def commit_message(first: str, outcomes: Iterable[Outcome]) -> str:
    """`{models}` and `{saved}` in the first part stand for how many models and how many bytes."""
    written = [outcome for outcome in outcomes if outcome.written]
    before = sum(o.before.size for o in written if o.before)
    after = sum(o.after.size for o in written if o.after)
    saved = format_size(max(0, before - after))
    lines = [first.replace("{models}", str(len(written))).replace("{saved}", saved), ""]
    for outcome in written[:_MOST_MODELS]:
        lines += _lines(outcome)
    if len(written) > _MOST_MODELS:
        lines.append(f"and {len(written) - _MOST_MODELS} more")
    if len(written) > 1:
        lines += ["", f"{len(written)} models together: {_change(before, after)}"]
    return "\n".join([*lines, "", f"{TRAILER}: onnx-ci {__version__}", ""])


def is_our_own(message: str) -> bool:
    """Whether a commit was made by us: the mark is in its last paragraph."""
    last = message.rstrip().rsplit("\n\n", 1)[-1]
    return any(line.startswith(f"{TRAILER}: onnx-ci ") for line in last.splitlines())


def _lines(outcome: Outcome) -> Iterator[str]:
    """Names are on one line, whatever is in them: nobody writes a mark of ours with a file name."""
    methods = ", ".join(dict.fromkeys(step.method for step in outcome.steps if step.kept))
    saving = ""
    if outcome.before and outcome.after:
        kind, before, after = gain(outcome.before, outcome.after)
        saving = _change(before, after) + ("" if kind == "size" else f" ({kind})")
    yield f"- {_inert(outcome.file or outcome.path)}: {saving}{f' with {methods}' if methods else ''}"
    for finding in outcome.findings:
        if finding.code == "OCI021":  # data that stays: git has it as before, whatever the model saves
            yield f"  {_inert(finding.message)}"


def _inert(text: str) -> str:
    """A name is shown, and calls nobody, closes nothing and skips no workflow."""
    return _CALLS.sub(lambda call: f"{call[0]}{_APART}", one_line(text))


def _change(before: int, after: int) -> str:
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{format_size(before)} -> {format_size(after)}{share}"


PATCH = "changes.patch"
# Not readable, a pointer without content, data that is missing, content that git would change.
_BROKEN = ("OCI006", "OCI007", "OCI012", "OCI028")


def stage(root: Path, names: Sequence[str]) -> None:
    _do(root, "add", "--all", "--", *names)


def unstage(root: Path, names: Sequence[str]) -> None:
    git.git_or_none(root, "reset", "--quiet", "--", *names, also=git.LITERAL)


def commit(root: Path, names: Sequence[str], message: str) -> None:
    """These files alone, whatever else is staged; signed where the runner's git is set up for it."""
    with scratch_folder() as folder:
        file = folder / "message"
        file.write_text(message, encoding="utf-8", errors="backslashreplace")
        with push.git_settings(push.identity(root)):
            _do(root, "commit", "--quiet", "--only", "--file", str(file), "--", *names)


def problem_with(root: Path, names: Sequence[str], report: RunReport, policy: str) -> str:
    """Why what is staged must not be committed: a model would lack its data, or not be what was proven."""
    kept = push.kept_by_lfs(root, names)
    plain = sorted(set(kept) - set(push.staged_objects(root, kept)))
    if plain:
        return f"{plain[0]} belongs to Git LFS, which is not installed here: git would add it as it is"
    models = [outcome.file for outcome in report.outcomes if outcome.written and outcome.file in names]
    if not models:
        return ""
    context = open_context(policy or None)
    wanted = Wanted(paths=[str(root / model) for model in models], staged=True)
    staged = judge_selection("check", context, select_models(context, wanted))
    findings = (finding for outcome in staged.outcomes for finding in outcome.findings)
    return next((f.message for f in findings if f.code in _BROKEN and f.severity == "error"), "")


def keep_patch(root: Path, names: Sequence[str], base: str, folder: Path) -> None:
    """What would have been committed, for `git apply`. Of files in Git LFS a patch holds pointers, so these
    files are kept beside it."""
    stage(root, names)
    words = ("--cached", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", base)
    if not git.git_into(folder / PATCH, root, "--literal-pathspecs", "diff", *words, "--", *names):
        raise EnvironmentFault("git could not make a patch of the changes", hint="nothing was pushed")
    for name in push.kept_by_lfs(root, names):
        target = folder / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
    unstage(root, names)


def _do(root: Path, *arguments: str) -> None:
    done, output = git.try_git(root, *arguments, also=git.LITERAL)
    if not done:
        last = (output.strip().splitlines() or ["it did not say why"])[-1]
        raise EnvironmentFault(f"git {arguments[0]} failed: {last}", hint="nothing was pushed")


def work_tree(root: Path) -> dict[str, tuple[int, int, int] | None]:
    """The files that differ from the last commit, and what they are at this moment."""
    states: dict[str, tuple[int, int, int] | None] = {}
    for name in changed_since_head(root) or ():
        try:
            status = (root / name).lstat()
            states[name] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError:
            states[name] = None
    return states


def of_models_in_git(root: Path, names: Sequence[str], models: Sequence[str]) -> tuple[list[str], list[str]]:
    """The changed files that may be committed, and the models that stay out since the last commit does not
    have them: what an earlier step downloaded or built is nobody's commit, nor is its data."""
    committed_models = _in_last_commit(root, models)
    outside = [model for model in models if model not in committed_models]
    ours = _data(root, committed_models)
    theirs = {*outside, *_data(root, outside)} - ours
    allowed = (_in_last_commit(root, names) | ours) - theirs
    return [name for name in names if name in allowed], outside


def _in_last_commit(root: Path, names: Sequence[str]) -> set[str]:
    return set(git.ask_in_parts(root, "ls-tree", "-z", "--name-only", "--full-tree", "HEAD", names=names))


def _data(root: Path, models: Iterable[str]) -> set[str]:
    files: set[Path] = set()
    for model in models:
        # What was changed by somebody else meanwhile is told when what is staged is looked at.
        with contextlib.suppress(ModelError):
            files |= {(root / model).parent.joinpath(name) for name in data_of(root / model)}
    return {path.relative_to(root).as_posix() for path in files}


_MOST_COMMITS = 20  # commits of ours, one on top of the other


def refuse_own_changes(branch: push.Branch, names: Sequence[str]) -> None:
    """Refuse to commit files once more. What others have pushed below a commit of ours is still to be fixed;
    only what our own last commits changed has to stay as it is."""
    commit = git.commit_of(branch.root, "HEAD") or ""
    for _ in range(_MOST_COMMITS):
        if not _is_ours(branch, commit):
            return
        parent = _parent(branch, commit)
        if not parent:
            raise push.Refused("the last commit is one of our own, and it can't be seen what it changed")
        again = sorted({*names} & {*changed_between(branch.root, parent, commit)})
        if again:
            raise push.Refused(
                f"{again[0]} was changed by the last commit, one of our own, and would change once more"
            )
        commit = parent
    raise push.Refused(f"the last {_MOST_COMMITS} commits are our own")


def _is_ours(branch: push.Branch, commit: str) -> bool:
    """By the mark and by the author: a squashed pull request has our mark too, and is somebody else's."""
    address, _, message = git.run_git(branch.root, "log", "-1", "--format=%ae%n%B", commit).partition("\n")
    with push.git_settings(push.identity(branch.root)):
        ours = git.git_or_none(branch.root, "var", "GIT_AUTHOR_IDENT") or ""
    return is_our_own(message) and f"<{address}>" in ours


def _is_same(root: Path, first: str, second: str) -> bool:
    """Whether two commits make the same of the same."""
    trees = {git.run_git(root, "rev-parse", f"{commit}^{{tree}}").strip() for commit in (first, second)}
    return len(trees) == 1 and push.parents_of(root, first) == push.parents_of(root, second)


def _parent(branch: push.Branch, commit: str) -> str:
    """The commit before, fetched where the clone ends here; empty where there is none to be had."""
    parent = next(iter(push.parents_of(branch.root, commit)), "")
    if parent and git.commit_of(branch.root, parent) is None:
        git.complaint_of(
            branch.root, "fetch", "--quiet", "--no-tags", f"--deepen={_MOST_COMMITS}", push.REMOTE, branch.ref
        )
    return (git.commit_of(branch.root, parent) or "") if parent else ""
