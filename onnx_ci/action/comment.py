"""Mode `comment`, and the comment of other modes: the report in the pull request, or else in the summary."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx_ci.action.github import Api, Comment, State, pull_of
from onnx_ci.action.inputs import KEY, KEY_WORDS, Event, Inputs, write_outputs, write_summary
from onnx_ci.errors import ApiFault, UsageError
from onnx_ci.report import markdown
from onnx_ci.report.annotations import Annotation, render_github
from onnx_ci.report.markdown import name, prose
from onnx_ci.report.read import read_report
from onnx_ci.report.text import counted, finding_counts, saved_words
from onnx_ci.results import RunReport
from onnx_ci.util.sizes import format_size

LONGEST = 65_536  # GitHub counts characters as Python does: what needs 4 bytes is one
DEFAULT_AUTHOR = "github-actions[bot]"  # whom GITHUB_TOKEN writes as
SUPERSEDED = "A later comment in this pull request has the report."


def mark(key: str) -> str:
    """The first line of a comment. A key can't hold what would end it."""
    if not KEY.fullmatch(key):
        raise UsageError(f"{key[:60]!r} can't be the key of a comment", hint=f"`comment` is {KEY_WORDS}")
    return f"<!-- onnx-ci: {key} -->"


@dataclass(frozen=True, kw_only=True)
class Sticky:
    """`say` gets one line for each thing that was done."""

    api: Api
    key: str
    author: str
    say: Callable[[str], None]

    def put(self, pull: int, text: str) -> None:
        body = f"{mark(self.key)}\n{text}"
        if len(body) > LONGEST:
            raise ApiFault(f"the comment has {len(body):,} characters, GitHub takes {LONGEST:,}", status=422)
        try:
            self._put(pull, body)
        except ApiFault as fault:
            if not fault.passing or fault.limited:
                raise
            # A comment may have been made although the answer was an error: look before making another.
            self._put(pull, body)

    def _put(self, pull: int, body: str) -> None:
        mine = self.mine(pull)
        if not mine:
            number = self.api.create_comment(pull, body).number
            self.say(f"made comment {number} in pull request {pull}")
            return
        *older, newest = mine
        self._change(newest, body, f"comment {newest.number} in pull request {pull}")
        for comment in older:
            text = f"{mark(self.key)}\n{SUPERSEDED}\n"
            self._change(comment, text, f"comment {comment.number}, which has the same key and is older,")

    def _change(self, comment: Comment, body: str, name: str) -> None:
        if comment.body.replace("\r\n", "\n").rstrip() == body.rstrip():
            self.say(f"{name} already says this")
            return
        self.api.change_comment(comment.number, body)
        self.say(f"{name} was changed")

    def mine(self, pull: int) -> list[Comment]:
        """Oldest first. Anyone can write the mark into a comment: it counts only where we are the author."""
        comments = [
            comment
            for comment in self.api.comments(pull)
            if comment.author == self.author and comment.body.split("\n", 1)[0].rstrip() == mark(self.key)
        ]
        return sorted(comments, key=lambda comment: comment.number)


def _warning(event: Event) -> str:
    """What goes before the report of a run of somebody else's code."""
    if event.name != "workflow_run" or not event.is_fork:
        return ""
    where = name(event.text("workflow_run", "head_repository", "full_name"))
    ended = prose(event.text("workflow_run", "conclusion"))
    warning = f"made by a run of code from {where}, which could have written anything here. The run: {ended}."
    return f"> [!NOTE]\n> The report below was {warning}\n\n"


def run_address(event: Event) -> tuple[str, str]:
    """The number of the run that a report is of, and its page; nothing where that can't be told."""
    run = os.environ.get("GITHUB_RUN_ID", "")
    if event.name == "workflow_run":
        run = str(event.at("workflow_run", "id") or "")
    if not re.fullmatch(r"[0-9]{1,20}", run) or not event.repository:
        return "", ""
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    return run, f"{server}/{event.repository}/actions/runs/{run}"


def _footer(event: Event) -> str:
    """The commit and the run, of which only hexadecimal digits and a number are taken."""
    run, address = run_address(event)
    parts = []
    if re.fullmatch(r"[0-9a-f]{40,64}", event.head):
        parts.append(f"commit <code>{event.head[:12]}</code>")
    if run:
        parts.append(f"[run {run}]({address})")
    return f"\n<sub>{', '.join(parts)}</sub>\n" if parts else ""


FOLDER = "onnx-ci-report"  # where a report is looked for when `paths` names none
FILE = "report.json"
FOR_FORKS = (
    "a pull request from a fork has a token that only reads: a second workflow can write the comment,"
    " see examples/fork-comment.yml"
)
FOR_OTHERS = "the job needs `permissions: {pull-requests: write}`"


def run(inputs: Inputs, event: Event) -> None:
    """Read the report that an earlier job or run left, as data that anyone may have written. Only a call that
    makes no sense is an error: whether models are well was told by the run that looked at them."""
    report = read_report(_report_file(inputs.paths))
    text = body(report, event, inputs.comment)
    write_outputs({"comment-body": text})
    if not _written(inputs, event, text):
        write_summary(text)
        sys.stdout.write(render_github(report))


def post(inputs: Inputs, event: Event, report: RunReport, before: str = "") -> None:
    """The comment of a run that has told everything in its summary and annotations already. `before` is
    Markdown that goes before the report."""
    _written(inputs, event, body(report, event, inputs.comment, before))


def body(report: RunReport, event: Event, key: str, first: str = "") -> str:
    """What the comment says below its mark, no longer than GitHub takes."""
    before, after = _warning(event) + first, _footer(event)
    room = LONGEST - len(f"{mark(key)}\n{before}{after}")
    return f"{before}{markdown.render_run(report, room)}{after}"


def _written(inputs: Inputs, event: Event, text: str) -> bool:
    """Whether the pull request has the comment; if not, the log says why and what would help."""
    try:
        api = api_of(inputs, event)
        base = api.base
        pull, why = pull_of(api, event)
        if pull:
            author = api.login(os.environ.get("GITHUB_GRAPHQL_URL") or f"{base}/graphql") or DEFAULT_AUTHOR
            Sticky(api=api, key=inputs.comment, author=author, say=_say).put(pull, text)
            return True
    except ApiFault as fault:
        why = fault.message
        if fault.status in (401, 403, 404):
            why += f"\n{FOR_FORKS if event.is_pull and event.is_fork else FOR_OTHERS}"
    notice = Annotation(kind="notice", message=f"no comment was written: {why}")
    sys.stdout.write(f"{notice}\n")
    return False


def api_of(inputs: Inputs, event: Event) -> Api:
    base = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    return Api(base=base, token=inputs.token, repository=event.repository)


def post_status(inputs: Inputs, event: Event, report: RunReport, *, code: int, commit: str) -> None:
    """A commit status with the figures; where the token may not write one, the log says so."""
    models = f"{counted(len(report.outcomes), 'model')}, {format_size(report.size_after)}"
    figures = [models, *finding_counts(report), saved_words(report)]
    state: State = "success" if not code else "failure" if code == 1 else "error"
    _, address = run_address(event)
    try:
        words = ", ".join(filter(None, figures))
        api_of(inputs, event).set_status(commit or event.head, state, inputs.status, words, address)
    except ApiFault as fault:
        why = f"no commit status was written: {fault.message}"
        if fault.status in (401, 403, 404):
            why += "\nthe job needs `permissions: {statuses: write}`; a fork's never has it"
        sys.stdout.write(f"{Annotation(kind='notice', message=why)}\n")


def _report_file(paths: tuple[str, ...]) -> Path:
    """A file that came with the repository or an artifact: a link in its place could lead anywhere."""
    if len(paths) > 1:
        raise UsageError(
            f"input 'paths': found {len(paths)} names, expected one report in mode comment",
            hint="`onnx-ci merge` makes one report of several",
        )
    named = Path(paths[0] if paths else FOLDER)
    path = named / FILE if named.is_dir() else named
    if path.is_symlink() or not path.is_file():
        raise UsageError(
            f"there is no report {str(path)!r}",
            hint="another job or run was to make it: its log says why it did not; `paths` says where it is",
        )
    return path


def _say(line: str) -> None:
    sys.stdout.write(f"onnx-ci: {line}\n")
