"""The report as one HTML file: a summary, a table of models, and a section for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.report.html_page import (
    Markup,
    badge,
    curve,
    element,
    figures,
    join,
    page,
    share_bar,
    size_bar,
    table,
)
from onnx_ci.report.text import (
    OUTPUT_COLUMNS,
    change,
    counted,
    coverage_words,
    judged,
    model_row,
    noise_words,
    output_row,
    proof_reason,
    remarks,
    runtime_row,
    verdict_word,
)
from onnx_ci.results import (
    Alternative,
    Finding,
    KeptTensor,
    Latency,
    Measure,
    ModelInfo,
    Outcome,
    Planned,
    Point,
    RunReport,
    Step,
    TensorInfo,
    Verdict,
    Verification,
)
from onnx_ci.util.sizes import format_percent, format_size

SHOWN = 12  # tensors that are seen at once; the others are folded away


def plan_parts(outcome: Outcome) -> Iterator[Markup]:
    if outcome.plan is not None:
        yield from _plan(outcome.plan)
    if outcome.alternatives:
        yield element("h3", "Also tried")
        columns = ("methods", "size", "cosine", "sqnr", "verdict")
        yield table("", columns, map(_alternative, outcome.alternatives), numbers="size,cosine,sqnr")
    points = outcome.plan.curve if outcome.plan is not None else _as_points(outcome.alternatives)
    drawn = curve(points)
    if drawn:
        yield element("h3", "Size against error")
        yield drawn


def _alternative(one: Alternative) -> tuple[str, ...]:
    cosine = f"{one.cosine:.6f}" if one.cosine is not None else ""
    sqnr = f"{one.sqnr:.1f} dB" if one.sqnr is not None else ""
    return ", ".join(one.methods), format_size(one.size), cosine, sqnr, one.verdict


def _as_points(alternatives: Sequence[Alternative]) -> list[Point]:
    """Where nothing was taken there is no plan, but what was measured can be shown all the same."""
    return [
        Point(size=one.size, cosine=one.cosine, sqnr=one.sqnr, holds=one.state != "refused")
        for one in alternatives
        if one.state and one.cosine is not None and one.sqnr is not None
    ]


def _plan(plan: Planned) -> Iterator[Markup]:
    yield element("h3", "Plan")
    forms = ", ".join(f"{count:,} as {label}" for label, count in plan.forms)
    left = plan.tensors - sum(count for _, count in plan.forms)
    forms += f", {left:,} as they were" if left else ""
    yield element("p", f"{plan.tensors:,} tensors: {forms}; {plan.trials} trials in {plan.seconds:.1f} s.")
    if plan.untried:
        yield element("p", f"Not all was tried: {plan.untried}; raise plan_seconds.")
    if plan.kept:
        yield _kept("Tensors not in the smallest form, the most sensitive first", plan.kept[:SHOWN])
    more = plan.kept[SHOWN:]
    if more:
        yield element("details", element("summary", f"{len(more):,} more tensors"), _kept("", more))


def _kept(caption: str, kept: Sequence[KeptTensor]) -> Markup:
    rows = [
        (element("span", tensor.name, class_="name"), format_size(tensor.size), tensor.form, tensor.why)
        for tensor in kept
    ]
    return table(caption, ("tensor", "size before", "form", "why"), rows, numbers="size before")


KINDS: dict[Verdict, str] = {"ok": "good", "shrunk": "good", "would_shrink": "warn", "ignored": "dim"}
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


def render_run(report: RunReport) -> str:
    anchors = dict(_anchors(report.outcomes))
    sections = [
        element("section", _heading(outcome), *model_parts(outcome), id=anchors[number])
        for number, outcome in enumerate(report.outcomes)
        if number in anchors
    ]
    return page(
        f"onnx-ci {report.command}: {_state(report)}",
        *_summary(report),
        _models(report, anchors),
        *_findings(report.findings),
        *sections,
    )


def render_outcome(outcome: Outcome, *, title: str) -> str:
    """One model in full: for shrink and compare."""
    return page(
        f"{title}: {outcome.verdict}",
        element("h1", element("span", title, class_="name"), " ", verdict_badge(outcome)),
        element("section", *model_parts(outcome)),
    )


def _state(report: RunReport) -> str:
    return "failed" if report.exit_code else "passed"


def _anchors(outcomes: Sequence[Outcome]) -> Iterator[tuple[int, str]]:
    """Where a model has a section of its own: those of which there is nothing to tell have none."""
    for number, outcome in enumerate(outcomes):
        if outcome.before is not None or outcome.findings:
            yield number, f"model-{number + 1}"


def _summary(report: RunReport) -> Iterator[Markup]:
    state = badge(_state(report), "bad" if report.exit_code else "good")
    yield element("h1", f"onnx-ci {report.command} ", state)
    before, after = report.size_before, report.size_after
    changed = bool(before) and before != after
    yield figures(
        ("models", str(judged(report))),
        ("size", format_size(before) if before else ""),
        (_after(report), format_size(after) if changed else ""),
        ("saved", change(before, after) if changed else ""),
        ("findings", _counts(report)),
    )
    policy = f"policy {report.policy}, " if report.policy else ""
    yield element("p", f"{policy}{report.seconds:.1f} s", class_="soft")
    yield from (element("p", note, class_="soft") for note in remarks(report))


def _counts(report: RunReport) -> str:
    """How many errors and warnings there are, in words."""
    everything = [*report.findings, *(f for outcome in report.outcomes for f in outcome.findings)]
    kinds = [(kind, sum(f.severity == kind for f in everything)) for kind in ("error", "warning")]
    return ", ".join(counted(count, kind) for kind, count in kinds if count) or "none"


def _after(report: RunReport) -> str:
    return "could be" if report.command == "check" else "after"


def _models(report: RunReport, anchors: dict[int, str]) -> Markup:
    if not report.outcomes:
        return element("p", "There was no model to look at.")
    columns = ("model", "size", _after(report), "saved", "left", "outputs", "verdict")
    rows = [_cells(outcome, anchors.get(number, "")) for number, outcome in enumerate(report.outcomes)]
    numbers = f"size,{_after(report)},saved"
    return element("section", table("Models", columns, rows, numbers=numbers))


def _cells(outcome: Outcome, anchor: str) -> Sequence[str]:
    path, before, after, saved, outputs, _ = model_row(outcome)
    name = element("a", path, href=f"#{anchor}") if anchor else path
    bar = size_bar(outcome.before.size, outcome.after.size) if outcome.before and outcome.after else ""
    return element("span", name, class_="name"), before, after, saved, bar, outputs, verdict_badge(outcome)


def _heading(outcome: Outcome) -> Markup:
    return element("h2", element("span", outcome.path, class_="name"), " ", verdict_badge(outcome))


def _findings(findings: Sequence[Finding]) -> Iterator[Markup]:
    if findings:
        yield element("section", element("h2", "Across models"), join([findings_list(findings)]))


TENSORS = 200  # rows that a person may still read; JSON lists all
OPS = 12


def render_info(info: ModelInfo) -> str:
    return page(
        info.path,
        element("h1", element("span", info.path, class_="name")),
        *_head(info),
        element("section", *_types(info)),
        element("section", *_tensors(info)),
        element("section", *_ops(info)),
    )


def _head(info: ModelInfo) -> Iterator[Markup]:
    measure = info.measure
    yield figures(
        ("on disk", format_size(measure.size)),
        ("as gzip", format_size(measure.gzip) if measure.gzip is not None else ""),
        ("parameters", f"{measure.params or 0:,}"),
        ("tensors", f"{len(info.tensors):,}"),
        ("copies", format_size(info.duplicate_bytes) if info.duplicate_bytes else "none"),
    )
    producer = info.producer or "an unnamed exporter"
    yield element("p", f"opset {info.opset}, IR {info.ir_version}, by {producer}", class_="soft")
    if info.shrunk_by:
        yield element("p", f"shrunk by onnx-ci with {', '.join(info.shrunk_by)}", class_="soft")


def _types(info: ModelInfo) -> Iterator[Markup]:
    yield element("h2", "Bytes by type")
    parts = [*info.types.items(), ("graph, names", info.other_bytes)]
    rows = [(name, format_size(size), *_share(size / info.measure.size)) for name, size in parts]
    yield table("", ("type", "size", "share", "of the file"), rows, numbers="size,share")
    if info.duplicate_bytes:
        share = format_percent(info.duplicate_bytes / info.measure.size)
        yield element(
            "p", f"{format_size(info.duplicate_bytes)} ({share}) are copies that dedupe would drop."
        )


def _share(share: float) -> tuple[str, str]:
    return format_percent(share), share_bar(share, f"{format_percent(share)} of the file")


def _tensors(info: ModelInfo) -> Iterator[Markup]:
    yield element("h2", "Tensors by size")
    if not info.tensors:
        yield element("p", "There are none.")
        return
    columns = ("tensor", "type", "shape", "copies", "size", "share", "of the file")
    yield table("", columns, map(_row, info.tensors[:TENSORS]), numbers="copies,size,share")
    rest = info.tensors[TENSORS:]
    if rest:
        together = format_size(sum(tensor.size for tensor in rest))
        yield element("p", f"And {len(rest):,} more, {together} together; --format json lists all.")


def _row(tensor: TensorInfo) -> tuple[str, ...]:
    shape = " × ".join(map(str, tensor.shape)) or "scalar"  # noqa: RUF001
    copies = str(tensor.copies) if tensor.copies > 1 else ""
    name = element("span", tensor.name or "(unnamed)", class_="name")
    return name, tensor.dtype, shape, copies, format_size(tensor.size), *_share(tensor.share)


def _ops(info: ModelInfo) -> Iterator[Markup]:
    yield element("h2", f"{info.nodes:,} nodes")
    rows = [(op, f"{count:,}") for op, count in list(info.ops.items())[:OPS]]
    yield table("The most used operators", ("operator", "nodes"), rows, numbers="nodes")
