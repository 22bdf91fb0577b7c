"""The gate as a workflow runs it: which models the event is about, judged by their policies."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from onnx_ci.action.inputs import Event, Inputs
from onnx_ci.action.push import checked_out, parents_of, signed_in
from onnx_ci.errors import UsageError
from onnx_ci.gate.project import Context, Judging, judge_selection, open_context, select_models
from onnx_ci.repo.changes import merge_base
from onnx_ci.repo.git import commit_of
from onnx_ci.repo.select import Selection, Wanted
from onnx_ci.results import Command, RunReport

NO_CHECKOUT = (
    "check it out in an earlier step (uses: actions/checkout), or name models in the input paths; with"
    " `path` of the checkout it is in a folder below: name its policy in the input policy"
)


def judged(command: Command, inputs: Inputs, event: Event) -> RunReport:
    """What `onnx-ci check` or `fix` would find; the token is there only where something may be fetched."""
    context = open_context(inputs.policy or None)
    with signed_in(inputs.token):
        selection = _selection(context, inputs, event)
    if event.name == "push" and not inputs.since:
        context.base = ""  # what is pushed was reviewed before, or needs no review
    judging = Judging(cache=inputs.cache, policy_from=inputs.policy_from)
    fetches = context.checked.policy().lfs.missing == "fetch"
    with signed_in(inputs.token if fetches else ""):
        report = judge_selection(command, context, selection, judging)
    return replace(report, outcomes=tuple(outcome.told_to("workflow") for outcome in report.outcomes))


def _selection(context: Context, inputs: Inputs, event: Event) -> Selection:
    """What was asked for; or what the event is about; or all, where that can't be known."""
    if inputs.paths or inputs.since or inputs.all:
        return select_models(context, Wanted(paths=inputs.paths, since=inputs.since, everything=inputs.all))
    if context.repository is None:
        raise UsageError("there is no git repository here", hint=NO_CHECKOUT)
    if not event.since:
        return select_models(context, Wanted(everything=event.everything))
    try:
        return select_models(context, Wanted(since=event.since))
    except UsageError as error:  # a branch that was pushed by force: what was there before may be gone
        selection = select_models(context, Wanted(everything=True))
        note = f"all models are looked at, since the commit before can't be had: {error.message}"
        return Selection(models=selection.models, base=selection.base, note=note)


def refuse_other_checkout(event: Event, root: Path) -> None:
    """A pull request is judged by its own models. Those of the branch it is to go to, which is what a
    checkout gives for `pull_request_target`, would always be found in order."""
    head = event.text("pull_request", "head", "sha")
    if not re.fullmatch(r"[0-9a-f]{40,64}", head) or _has(event, head, root):
        return
    here = (commit_of(root, "HEAD") or "nothing")[:12]
    branch = checked_out(root) or "no branch"
    raise UsageError(
        f"the commit {head[:12]} of the pull request is not in what is checked out ({here}, {branch}),"
        " so its models can't be judged",
        hint="on `pull_request`, leave `ref` of actions/checkout away, or set it to ${{ github.head_ref }};"
        " `pull_request_target` checks out the branch that the pull request is to go to: use `pull_request`",
    )


def _has(event: Event, head: str, root: Path) -> bool:
    at = commit_of(root, "HEAD")
    accepted = [head, event.text("pull_request", "merge_commit_sha")]
    if event.name != "pull_request_target":  # there it is the commit of the base
        accepted.append(event.sha)
    if at in accepted or head in parents_of(root):
        return True
    if not event.is_fork and checked_out(root) == event.branch:  # pushed to since, perhaps by force
        return True
    try:
        return merge_base(root, head) == head
    except UsageError:  # it can't even be fetched
        return False
