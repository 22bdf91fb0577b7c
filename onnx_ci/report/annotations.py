"""Findings as CI services take them: GitHub's annotations, GitLab's code quality, JUnit's test cases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_ci.report import text
from onnx_ci.report.html_page import Markup, element, join
from onnx_ci.report.json import dumps
from onnx_ci.report.text import clipped, counted, verdict_word
from onnx_ci.results import Finding, RunReport, Severity
from onnx_ci.util.text import Style, one_line

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One finding. `file` is the model, or the policy where it is about several models together;
    `policy` and `line` say where the rule is, if one is known. Names go by the top of the repository."""

    finding: Finding
    file: str
    policy: str = ""
    line: int = 0
    size: int = 0  # of the model: what large models do matters most

    @property
    def is_about_a_model(self) -> bool:
        return self.file != self.policy

    @property
    def shown_line(self) -> int:
        """Of the file: a model is shown at its first line."""
        return 1 if self.is_about_a_model else max(1, self.line)

    @property
    def title(self) -> str:
        code, title = self.finding.code, self.finding.title
        return code if title == code else f"{code} {title}"


def placed(report: RunReport) -> list[Placed]:
    """The most important first: errors before warnings, what is about several models, then by size."""
    findings = []
    for finding in report.findings:
        policy = finding.file or report.policy
        findings.append(Placed(finding=finding, file=policy, policy=policy, line=finding.line))
    for outcome in report.outcomes:
        policy = (outcome.rule_file or report.policy) if outcome.rule_line else ""
        file, size = outcome.file or outcome.path, outcome.before.size if outcome.before else 0
        for finding in outcome.findings:
            place = Placed(finding=finding, file=file, policy=policy, line=outcome.rule_line, size=size)
            findings.append(place)
    return sorted(
        findings,
        key=lambda place: (SEVERITIES.index(place.finding.severity), place.is_about_a_model, -place.size),
    )


def fingerprinted(findings: Sequence[Placed]) -> Iterator[tuple[Placed, str]]:
    """Each with a name that stays the same while it is there, whatever the numbers in its message do."""
    seen: Counter[tuple[str, str]] = Counter()
    for place in findings:
        key = (place.finding.code, place.file)
        identity = "\0".join([*key, str(seen[key])])
        seen[key] += 1
        yield place, _digest(identity)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


LIMIT = 10  # of a kind and step: GitHub shows no more
FOR_RULES = 3  # of those at least, if there are so many
COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """What is shown beside one line of one file, or of the run as a whole."""

    kind: str
    message: str
    file: str = ""
    line: int = 0
    title: str = "onnx-ci"

    def __str__(self) -> str:
        place = f"file={_property(self.file)},line={max(1, self.line)}," if self.file else ""
        return f"::{self.kind} {place}title={_property(self.title)}::{_data(self.message)}"


def render_github(report: RunReport) -> str:
    lines = [quoted(text.render_run(report, Style()))]
    findings = placed(report)
    for severity, kind in COMMANDS.items():
        of_kind = [place for place in findings if place.finding.severity == severity]
        models = [_at_the_model(place, kind) for place in of_kind]
        rules = list(_at_the_rules(of_kind, kind))
        chosen = _chosen(models, rules)
        lines += [f"{annotation}\n" for annotation in chosen]
        left = len(models) + len(rules) - len(chosen)
        if left:
            annotations = counted(left, f"more {kind} annotation")
            lines.append(f"and {annotations}: GitHub shows {LIMIT} of a kind\n")
    return "".join(lines)


def quoted(log: str) -> str:
    """Text in which the runner looks for no commands, whatever names are in it. The token that ends it is
    made from the text itself: no text can hold its own, and the same report gives the same bytes."""
    token = _digest(log)
    return f"::stop-commands::{token}\n{log}::{token}::\n"


def _chosen(models: Sequence[Annotation], rules: Sequence[Annotation]) -> list[Annotation]:
    """Models first; a few places are kept for the lines of the policy."""
    for_rules = min(len(rules), max(FOR_RULES, LIMIT - len(models)))
    return [*models[: LIMIT - for_rules], *rules[:for_rules]]


def _at_the_model(place: Placed, kind: str) -> Annotation:
    message = clipped("\n".join(filter(None, [place.finding.message, place.finding.hint])))
    return Annotation(kind=kind, file=place.file, line=place.shown_line, title=place.title, message=message)


def _at_the_rules(findings: Sequence[Placed], kind: str) -> Iterator[Annotation]:
    """One annotation a line of a policy that several models break; of one alone, its own tells all."""
    by_rule: dict[tuple[str, int], list[Placed]] = {}
    for place in findings if kind != "notice" else ():
        if place.policy and place.line and place.is_about_a_model:
            by_rule.setdefault((place.policy, place.line), []).append(place)
    for (policy, line), places in by_rule.items():
        models = {place.file for place in places}
        if len(models) == 1:
            continue
        title = f"{len(models)} models under this rule"
        message = clipped("\n".join(place.finding.message for place in places))
        yield Annotation(kind=kind, file=policy, line=line, title=title, message=message)


def _data(value: str) -> str:
    """Lines are kept as such; what else is not printable is spelled out."""
    return "%0A".join(one_line(line).replace("%", "%25") for line in value.split("\n"))


def _property(value: str) -> str:
    return _data(one_line(value)).replace(":", "%3A").replace(",", "%2C")


GITLAB_SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}


def render_gitlab(report: RunReport) -> str:
    return dumps([_issue(place, fingerprint) for place, fingerprint in fingerprinted(placed(report))])


def _issue(place: Placed, fingerprint: str) -> dict[str, Any]:
    finding = place.finding
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": clipped(one_line(finding.message)),
        "content": {"body": clipped(one_line(finding.hint))},
        "categories": ["Performance"],
        "severity": GITLAB_SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {
            "path": one_line(place.file or ".onnx-ci.yaml"),
            "lines": {"begin": place.shown_line},
        },
    }


def render_junit(report: RunReport) -> str:
    """Classes are what viewers group by: the rule."""
    cases = []
    for outcome in report.outcomes:
        seconds, ignored = sum(step.seconds for step in outcome.steps), outcome.verdict == "ignored"
        word = verdict_word(outcome)
        cases.append(_case(outcome.path, outcome.rule_pattern, outcome.findings, word, seconds, ignored))
    cases += [_case(each.title, "several models", [each], each.title) for each in report.findings]
    results = Counter(result for result, _ in cases)
    totals: dict[str, str | int] = {"time": f"{report.seconds:.3f}", "tests": len(cases)}
    totals |= {"failures": results["failure"], "errors": 0, "skipped": results["skipped"]}
    lines = _lines([case for _, case in cases])
    suite = element("testsuite", *lines, name=f"onnx-ci {report.command}", **totals)
    suites = element("testsuites", suite, name="onnx-ci", **totals)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{suites}\n'


def _case(
    name: str, group: str, findings: Sequence[Finding], message: str, seconds: float = 0, skip: bool = False
) -> tuple[str, Markup]:
    """A test and its result: "failure", "skipped" or nothing. What is no failure is told as output."""
    errors = [finding for finding in findings if finding.severity == "error"]
    others = [finding for finding in findings if finding.severity != "error"]
    result = ""
    parts: list[Markup] = []
    if errors:
        result, parts = "failure", [element("failure", _text(errors), message=message, type=errors[0].code)]
    elif skip:
        result, parts = "skipped", [element("skipped", message="ignored by its rule")]
    if others:
        parts.append(element("system-out", _text(others)))
    label = f"onnx-ci {group}".strip()
    return result, element("testcase", *parts, name=name, classname=label, time=f"{seconds:.3f}")


def _text(findings: Sequence[Finding]) -> Markup:
    return join(_lines("\n".join(map(_words, findings)).split("\n")))


def _words(finding: Finding) -> str:
    return clipped(f"{finding.code}: {finding.message}" + (f"\n{finding.hint}" if finding.hint else ""))


def _lines(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        yield Markup("\n")
        yield part
    yield Markup("\n")
