"""The report as one HTML file: a summary, a table of models, and a section for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from onnx_ci import results
from onnx_ci.report import text
from onnx_ci.report.html_page import Markup, badge, curve, element, figures, page, share_bar, size_bar, table
from onnx_ci.util.sizes import format_percent, format_size
from onnx_ci.util.text import counted

SHOWN = 12  # tensors that are seen at once; the others are folded away
TENSORS = 200  # rows that a person may still read; JSON lists all
OPS = 12
PROOFS = {"passed": "good", "failed": "bad", "not_run": "dim"}
SEVERITIES = {"error": "bad", "warning": "warn"}


def render_run(report: results.RunReport) -> str:
    # Models of which there is nothing to tell have no section of their own.
    sections = {
        f"model-{number}": outcome
        for number, outcome in enumerate(report.outcomes, 1)
        if outcome.before is not None or outcome.findings
    }
    parts = [*_summary(report), _models(report, sections)]
    if report.findings:
        parts.append(element("section", element("h2", "Across models"), findings_list(report.findings)))
    for anchor, outcome in sections.items():
        heading = _heading("h2", outcome.path, outcome)
        parts.append(element("section", heading, *model_parts(outcome), id=anchor))
    return page(f"onnx-ci {report.command}: {_state(report)}", *parts)


def render_outcome(outcome: results.Outcome, *, title: str) -> str:
    """One model in full: for shrink and compare."""
    return page(
        f"{title}: {outcome.verdict}",
        _heading("h1", title, outcome),
        element("section", *model_parts(outcome)),
    )


def _state(report: results.RunReport) -> str:
    return "failed" if report.exit_code else "passed"


def _summary(report: results.RunReport) -> Iterator[Markup]:
    state = badge(_state(report), "bad" if report.exit_code else "good")
    yield element("h1", f"onnx-ci {report.command} ", state)
    before, after = report.size_before, report.size_after
    changed = bool(before) and before != after
    yield figures(
        ("models", str(text.judged(report))),
        ("size", format_size(before) if before else ""),
        (text.after_word(report), format_size(after) if changed else ""),
        ("saved", text.change(before, after) if changed else ""),
        ("findings", _counts(report)),
    )
    policy = f"policy {report.policy}, " if report.policy else ""
    yield element("p", f"{policy}{report.seconds:.1f} s", class_="soft")
    yield from (element("p", note, class_="soft") for note in text.remarks(report))


def _counts(report: results.RunReport) -> str:
    """How many errors and warnings there are, in words."""
    counts = Counter(finding.severity for finding in report.all_findings)
    kinds = [text.counted(counts[kind], kind) for kind in ("error", "warning") if counts[kind]]
    return ", ".join(kinds) or "none"


def _models(report: results.RunReport, sections: Collection[str]) -> Markup:
    if not report.outcomes:
        return element("p", "There was no model to look at.")
    columns = ("model", "size", text.after_word(report), "saved", "left", "outputs", "verdict")
    rows = [_cells(outcome, f"model-{n}", sections) for n, outcome in enumerate(report.outcomes, 1)]
    numbers = f"size,{text.after_word(report)},saved"
    return element("section", table("Models", columns, rows, numbers=numbers))


def _cells(outcome: results.Outcome, anchor: str, sections: Collection[str]) -> Sequence[str]:
    path, before, after, saved, outputs, _ = text.model_row(outcome)
    name = element("a", path, href=f"#{anchor}") if anchor in sections else path
    bar = size_bar(outcome.before.size, outcome.after.size) if outcome.before and outcome.after else ""
    return _name(name), before, after, saved, bar, outputs, _verdict_badge(outcome)


def _heading(level: str, title: str, outcome: results.Outcome) -> Markup:
    return element(level, _name(title), " ", _verdict_badge(outcome))


def _name(text: str) -> Markup:
    """Something that may be long, and is broken where it has to be."""
    return element("span", text, class_="name")


def _verdict_badge(outcome: results.Outcome) -> Markup:
    return badge(text.verdict_word(outcome), text.tone(outcome))


def model_parts(outcome: results.Outcome) -> Iterator[Markup]:
    if outcome.findings:
        yield findings_list(outcome.findings)
    yield from _measures(outcome)
    yield from _steps(outcome.steps)
    yield from plan_parts(outcome)
    if outcome.before is not None:
        yield from _proof(outcome.verification)
    if outcome.work is not None:
        yield element("p", f"Work: {outcome.work.words}.", class_="soft")


def findings_list(findings: Sequence[results.Finding]) -> Markup:
    return element("ul", *map(_finding, findings), class_="findings")


def _finding(finding: results.Finding) -> Markup:
    mark = badge(finding.severity, SEVERITIES.get(finding.severity, "dim"))
    hint = [element("p", finding.hint, class_="soft")] if finding.hint else []
    message = element("p", mark, " ", element("code", finding.code), " ", finding.message)
    return element("li", message, *hint, class_=finding.severity)


def _measures(outcome: results.Outcome) -> Iterator[Markup]:
    rows = list(_numbers(outcome))
    if rows:
        rule = f"rule {outcome.rule_pattern!r}, line {outcome.rule_line}" if outcome.rule_line else ""
        yield element("h3", "Numbers")
        first = "before" if outcome.after else "now"
        columns = ("measure", first, "after", "change")
        yield table(rule, columns, rows, numbers=",".join(columns[1:]))


def _numbers(outcome: results.Outcome) -> Iterator[tuple[str, ...]]:
    before, after, latency = outcome.before, outcome.after, outcome.latency
    if before is not None:
        for name, old, new in text.sizes_of(before, after):
            last = (format_size(new), text.change(old, new)) if new is not None else ("", "")
            yield name, format_size(old), *last
        if before.params is not None:
            after_params = f"{after.params:,}" if after is not None and after.params is not None else ""
            yield "parameters", f"{before.params:,}", after_params, ""
    if latency is not None:
        labels = {"memory": "memory to load"}
        notes = {"latency": f"{latency.ratio:.2f}x ({latency.low:.2f} to {latency.high:.2f}, 95%)"}
        for name, was, now in text.latency_rows(latency):
            yield labels.get(name, name), was, now, notes.get(name, "")


def _steps(steps: Sequence[results.Step]) -> Iterator[Markup]:
    if not steps:
        return
    columns = ("method", "size before", "size after", "tensors", "time", "note")
    yield element("h3", "Steps")
    yield table("", columns, map(_step, steps), numbers="size before,size after,tensors,time")


def _step(step: results.Step) -> tuple[str, ...]:
    sizes = format_size(step.size_before), format_size(step.size_after)
    tensors = f"{step.tensors:,}" if step.tensors else ""
    return step.method, *sizes, tensors, f"{step.seconds:.2f} s", step.note


def _proof(verification: results.Verification) -> Iterator[Markup]:
    yield element("h3", "Verification")
    status = badge(verification.status.replace("_", " "), PROOFS[verification.status])
    yield element("p", status, " ", text.proof_reason(verification).removeprefix(":").strip())
    covered = text.coverage_words(verification)
    if covered:
        yield element("p", covered, class_="soft")
    yield from (element("p", line) for line in text.noise_words(verification))
    if verification.outputs:
        columns = (*text.OUTPUT_COLUMNS[:-1], "note")
        rows = [text.output_row(output) for output in verification.outputs]
        yield table("The worst over all samples", columns, rows, numbers=",".join(text.OUTPUT_COLUMNS[1:-1]))
    if verification.runtimes:
        runs = [text.runtime_row(run) for run in verification.runtimes]
        yield table("Where both were run", ("runtime", "status", "inputs", "outputs"), runs)


def plan_parts(outcome: results.Outcome) -> Iterator[Markup]:
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


def _alternative(alternative: results.Alternative) -> tuple[str, ...]:
    cosine = f"{alternative.cosine:.6f}" if alternative.cosine is not None else ""
    sqnr = f"{alternative.sqnr:.1f} dB" if alternative.sqnr is not None else ""
    return ", ".join(alternative.methods), format_size(alternative.size), cosine, sqnr, alternative.verdict


def _as_points(alternatives: Sequence[results.Alternative]) -> list[results.Point]:
    """Where nothing was taken there is no plan, but what was measured can be shown all the same."""
    return [
        results.Point(size=other.size, cosine=other.cosine, sqnr=other.sqnr, holds=other.state != "refused")
        for other in alternatives
        if other.state and other.cosine is not None and other.sqnr is not None
    ]


def _plan(plan: results.Planned) -> Iterator[Markup]:
    yield element("h3", "Plan")
    forms = ", ".join(f"{count:,} as {label}" for label, count in plan.forms)
    left = plan.tensors - sum(count for _, count in plan.forms)
    forms += f", {left:,} as they were" if left else ""
    yield element(
        "p",
        f"{counted(plan.tensors, 'tensor')}: {forms}; {counted(plan.trials, 'trial')}, {plan.seconds:.1f} s.",
    )
    if plan.untried:
        yield element("p", f"Not all was tried: {plan.untried}.")
    if plan.kept:
        yield _kept("Tensors not in the smallest form, the most sensitive first", plan.kept[:SHOWN])
    more = plan.kept[SHOWN:]
    if more:
        yield element("details", element("summary", f"{len(more):,} more tensors"), _kept("", more))


def _kept(caption: str, kept: Sequence[results.KeptTensor]) -> Markup:
    rows = [(_name(tensor.name), format_size(tensor.size), tensor.form, tensor.why) for tensor in kept]
    return table(caption, ("tensor", "size before", "form", "why"), rows, numbers="size before")


def render_info(info: results.ModelInfo) -> str:
    return page(
        info.path,
        element("h1", _name(info.path)),
        *_head(info),
        element("section", *_values(info)),
        element("section", *_types(info)),
        element("section", *_tensors(info)),
        element("section", *_ops(info)),
    )


def _head(info: results.ModelInfo) -> Iterator[Markup]:
    measure, about = info.measure, "about " if info.estimated else ""
    yield figures(
        ("on disk", format_size(measure.size)),
        ("as gzip", f"{about}{format_size(measure.gzip)}" if measure.gzip is not None else ""),
        ("parameters", f"{measure.params or 0:,}"),
        ("tensors", f"{len(info.tensors):,}"),
        ("copies", format_size(info.duplicate_bytes) if info.duplicate_bytes else "none"),
    )
    producer = info.producer or "an unnamed exporter"
    yield element("p", f"opset {info.opset}, IR {info.ir_version}, by {producer}", class_="soft")
    if info.shrunk_by:
        yield element("p", f"shrunk by onnx-ci with {', '.join(info.shrunk_by)}", class_="soft")


def _values(info: results.ModelInfo) -> Iterator[Markup]:
    yield element("h2", "Inputs and outputs")
    rows = [("input", value.name, value.type) for value in info.inputs]
    rows += [("output", value.name, value.type) for value in info.outputs]
    yield table("", ("", "name", "type"), rows)


def _types(info: results.ModelInfo) -> Iterator[Markup]:
    yield element("h2", "Bytes by type")
    parts = [*info.types.items(), *info.attribute_rows, ("graph, names", info.other_bytes)]
    rows = [(name, format_size(size), *_share(size / info.measure.size)) for name, size in parts]
    yield table("", ("type", "size", "share", "of the file"), rows, numbers="size,share")
    if info.duplicate_bytes:
        share = format_percent(info.duplicate_bytes / info.measure.size)
        yield element(
            "p", f"{format_size(info.duplicate_bytes)} ({share}) are copies that dedupe would drop."
        )


def _share(share: float) -> tuple[str, str]:
    return format_percent(share), share_bar(share, f"{format_percent(share)} of the file")


def _tensors(info: results.ModelInfo) -> Iterator[Markup]:
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


def _row(tensor: results.TensorInfo) -> tuple[str, ...]:
    shape = " × ".join(map(str, tensor.shape)) or "scalar"  # noqa: RUF001
    copies = str(tensor.copies) if tensor.copies > 1 else ""
    name = _name(tensor.name or "(unnamed)")
    return name, tensor.dtype, shape, copies, format_size(tensor.size), *_share(tensor.share)


def _ops(info: results.ModelInfo) -> Iterator[Markup]:
    yield element("h2", counted(info.nodes, "node"))
    rows = [(op, f"{count:,}") for op, count in list(info.ops.items())[:OPS]]
    yield table("The most used operators", ("operator", "nodes"), rows, numbers="nodes")
