"""The report as GitHub workflow commands: the text as log, annotations on models and on policy lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_ci.report import text
from onnx_ci.report.placed import Placed, placed
from onnx_ci.report.style import Style, one_line
from onnx_ci.report.words import clipped, counted
from onnx_ci.results import RunReport

LIMIT = 10  # of a kind and step: GitHub shows no more
FOR_RULES = 3  # of those at least, if there are so many
COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """What is shown beside one line of one file."""

    kind: str
    file: str
    line: int
    title: str
    message: str

    def __str__(self) -> str:
        place = f"file={_property(self.file)},line={max(1, self.line)}," if self.file else ""
        return f"::{self.kind} {place}title={_property(self.title)}::{_data(self.message)}"


def render_run(report: RunReport) -> str:
    lines = [quoted(text.render_run(report, Style()))]
    findings = placed(report)
    for severity, kind in COMMANDS.items():
        some = [one for one in findings if one.finding.severity == severity]
        models = [_at_the_model(one, kind) for one in some]
        rules = list(_at_the_rules(some, kind))
        chosen = _chosen(models, rules)
        lines += [f"{annotation}\n" for annotation in chosen]
        left = len(models) + len(rules) - len(chosen)
        if left:
            told = f"and {counted(left, f'more {kind} annotation')}: GitHub shows {LIMIT} of a kind\n"
            lines.append(told)
    return "".join(lines)


def quoted(log: str) -> str:
    """Text in which the runner looks for no commands, whatever names are in it. The token that ends it is
    made from the text itself: no text can hold its own, and the same report gives the same bytes."""
    token = hashlib.sha256(log.encode(errors="backslashreplace")).hexdigest()
    return f"::stop-commands::{token}\n{log}::{token}::\n"


def _chosen(models: Sequence[Annotation], rules: Sequence[Annotation]) -> list[Annotation]:
    """Models first; a few places are kept for the lines of the policy."""
    for_rules = min(len(rules), max(FOR_RULES, LIMIT - len(models)))
    return [*models[: LIMIT - for_rules], *rules[:for_rules]]


def _at_the_model(one: Placed, kind: str) -> Annotation:
    line = 1 if one.is_about_a_model else one.line
    message = clipped("\n".join(filter(None, [one.finding.message, one.finding.hint])))
    return Annotation(kind=kind, file=one.file, line=line, title=one.title, message=message)


def _at_the_rules(findings: Sequence[Placed], kind: str) -> Iterator[Annotation]:
    """One annotation a line of a policy, with all the models that break it."""
    by_rule: dict[tuple[str, int], list[Placed]] = {}
    for one in findings if kind != "notice" else ():
        if one.policy and one.line and one.is_about_a_model:
            by_rule.setdefault((one.policy, one.line), []).append(one)
    for (policy, line), some in by_rule.items():
        models = counted(len({one.file for one in some}), "model")
        message = clipped("\n".join(one.finding.message for one in some))
        yield Annotation(
            kind=kind, file=policy, line=line, title=f"{models} under this rule", message=message
        )


def _data(value: str) -> str:
    """Lines are kept as such; what else is not printable is spelled out."""
    return "%0A".join(one_line(line).replace("%", "%25") for line in value.split("\n"))


def _property(value: str) -> str:
    return _data(one_line(value)).replace(":", "%3A").replace(",", "%2C")
