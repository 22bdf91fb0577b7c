"""How a model's form was found: which tensors are stored how and why, and what else was tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ci.report.curve import curve
from onnx_ci.report.markup import Markup, element, table
from onnx_ci.results import Alternative, KeptTensor, Outcome, Planned, Point
from onnx_ci.sizes import format_size

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
        Point(size=one.size, cosine=one.cosine, sqnr=one.sqnr, holds=not one.verdict.startswith("refused"))
        for one in alternatives
        if one.cosine is not None and one.sqnr is not None
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
