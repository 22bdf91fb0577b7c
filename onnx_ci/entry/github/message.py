"""The message of a commit: what the workflow asked for, each saving, and a mark by which we know our own."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_ci.report.style import one_line
from onnx_ci.results import Outcome, RunReport, gain
from onnx_ci.sizes import format_size
from onnx_ci.version import __version__

TRAILER = "Shrunk-by"
_MOST = 100  # models that are named


def commit_message(first: str, report: RunReport) -> str:
    """`{models}` and `{saved}` in the first part stand for how many models and how many bytes."""
    written = [outcome for outcome in report.outcomes if outcome.written]
    before = sum(o.before.size for o in written if o.before)
    after = sum(o.after.size for o in written if o.after)
    asked = first.replace("{models}", str(len(written))).replace(
        "{saved}", format_size(max(0, before - after))
    )
    lines = [asked, "", *map(_line, written[:_MOST]), *_rest(written, before, after)]
    return "\n".join([*lines, "", f"{TRAILER}: onnx-ci {__version__}", ""])


def is_our_own(message: str) -> bool:
    """Whether a commit was made by us: the mark is in its last paragraph."""
    last = message.rstrip().rsplit("\n\n", 1)[-1]
    return any(line.startswith(f"{TRAILER}: onnx-ci ") for line in last.splitlines())


def _rest(written: list[Outcome], before: int, after: int) -> Iterator[str]:
    if len(written) > _MOST:
        yield f"and {len(written) - _MOST} more"
    if len(written) > 1:
        yield ""
        yield f"{len(written)} models together: {_change(before, after)}"


def _line(outcome: Outcome) -> str:
    """Names are on one line, whatever is in them: nobody writes a mark of ours with a file name."""
    methods = ", ".join(dict.fromkeys(step.method for step in outcome.steps if step.kept))
    saving = ""
    if outcome.before and outcome.after:
        kind, before, after = gain(outcome.before, outcome.after)
        saving = _change(before, after) + ("" if kind == "size" else f" ({kind})")
    return f"- {one_line(outcome.file or outcome.path)}: {saving}{f' with {methods}' if methods else ''}"


def _change(before: int, after: int) -> str:
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{format_size(before)} -> {format_size(after)}{share}"
