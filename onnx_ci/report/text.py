"""The report for people: one line a model with its numbers, then what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.findings import Finding
from onnx_ci.report.noise import noise_words
from onnx_ci.report.style import Style, one_line
from onnx_ci.report.words import (
    OUTPUT_COLUMNS,
    counted,
    coverage_words,
    judged,
    model_row,
    original_words,
    output_row,
    proof_reason,
    remarks,
    runtime_row,
    saved_words,
)
from onnx_ci.results import Alternative, Measure, Outcome, RunReport
from onnx_ci.shown import Latency
from onnx_ci.sizes import format_size

COLOURS = {"ok": "green", "shrunk": "green", "would_shrink": "yellow", "ignored": "dim"}
SHOWN = 5  # tensors named of each model
MARKS = {"error": "red", "warning": "yellow", "note": "dim"}


def render_run(report: RunReport, style: Style) -> str:
    lines = [*_table(report, style)]
    for outcome in report.outcomes:
        lines += [style.paint(line, "dim") for line in _how(outcome)]
    findings = [*(f for outcome in report.outcomes for f in outcome.findings), *report.findings]
    for finding in findings:
        lines += ["", *_finding(finding, style)] if finding.hint else _finding(finding, style)
    lines += ["", *_summary(report, style)]
    return "\n".join(lines).strip("\n") + "\n"


def _table(report: RunReport, style: Style) -> Iterator[str]:
    if not report.outcomes:
        return
    after = "could be" if report.command == "check" else "after"
    rows = [("model", "size", after, "saved", "outputs", "verdict"), *map(model_row, report.outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    for number, row in enumerate(rows):
        cells = [
            row[0].ljust(widths[0]),
            *(row[i].rjust(widths[i]) for i in (1, 2, 3)),
            row[4].ljust(widths[4]),
        ]
        last = style.paint(row[5], COLOURS.get(report.outcomes[number - 1].verdict, "red") if number else "")
        line = "  ".join([*cells, last]).rstrip()
        yield line if number else style.paint(line, "bold")


def _finding(finding: Finding, style: Style) -> list[str]:
    mark = style.paint(f"{finding.severity} {finding.code}", MARKS[finding.severity])
    lines = [f"{mark} {one_line(finding.message)}"]
    if finding.hint:
        lines.append(f"  {one_line(finding.hint)}")
    return lines


def _summary(report: RunReport, style: Style) -> Iterator[str]:
    yield from (style.paint(one_line(note), "dim") for note in remarks(report))
    if not report.outcomes:
        return
    gain = saved_words(report)
    state = style.paint("failed", "red") if report.exit_code else style.paint("passed", "green")
    yield f"{counted(judged(report), 'model')} checked{gain and f', {gain}'}: {state}"


def render_outcome(outcome: Outcome, style: Style, *, title: str) -> str:
    """One model in full: for shrink and compare."""
    lines = [
        style.paint(one_line(title), "bold"),
        *_sizes(outcome),
        *_steps(outcome),
        *_plan(outcome),
        *_outputs(outcome),
        *_original(outcome),
    ]
    for finding in outcome.findings:
        lines += _finding(finding, style)
    return "\n".join(lines) + "\n"


def _sizes(outcome: Outcome) -> Iterator[str]:
    before, after = outcome.before, outcome.after
    if before is None:
        return
    for name in ("size", "gzip", "brotli", "zstd"):
        old, new = getattr(before, name), getattr(after, name) if after else None
        if old is not None:
            change = f" -> {format_size(new)} ({new / old - 1:+.1%})" if new is not None and old else ""
            yield f"  {name:<8} {format_size(old)}{change}"
    yield from _parameters(before, after)
    if outcome.latency is not None:
        yield from _latency(outcome.latency)


def _latency(found: Latency) -> Iterator[str]:
    yield f"  latency  {found.before * 1e3:.2f} ms -> {found.after * 1e3:.2f} ms ({found.words})"
    if found.load_before is not None and found.load_after is not None:
        yield f"  load     {found.load_before * 1e3:.1f} ms -> {found.load_after * 1e3:.1f} ms"
    if found.memory_before is not None and found.memory_after is not None:
        yield f"  memory   {format_size(found.memory_before)} -> {format_size(found.memory_after)} to load it"


def _parameters(before: Measure, after: Measure | None) -> Iterator[str]:
    if before.params is not None:
        changed = after is not None and after.params not in (before.params, None)
        change = f" -> {after.params:,}" if after and changed else ""
        yield f"  params   {before.params:,}{change}"


def _how(outcome: Outcome) -> Iterator[str]:
    """What was done to one model of many, and what else was tried; `explain` tells the rest."""
    if told := original_words(outcome):
        yield f"{one_line(outcome.path)}: {told}"
    if outcome.plan is None:
        return
    kept = [step for step in outcome.steps if step.kept]
    done = "; ".join(f"{step.method} ({one_line(step.note)})" if step.note else step.method for step in kept)
    yield f"{one_line(outcome.path)}: {done or 'nothing was taken'}"
    tried = [one for one in outcome.alternatives if one.sqnr is not None]
    told = ", ".join(
        f"{', '.join(one.methods)} {format_size(one.size)} at {one.sqnr:.0f} dB" for one in tried
    )
    yield from [f"  also tried: {told}"] if told else []


def _steps(outcome: Outcome) -> Iterator[str]:
    for step in outcome.steps:
        note = f"  ({one_line(step.note)})" if step.note else ""
        tensors = f", {step.tensors} tensors" if step.tensors else ""
        sizes = f"{format_size(step.size_before)} -> {format_size(step.size_after)}"
        yield f"  {step.method}: {sizes}{tensors}{note}"


def _plan(outcome: Outcome) -> Iterator[str]:
    """Which tensors are stored larger than others, and why; what else was tried."""
    plan = outcome.plan
    if plan is not None:
        forms = ", ".join(f"{label} {count}" for label, count in plan.forms) or "no mix was taken"
        yield f"  planned {plan.tensors} tensors in {plan.trials} trials, {plan.seconds:.1f} s: {forms}"
        for kept in plan.kept[:SHOWN]:
            yield f"    {one_line(kept.name)} ({format_size(kept.size)}) {kept.form}: {kept.why}"
        more = len(plan.kept) - SHOWN
        yield from [f"    and {more} more that are not in the smallest form"] if more > 0 else []
        yield from [f"    not all was tried: {plan.untried}; raise plan_seconds"] if plan.untried else []
    if outcome.alternatives:
        yield "  also tried"
        yield from _aligned([_alternative_row(alternative) for alternative in outcome.alternatives])


def _alternative_row(alternative: Alternative) -> tuple[str, ...]:
    known = alternative.cosine is not None and alternative.sqnr is not None
    error = f"cosine {alternative.cosine:.6f}, {alternative.sqnr:.0f} dB" if known else ""
    methods = ", ".join(alternative.methods)
    return methods, format_size(alternative.size), error, one_line(alternative.verdict)


def _outputs(outcome: Outcome) -> Iterator[str]:
    verification = outcome.verification
    yield f"  verification {verification.status}{proof_reason(verification)}"
    covered = coverage_words(verification)
    yield from [f"    {covered}"] if covered else []
    yield from (f"    {line}" for line in noise_words(verification))
    rows = [output_row(output) for output in verification.outputs]
    if rows:
        yield from _aligned([OUTPUT_COLUMNS, *rows])
    if verification.runtimes:
        yield from _aligned([runtime_row(run) for run in verification.runtimes])


def _original(outcome: Outcome) -> Iterator[str]:
    told = original_words(outcome)
    yield from [f"  {told}"] if told else []


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
