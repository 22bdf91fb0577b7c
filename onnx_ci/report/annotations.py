"""The report as GitHub workflow commands: the text as log, annotations on models and on policy lines."""

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
from onnx_ci.results import CODES, Finding, Outcome, RunReport, Severity
from onnx_ci.util.text import Style, one_line


def render_junit(report: RunReport) -> str:
    cases = [*map(_model, report.outcomes), *_junit_cases(report.findings)]
    failures = sum("<failure " in case for case in cases)
    skipped = sum("<skipped " in case for case in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": 0, "skipped": skipped}
    suite = element(
        "testsuite",
        *_lines(cases),
        name=f"onnx-ci {report.command}",
        time=f"{report.seconds:.3f}",
        **counts,
    )
    whole = element("testsuites", suite, name="onnx-ci", time=f"{report.seconds:.3f}", **counts)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def _model(outcome: Outcome) -> Markup:
    """Classes are what viewers group by: the rule. What is no failure is told as output."""
    results = _failure(outcome.findings, verdict_word(outcome))
    if outcome.verdict == "ignored" and not results:
        results = [element("skipped", message="ignored by its rule")]
    said = "\n".join(_words(finding) for finding in outcome.findings if finding.severity != "error")
    results += [element("system-out", _text(said))] if said else []
    seconds = sum(step.seconds for step in outcome.steps)
    return _case(outcome.path, outcome.rule_pattern, seconds, results)


def _junit_cases(findings: Sequence[Finding]) -> Iterator[Markup]:
    for finding in findings:
        title = CODES.get(finding.code, finding.code)
        said = [element("system-out", _text(_words(finding)))]
        yield _case(title, "several models", 0, _failure([finding], title) or said)


def _case(name: str, group: str, seconds: float, results: Sequence[Markup]) -> Markup:
    label = f"onnx-ci {group}".strip()
    return element("testcase", *results, name=name, classname=label, time=f"{seconds:.3f}")


def _failure(findings: Sequence[Finding], message: str) -> list[Markup]:
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return []
    told = _text("\n".join(map(_words, errors)))
    return [element("failure", told, message=message, type=errors[0].code)]


def _words(finding: Finding) -> str:
    return clipped(f"{finding.code}: {finding.message}" + (f"\n{finding.hint}" if finding.hint else ""))


def _text(lines: str) -> Markup:
    return join(_lines(lines.split("\n")))


def _lines(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        yield Markup("\n")
        yield part
    yield Markup("\n")


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
    def title(self) -> str:
        code = self.finding.code
        return f"{code} {CODES[code]}" if code in CODES else code


def placed(report: RunReport) -> list[Placed]:
    """The most important first: errors before warnings, what is about several models, then by size."""
    everything = [*_across(report), *(one for outcome in report.outcomes for one in _of(report, outcome))]
    rank = {severity: number for number, severity in enumerate(SEVERITIES)}
    return sorted(everything, key=lambda one: (rank[one.finding.severity], one.is_about_a_model, -one.size))


def _across(report: RunReport) -> Iterator[Placed]:
    for finding in report.findings:
        policy = finding.file or report.policy
        yield Placed(finding=finding, file=policy, policy=policy, line=finding.line)


def _of(report: RunReport, outcome: Outcome) -> Iterator[Placed]:
    policy = (outcome.rule_file or report.policy) if outcome.rule_line else ""
    for finding in outcome.findings:
        yield Placed(
            finding=finding,
            file=outcome.file or outcome.path,
            policy=policy,
            line=outcome.rule_line,
            size=outcome.before.size if outcome.before else 0,
        )


def fingerprinted(findings: Sequence[Placed]) -> Iterator[tuple[Placed, str]]:
    """Each with a name that stays the same while it is there, whatever the numbers in its message do."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in findings:
        key = (one.finding.code, one.file)
        told = "\0".join([*key, str(seen[key])])
        seen[key] += 1
        yield one, hashlib.sha256(told.encode(errors="backslashreplace")).hexdigest()


LIMIT = 10  # of a kind and step: GitHub shows no more
FOR_RULES = 3  # of those at least, if there are so many
COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


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


def render_github(report: RunReport) -> str:
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


GITLAB_SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}


def render_gitlab(report: RunReport) -> str:
    findings = [_issue(one, fingerprint) for one, fingerprint in fingerprinted(placed(report))]
    return dumps(findings)


def _issue(one: Placed, fingerprint: str) -> dict[str, Any]:
    finding = one.finding
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": clipped(one_line(finding.message)),
        "content": {"body": clipped(one_line(finding.hint))},
        "categories": ["Performance"],
        "severity": GITLAB_SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {
            "path": one_line(one.file or ".onnx-ci.yaml"),
            "lines": {"begin": 1 if one.is_about_a_model else max(1, one.line)},
        },
    }
