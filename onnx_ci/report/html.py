"""The report as one HTML file: a summary, a table of models, and a section for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.findings import Finding
from onnx_ci.report.bars import size_bar
from onnx_ci.report.html_model import findings_list, model_parts, verdict_badge
from onnx_ci.report.markup import Markup, element, join, table
from onnx_ci.report.page import badge, figures, page
from onnx_ci.report.words import change, counted, judged, model_row, remarks
from onnx_ci.results import Outcome, RunReport
from onnx_ci.sizes import format_size


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
