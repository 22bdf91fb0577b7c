"""What a workflow asks of git and of the gate: the models an event is about, judged by their policies, and
commits that are made and pushed."""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from onnx_ci.action.inputs import Event, Inputs
from onnx_ci.errors import EnvironmentFault, UsageError
from onnx_ci.gate.project import Context, Judging, judge_selection, open_context, select_models
from onnx_ci.policy.load import FILE_NAMES
from onnx_ci.repo.changes import changed_between, is_shallow, merge_base
from onnx_ci.repo.git import ask_git, ask_in_parts, commit_of, complaint_of, git_or_none, run_git, try_git
from onnx_ci.repo.select import Selection, Wanted
from onnx_ci.repo.tree import Tree
from onnx_ci.results import Command, RunReport
from onnx_ci.util.text import one_line

REMOTE = "origin"


class Refused(Exception):
    """Why nothing can be committed or pushed; trying again would not help."""


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
        listing = git_or_none(self.root, "ls-remote", REMOTE, self.ref)
        return None if listing is None else listing.partition("\t")[0].strip()

    def refuse_gone(self, event: Event, tip: str | None) -> None:
        """Refuse where the remote had it, and has it no more. One that was made in this job is only new."""
        was_there = self.name == event.branch or commit_of(self.root, self.tracking) is not None
        if was_there and tip == "":
            raise Refused(
                f"the branch {self.name} is not there any more: it was deleted, perhaps after a merge"
            )


def parents_of(root: Path, commit: str = "HEAD") -> list[str]:
    """As the commit itself names them: a shallow clone pretends that there are none."""
    top = (git_or_none(root, "cat-file", "commit", commit) or "").partition("\n\n")[0]
    return [line.removeprefix("parent ") for line in top.splitlines() if line.startswith("parent ")]


def checked_out(root: Path) -> str:
    """The name of the branch that is checked out; empty where HEAD is detached."""
    return (ask_git(root, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip()


def branch_of(event: Event, root: Path) -> Branch:
    """The branch that is checked out, or else the one that the event is about, if it may be committed to."""
    here = checked_out(root)
    if event.is_fork:
        raise Refused("the branch is in a fork, where this workflow may not write")
    if event.name == "merge_group":
        raise Refused(
            "this is a merge queue: its branch is merged as it is, and a commit would not get anywhere"
        )
    if event.ref.startswith("refs/tags/") and not here:
        tag = event.ref.removeprefix("refs/tags/")
        raise Refused(f"this run is for the tag {tag}, and a tag stays what it is")
    if here == event.base != event.branch and event.base:
        about = f"this run is about {event.branch}: set `ref` of the checkout"
        raise Refused(f"{event.base} is checked out, and {about}")
    # What is checked out may stand for the event's branch: its commit, or a merge made for it.
    belongs = event.branch and (event.is_pull or commit_of(root, "HEAD") in (event.sha, event.head))
    if not here and not belongs:
        raise Refused(
            "no branch is checked out (HEAD is detached), and the event names none: set `ref` of the checkout"
        )
    name = here or event.branch
    if name.startswith("-") or ask_git(root, "check-ref-format", f"refs/heads/{name}") is None:
        raise UsageError(f"the event names a branch {name!r}, which can't be the name of one")
    return Branch(root=root, name=name)


def take(branch: Branch, event: Event) -> None:
    """Be on the branch. A pull request is checked out as a merge on no branch: its head is fetched then."""
    branch.refuse_gone(event, branch.tip())
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


def kept_by_lfs(root: Path, names: Sequence[str]) -> list[str]:
    """The files that .gitattributes gives to Git LFS; those that are gone need nothing."""
    fields = ask_in_parts(root, "check-attr", "-z", "filter", names=names)
    filters = zip(fields[::3], fields[2::3], strict=True)
    return [name for name, value in filters if value == "lfs" and (root / name).exists()]


def staged_objects(root: Path, names: Sequence[str]) -> dict[str, str]:
    """The files among these that are staged as pointers, with the name of the content each stands for."""
    objects = {}
    tree = Tree(root)
    with contextlib.closing(tree.objects):
        tree.look_up(names)
        for name in names:
            entry = tree.entry(name)
            pointer = None if entry is None else tree.objects.pointer(entry.blob)
            if pointer is not None:
                objects[name] = pointer.digest
    return objects


# What git, or GitHub, says of a push that did not go through, and what that means; nothing: the branch moved.
_REFUSALS = (
    (
        r"GH006|GH013|protected branch|rule violations",
        "the branch {branch} is protected, and this token may not push to it ({said})",
    ),
    ("hook declined", "the repository does not take this push ({said})"),
    (r"\[rejected\]|fetch first|non-fast-forward|cannot lock ref|\bstale info\b", ""),
    (
        r"\b40[13]\b|permission .* denied|write access .* not granted|authentication failed"
        r"|could not read username|resource not accessible",
        "the token may not write to this repository: the job needs `permissions: contents: write` ({said})",
    ),
    ("", "git push failed: {said}"),
)
_LONGEST = 300


def push(branch: Branch, names: Sequence[str], event: Event) -> bool:
    """Only onto the very tip that our commit was made for: a branch that goes away is not made anew. False
    where the branch has commits that we do not have."""
    tip = branch.tip()
    branch.refuse_gone(event, tip)
    if tip and not _is_below(branch, tip):
        return False
    return send(branch, names, tip)


def send(branch: Branch, names: Sequence[str], tip: str | None) -> bool:
    """Put our commit in the place of the tip, or of nothing where that is empty; None: of whatever is there.
    False where the branch is elsewhere by now."""
    # The contents themselves: the hook that would send them is not there in every clone.
    objects = staged_objects(branch.root, kept_by_lfs(branch.root, names)).values()
    if objects:
        send = ("lfs", "push", "--object-id", REMOTE, *dict.fromkeys(objects))
        complaint = complaint_of(branch.root, *send)
        if complaint is not None:
            raise Refused(f"Git LFS could not send the models: {_short(complaint)}")
    expected = () if tip is None else (f"--force-with-lease={branch.ref}:{tip}",)
    done, output = try_git(branch.root, "push", "--porcelain", *expected, REMOTE, f"HEAD:{branch.ref}")
    if done:
        return True
    meaning = next(text for sign, text in _REFUSALS if re.search(sign, output, re.IGNORECASE))
    if meaning:
        raise Refused(meaning.format(branch=branch.name, said=_reason(output)))
    return False


def _is_below(branch: Branch, tip: str) -> bool:
    """Whether our commit has the tip below it: with a lease git itself would not ask."""
    is_here = commit_of(branch.root, tip) is not None
    return is_here and ask_git(branch.root, "merge-base", "--is-ancestor", tip, "HEAD") is not None


def _reason(output: str) -> str:
    """The line that says most: an error of the other side, or else git's own."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    remote = [line for line in lines if re.match(r"remote: .*\w", line)]
    local = [line for line in lines if line.startswith(("fatal:", "error:", "!"))]
    likely = remote or local
    errors = [line for line in likely if "error" in line.lower()]
    return _short((errors or likely or lines or ["it did not say why"])[0])


def _short(text: str) -> str:
    return one_line(text.replace("\t", " ")).removeprefix("remote: ")[:_LONGEST]


Settings = Sequence[tuple[str, str]]
LEAST_GIT = (2, 31)
BOT = "github-actions[bot]"
BOT_ADDRESS = "41898282+github-actions[bot]@users.noreply.github.com"


@contextlib.contextmanager
def git_settings(settings: Settings) -> Iterator[None]:
    """Added to those that are in the environment already, and taken away again."""
    before = dict(os.environ)
    count = int(before.get("GIT_CONFIG_COUNT") or 0)
    for number, (key, value) in enumerate(settings, count):
        os.environ[f"GIT_CONFIG_KEY_{number}"] = key
        os.environ[f"GIT_CONFIG_VALUE_{number}"] = value
    os.environ["GIT_CONFIG_COUNT"] = str(count + len(settings))
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("GIT_CONFIG_")]:
            del os.environ[name]
        os.environ.update({k: v for k, v in before.items() if k.startswith("GIT_CONFIG_")})


def signed_in(token: str) -> contextlib.AbstractContextManager[None]:
    """Git may use the token, if there is one, for GitHub's own host, as a header. The empty one before drops
    what a checkout has left: two of them would be refused."""
    if not token:
        return contextlib.nullcontext()
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    key = f"http.{server.rstrip('/')}/.extraheader"
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return git_settings(((key, ""), (key, f"AUTHORIZATION: basic {secret}")))


def require_git(root: Path) -> None:
    """Older ones do not look for settings in the environment, and would push without the token."""
    version = re.search(r"(\d+)\.(\d+)", run_git(root, "version"))
    if version and (int(version[1]), int(version[2])) < LEAST_GIT:
        raise EnvironmentFault(
            f"this runner has git {version[0]}, and mode commit needs 2.31 or later",
            hint="install a newer git",
        )


def identity(root: Path) -> Settings:
    """Who commits: whoever is set up on the runner, or else GitHub's own bot."""
    wanted = (("user.name", "GIT_COMMITTER_NAME", BOT), ("user.email", "GIT_COMMITTER_EMAIL", BOT_ADDRESS))
    settings = []
    for key, variable, value in wanted:
        if not (os.environ.get(variable) or (ask_git(root, "config", "--get", key) or "").strip()):
            settings.append((key, value))
    return settings


def lfs_filter(root: Path) -> Settings:
    """Git LFS as `git lfs install` sets it up, where nobody did: else models would be added as they are."""
    if ask_git(root, "config", "--get", "filter.lfs.clean") or git_or_none(root, "lfs", "version") is None:
        return ()
    return (
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge --skip -- %f"),
        ("filter.lfs.process", "git-lfs filter-process --skip"),
        ("filter.lfs.required", "true"),
    )


def catch_up(branch: Branch, base: str, names: Sequence[str]) -> str:
    """Be on the fetched tip. The rebased commit; empty where it was dropped, and the models are to be fixed
    anew: they, or a policy, are not what they were when the fix was proven."""
    tip = commit_of(branch.root, branch.tracking) or ""
    theirs = changed_between(branch.root, base, tip)
    if not any(name in names or PurePosixPath(name).name in FILE_NAMES for name in theirs):
        with git_settings(identity(branch.root)):
            words = ("--quiet", "--autostash", "--onto", tip, base)
            if complaint_of(branch.root, "rebase", *words) is None:
                return commit_of(branch.root, "HEAD") or ""
        git_or_none(branch.root, "rebase", "--abort")
    complaint = complaint_of(branch.root, "reset", "--quiet", "--keep", tip)
    if complaint is not None:
        raise EnvironmentFault(
            f"the branch {branch.name} has moved, and its new state can't be checked out: {complaint}",
            hint="leave no changes in the work tree before mode commit, or commit them first",
        )
    return ""


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
