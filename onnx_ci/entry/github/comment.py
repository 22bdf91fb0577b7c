"""Mode `comment`, and the comment of other modes: the report in the pull request, or else in the summary."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onnx_ci.entry.github.about import about
from onnx_ci.entry.github.api import Api
from onnx_ci.entry.github.event import Event
from onnx_ci.entry.github.inputs import DEFAULT_KEY, Inputs
from onnx_ci.entry.github.outputs import write_outputs, write_summary
from onnx_ci.entry.github.resolve import head_of, pull_of
from onnx_ci.entry.github.sticky import DEFAULT_AUTHOR, LONGEST, Sticky, mark
from onnx_ci.entry.github.transport import Transport
from onnx_ci.errors import ApiFault, UsageError
from onnx_ci.report import github, markdown
from onnx_ci.report.github import Annotation
from onnx_ci.report.read import read_report
from onnx_ci.results import RunReport

FOLDER = "onnx-ci-report"  # where a report is looked for when `paths` names none
FILE = "report.json"
FOR_FORKS = (
    "a pull request from a fork has a token that only reads: a second workflow can write the comment,"
    " see examples/fork-comment.yml"
)
FOR_OTHERS = "the job needs `permissions: {pull-requests: write}`"


def run(inputs: Inputs, event: Event) -> int:
    """Read the report that an earlier job or run left, as data that anyone may have written. Only a call that
    makes no sense is an error: whether models are well was told by the run that looked at them."""
    report = read_report(_report_file(inputs.paths))
    text = body(report, event, inputs.comment or DEFAULT_KEY)
    write_outputs({"comment-body": text})
    if not _written(inputs, event, text):
        write_summary(text)
        sys.stdout.write(github.render_run(report))
    return 0


def post(inputs: Inputs, event: Event, report: RunReport, before: str = "") -> None:
    """The comment of a run that has told everything in its summary and annotations already. `before` is
    Markdown that goes before the report."""
    _written(inputs, event, body(report, event, inputs.comment, before))


def body(report: RunReport, event: Event, key: str, first: str = "") -> str:
    """What the comment says below its mark, no longer than GitHub takes."""
    before, after = about(event, os.environ)
    before += first
    room = LONGEST - len(f"{mark(key)}\n{before}{after}")
    return f"{before}{markdown.render_run(report, room)}{after}"


def _written(inputs: Inputs, event: Event, text: str) -> bool:
    """Whether the pull request has the comment; if not, the log says why and what would help."""
    try:
        transport = Transport(
            base=os.environ.get("GITHUB_API_URL") or "https://api.github.com", token=inputs.token
        )
        api = Api(transport=transport, repository=event.repository)
        pull, why = _pull(api, event)
        if not pull:
            _notice(f"no comment was written: {why}")
            return False
        author = api.login(os.environ.get("GITHUB_GRAPHQL_URL") or f"{transport.base}/graphql")
        key = inputs.comment or DEFAULT_KEY
        Sticky(api=api, key=key, author=author or DEFAULT_AUTHOR, say=_say).put(pull, text)
    except ApiFault as fault:
        _notice("\n".join(filter(None, [f"no comment was written: {fault.message}", _help(fault, event)])))
        return False
    return True


def _help(fault: ApiFault, event: Event) -> str:
    if fault.status not in (401, 403, 404):
        return ""
    return FOR_FORKS if event.is_pull and event.is_fork else FOR_OTHERS


def _pull(api: Api, event: Event) -> tuple[int, str]:
    """The number of the pull request, or 0 and why there is none."""
    if event.name == "workflow_run":
        if event.text("workflow_run", "event") != "pull_request":
            return 0, "the run was not of a pull request"
        head = head_of(event.payload)
        return pull_of(api, head) if head else (0, "the repository that the branch was in is gone")
    number = event.at("pull_request", "number") if event.is_pull else 0
    return (number, "") if isinstance(number, int) and number else (0, "this event is of no pull request")


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


def _notice(message: str) -> None:
    sys.stdout.write(f"{Annotation(kind='notice', file='', line=0, title='onnx-ci', message=message)}\n")


def _say(line: str) -> None:
    sys.stdout.write(f"onnx-ci: {line}\n")
