"""The message of a commit: what the workflow asked for, each saving, and a mark by which we know our own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnx_ci.report.style import one_line
from onnx_ci.results import Outcome, RunReport, gain
from onnx_ci.sizes import format_size
from onnx_ci.version import __version__

TRAILER = "Shrunk-by"
_MOST = 100  # models that are named
# What GitHub or another service acts on wherever it stands: people, issues, links, [skip ci], ***NO_CI***.
_CALLS = re.compile(r"[@#\[]|\bgh-(?=\d)|:(?=//)|\*(?=\*)|\bwww(?=\.)", re.IGNORECASE)
_APART = "\u200b"  # a space of no width


def commit_message(first: str, report: RunReport) -> str:
    """`{models}` and `{saved}` in the first part stand for how many models and how many bytes."""
    written = [outcome for outcome in report.outcomes if outcome.written]
    before = sum(o.before.size for o in written if o.before)
    after = sum(o.after.size for o in written if o.after)
    asked = first.replace("{models}", str(len(written))).replace(
        "{saved}", format_size(max(0, before - after))
    )
    told = [line for outcome in written[:_MOST] for line in _lines(outcome)]
    lines = [asked, "", *told, *_rest(written, before, after)]
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
    return _CALLS.sub(lambda found: f"{found[0]}{_APART}", one_line(text))


def _change(before: int, after: int) -> str:
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{format_size(before)} -> {format_size(after)}{share}"
