"""What an HTML report tells of one model: findings, sizes, steps, what else was tried, and the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.findings import Finding
from onnx_ci.report.html_plan import plan_parts
from onnx_ci.report.markup import Markup, element, table
from onnx_ci.report.noise import noise_words
from onnx_ci.report.page import badge
from onnx_ci.report.words import (
    OUTPUT_COLUMNS,
    change,
    coverage_words,
    output_row,
    proof_reason,
    runtime_row,
    verdict_word,
)
from onnx_ci.results import Measure, Outcome, Step
from onnx_ci.shown import Latency, Verification
from onnx_ci.sizes import format_size

KINDS = {"ok": "good", "shrunk": "good", "would_shrink": "warn", "ignored": "dim"}
PROOFS = {"passed": "good", "failed": "bad", "not_run": "dim"}
SEVERITIES = {"error": "bad", "warning": "warn"}


def verdict_badge(outcome: Outcome) -> Markup:
    return badge(verdict_word(outcome), KINDS.get(outcome.verdict, "bad"))


def model_parts(outcome: Outcome) -> Iterator[Markup]:
    if outcome.findings:
        yield findings_list(outcome.findings)
    yield from _measures(outcome)
    yield from _steps(outcome.steps)
    yield from plan_parts(outcome)
    if outcome.before is not None:
        yield from _proof(outcome.verification)


def findings_list(findings: Sequence[Finding]) -> Markup:
    return element("ul", *map(_finding, findings), class_="findings")


def _finding(finding: Finding) -> Markup:
    mark = badge(finding.severity, SEVERITIES.get(finding.severity, "dim"))
    hint = [element("p", finding.hint, class_="soft")] if finding.hint else []
    said = element("p", mark, " ", element("code", finding.code), " ", finding.message)
    return element("li", said, *hint, class_=finding.severity)


def _measures(outcome: Outcome) -> Iterator[Markup]:
    rows = [*_sizes(outcome.before, outcome.after), *_latency(outcome.latency)]
    if rows:
        rule = f"rule {outcome.rule_pattern!r}, line {outcome.rule_line}" if outcome.rule_line else ""
        yield element("h3", "Numbers")
        first = "before" if outcome.after else "now"
        columns = ("measure", first, "after", "change")
        yield table(rule, columns, rows, numbers=",".join(columns[1:]))


def _sizes(before: Measure | None, after: Measure | None) -> Iterator[tuple[str, ...]]:
    for name in ("size", "gzip", "brotli", "zstd"):
        old, new = getattr(before, name, None), getattr(after, name, None)
        if old is not None:
            last = (format_size(new), change(old, new)) if new is not None else ("", "")
            yield name, format_size(old), *last
    if before is not None and before.params is not None:
        after_params = f"{after.params:,}" if after is not None and after.params is not None else ""
        yield "parameters", f"{before.params:,}", after_params, ""


def _latency(found: Latency | None) -> Iterator[tuple[str, ...]]:
    if found is None:
        return
    bounds = f"{found.ratio:.2f}x ({found.low:.2f} to {found.high:.2f}, 95%)"
    yield "latency", f"{found.before * 1e3:.2f} ms", f"{found.after * 1e3:.2f} ms", bounds
    if found.load_before is not None and found.load_after is not None:
        yield "load", f"{found.load_before * 1e3:.1f} ms", f"{found.load_after * 1e3:.1f} ms", ""
    if found.memory_before is not None and found.memory_after is not None:
        yield "memory to load", format_size(found.memory_before), format_size(found.memory_after), ""


def _steps(steps: Sequence[Step]) -> Iterator[Markup]:
    if not steps:
        return
    rows = [
        (
            step.method,
            format_size(step.size_before),
            format_size(step.size_after),
            f"{step.tensors:,}" if step.tensors else "",
            f"{step.seconds:.2f} s",
            step.note,
        )
        for step in steps
    ]
    columns = ("method", "size before", "size after", "tensors", "time", "note")
    yield element("h3", "Steps")
    yield table("", columns, rows, numbers="size before,size after,tensors,time")


def _proof(verification: Verification) -> Iterator[Markup]:
    yield element("h3", "Verification")
    status = badge(verification.status.replace("_", " "), PROOFS[verification.status])
    yield element("p", status, " ", proof_reason(verification).removeprefix(":").strip())
    covered = coverage_words(verification)
    if covered:
        yield element("p", covered, class_="soft")
    yield from (element("p", line) for line in noise_words(verification))
    if verification.outputs:
        columns = (*OUTPUT_COLUMNS[:-1], "note")
        rows = [output_row(output) for output in verification.outputs]
        yield table("The worst over all samples", columns, rows, numbers=",".join(OUTPUT_COLUMNS[1:-1]))
    if verification.runtimes:
        runs = [runtime_row(run) for run in verification.runtimes]
        yield table("Where both were run", ("runtime", "status", "inputs", "outputs"), runs)
