"""The report as JUnit XML, which nearly every CI service shows: a testcase a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.findings import CODES, Finding
from onnx_ci.report.markup import Markup, element, join
from onnx_ci.report.words import clipped, verdict_word
from onnx_ci.results import Outcome, RunReport


def render_run(report: RunReport) -> str:
    cases = [*map(_model, report.outcomes), *_across(report.findings)]
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


def _across(findings: Sequence[Finding]) -> Iterator[Markup]:
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
