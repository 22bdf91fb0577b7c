"""The report as Markdown for job summaries and comments, shortened to what these take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onnx_ci.findings import COULD_NOT
from onnx_ci.report import text
from onnx_ci.report.fit import Piece, fitted
from onnx_ci.report.inert import block, code, name, prose
from onnx_ci.report.mermaid import picture
from onnx_ci.report.placed import Placed, placed
from onnx_ci.report.style import Style
from onnx_ci.report.words import counted, judged, model_row, remarks, saved_words
from onnx_ci.results import Outcome, RunReport

COMMENT = 65_536  # characters of a comment
SUMMARY = 2**20  # bytes of a job summary
MARKS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}  # noqa: RUF001 - it is the sign that is meant
VERDICT_MARKS = {"ok": "✅", "shrunk": "✅", "would_shrink": "⚠️", "ignored": ""}

# What is dropped last has the lowest number.
ERRORS, ROWS, WARNINGS, PASSING, PICTURE, REMARKS, DETAILS = range(1, 8)
FINDING_RANKS = {"error": ERRORS, "warning": WARNINGS, "note": REMARKS}
LEFT_OUT = {
    ERRORS: "error",
    ROWS: "row",
    WARNINGS: "warning",
    PASSING: "passing row",
    PICTURE: "picture",
    REMARKS: "note",
    DETAILS: "model's detail",
}


def render_run(report: RunReport, limit: int = COMMENT) -> str:
    """Never more than `limit` bytes, and so never more characters than that either."""
    pieces = [Piece(f"### {_headline(report)}\n\n"), *_table(report)]
    pieces += [Piece(shown, PICTURE) for shown in [picture(report.outcomes, _after(report))] if shown]
    pieces += [Piece(_finding(one), FINDING_RANKS[one.finding.severity]) for one in placed(report)]
    pieces += [Piece(f"> {prose(note)}\n\n", REMARKS) for note in remarks(report)]
    pieces += [Piece(_details(outcome), DETAILS) for outcome in report.outcomes if _is_told(outcome)]
    return fitted(pieces, limit, LEFT_OUT)


def _headline(report: RunReport) -> str:
    if any(finding.code == COULD_NOT for finding in report.findings):
        return "❌ onnx-ci could not run: no model was judged"
    mark, state = ("❌", "failed") if report.exit_code else ("✅", "passed")
    gain = saved_words(report)
    told = f"{counted(judged(report), 'model')} checked{gain and f', {gain}'}"
    return f"{mark} onnx-ci {state}: {told if report.outcomes else 'there was no model to look at'}"


def _after(report: RunReport) -> str:
    return "could be" if report.command == "check" else "after"


def _table(report: RunReport) -> Iterator[Piece]:
    if not report.outcomes:
        return
    head = (
        f"| | model | size | {_after(report)} | saved | outputs | verdict |\n|---|---|--:|--:|--:|---|---|\n"
    )
    yield Piece(head)
    yield from (Piece(_row(outcome), ROWS if outcome.findings else PASSING) for outcome in report.outcomes)
    yield Piece("\n")


def _row(outcome: Outcome) -> str:
    path, *cells = model_row(outcome)
    shown = [VERDICT_MARKS.get(outcome.verdict, "❌"), name(path), *map(prose, cells)]
    return f"| {' | '.join(shown)} |\n"


def _finding(one: Placed) -> str:
    finding = one.finding
    hint = f"  \n  {_hint(finding.hint)}" if finding.hint else ""
    return f"- {MARKS[finding.severity]} **{finding.code}** {prose(finding.message)}{hint}\n\n"


def _hint(hint: str) -> str:
    """A command can be copied."""
    command = hint.removeprefix("run: ")
    return f"→ {prose(hint)}" if command == hint else f"→ run {code(command)}"


def _is_told(outcome: Outcome) -> bool:
    return bool(outcome.steps or outcome.alternatives or outcome.verification.outputs)


def _details(outcome: Outcome) -> str:
    told = text.render_outcome(replace(outcome, findings=()), Style(), title=outcome.path)
    return f"<details><summary>{name(outcome.path)}</summary>\n\n{block(told)}\n</details>\n\n"
