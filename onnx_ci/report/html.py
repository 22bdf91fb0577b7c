"""The report as one HTML file: a summary, a table of models, and a section for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from onnx_ci import results
from onnx_ci.report import html_page, text
from onnx_ci.report.html_page import Box, Markup, badge, element, join, number, sized, table
from onnx_ci.report.sheet import Sheet, base_sheet
from onnx_ci.util.sizes import format_percent, format_size
from onnx_ci.util.text import counted

SHOWN = 12  # tensors that are seen at once; the others are folded away
TENSORS = 200  # rows that a person may still read; JSON lists all
OPS = 12
FULL = 200  # models with maps, proofs and all
ROWS = 500  # of a table of a command that only looks
MARGIN = (
    "A mix is taken only with a safety margin: it may use up a quarter of the noise that the tolerance allows"
    " (6 dB less than all of it), since it was chosen by the very inputs it is measured on, and others may be"
    f" harder; with {results.ENOUGH} samples of your own it may use half (3 dB)."
)
PROOFS = {"passed": "good", "failed": "bad", "not_run": "dim"}
SEVERITIES = {"error": "bad", "warning": "warn"}


def render_run(report: results.RunReport) -> str:
    # Models of which there is nothing to tell have no section of their own.
    ordered = sorted(report.outcomes, key=_rank)
    full, others = ordered[:FULL], ordered[FULL:]
    told = [each for each in full if _has_section(each)]
    brief = [each for each in others if _has_section(each) and (not each.is_well or _is_another(each))]
    anchors = {id(outcome): f"model-{number}" for number, outcome in enumerate([*told, *brief], 1)}
    parts = [
        *_summary(report),
        *_to_do(report),
        _models(report, ordered, anchors),
        *_model_map(report, anchors),
    ]
    if report.findings:
        parts.append(_titled("Across models", findings_list(report.findings)))
    parts += [_section(outcome, anchors[id(outcome)]) for outcome in told]
    if others:
        parts.append(element("p", _left_out(len(brief), len(others) - len(brief)), class_="soft"))
    parts += [_section(outcome, anchors[id(outcome)], brief=True) for outcome in brief]
    return html_page.page(f"onnx-ci {report.command}: {_state(report)}", *parts, about=_about(report))


def render_outcome(outcome: results.Outcome, *, title: str) -> str:
    """One model in full: for shrink and compare."""
    return html_page.page(
        f"{title}: {outcome.verdict}",
        _heading("h1", title, outcome),
        element("section", *model_parts(outcome)),
    )


def _rank(outcome: results.Outcome) -> tuple[int, int]:
    """The worst first, and of those the largest."""
    severities = {finding.severity for finding in outcome.findings}
    worst = next((n for n, kind in enumerate(("error", "warning")) if kind in severities), 2)
    return worst + outcome.is_well, -(outcome.now.size if outcome.now else 0)


def _has_section(outcome: results.Outcome) -> bool:
    return outcome.before is not None or bool(outcome.findings)


def _is_another(outcome: results.Outcome) -> bool:
    """Whether a model is not what it was, or not what it is going to be."""
    return outcome.after is not None or (outcome.base is not None and outcome.base.state != "unchanged")


def _left_out(brief: int, rest: int) -> str:
    words = [f"The first {FULL:,} models are shown in full"]
    words += [f"{brief:,} more that failed or changed follow, without maps and proofs"] if brief else []
    words += [f"{rest:,} are in the table only"] if rest else []
    return f"{'; '.join(words)}. --format json has all, onnx-ci info draws the map of a model."


def _section(outcome: results.Outcome, anchor: str, *, brief: bool = False) -> Markup:
    """A model in full, or what matters most. One that is well is a line, until somebody wants to see more."""
    parts = [*(brief_parts(outcome) if brief else model_parts(outcome))]
    if not outcome.is_well:
        return element("section", _heading("h2", outcome.path, outcome), *parts, id=anchor, class_="model")
    size = format_size(outcome.now.size) if outcome.now else ""
    line = element("summary", _name(outcome.path), " ", _verdict_badge(outcome), f" {size}")
    return element("details", line, *parts, id=anchor, class_="model card")


def _state(report: results.RunReport) -> str:
    return "failed" if report.exit_code else "passed"


def _summary(report: results.RunReport) -> Iterator[Markup]:
    state = badge(_state(report), "bad" if report.exit_code else "good")
    yield element("h1", f"onnx-ci {report.command} ", state)
    before, after = report.size_before, report.size_after
    changed = bool(before) and before != after
    was, now = report.compared or (0, 0)
    yield html_page.figures(
        ("models", str(text.judged(report))),
        ("gone", str(len(report.gone) or "")),
        ("was", format_size(was) if report.compared else ""),
        ("size", format_size(before) if before else ""),
        ("change", text.difference(was, now) if report.compared else ""),
        (text.after_word(report), format_size(after) if changed else ""),
        ("saved", text.change(before, after) if changed else ""),
        ("findings", ", ".join(text.finding_counts(report)) or "none"),
    )
    policy = f"policy {report.policy}, " if report.policy else ""
    base = f", compared with {report.base[:12]}" if report.base else ""
    yield element("p", f"{policy}{report.seconds:.1f} s{base}", class_="soft")
    yield from (element("p", note, class_="soft") for note in text.remarks(report))
    yield element("div", id="search")


def _about(report: results.RunReport) -> str:
    """Where the models are from, and what judged them."""
    of = report.provenance
    if of is None:
        return ""
    commit = f"commit {of.commit[:12]} of {of.date}" if of.commit else ""
    return ", ".join(filter(None, [of.repository, commit, *of.versions]))


def _to_do(report: results.RunReport) -> Iterator[Markup]:
    """One list of what to do, errors first; what can be run is a command."""
    steps: dict[tuple[str, str], Markup] = {}
    found = [(outcome.path, finding) for outcome in report.outcomes for finding in outcome.findings]
    found += [("", finding) for finding in report.findings]
    for severity in SEVERITIES:
        for path, finding in found:
            if finding.severity == severity and finding.hint:
                what: Sequence[str] = [_name(path), ": ", finding.hint] if path else [finding.hint]
                if finding.command:
                    what = [element("code", finding.command, class_="command")]
                step = element("li", badge(finding.code, SEVERITIES[severity]), " ", *what)
                steps.setdefault((path, finding.hint), step)
    if steps:
        yield _titled("What to do", element("ol", *steps.values()), class_="to-do")


def _models(
    report: results.RunReport, ordered: Sequence[results.Outcome], anchors: Mapping[int, str]
) -> Markup:
    if not ordered and not report.gone:
        return element("p", "There was no model to look at.")
    titles = text.column_titles(report, compared=report.compared is not None)
    columns = [titles.get(key, key) for key in (*text.COLUMNS[:-1], "time", "verdict")]
    shown, folded = text.worth_a_row(ordered)
    empty = [""] * (len(columns) - 4)
    rows = [_cells(outcome, anchors.get(id(outcome), "")) for outcome in shown]
    rows += [[_name(model.path), sized(model.size), "", "gone", *empty] for model in report.gone]
    numbers = ",".join(titles.get(key, key) for key in (*text.NUMBERS, "time"))
    parts = [table("Models, the worst first", columns, rows, numbers=numbers)]
    if folded:
        more = [_cells(each, anchors.get(id(each), "")) for each in folded]
        summary = element("summary", text.folded_words(folded))
        parts.append(element("details", summary, table("", columns, more, numbers=numbers)))
    return element("section", *parts, class_="models")


def _cells(outcome: results.Outcome, anchor: str) -> list[str]:
    cells = text.model_cells(outcome)
    base = outcome.base.measure if outcome.base and outcome.base.state == "changed" else None
    uses = text.budget_uses(outcome)
    link = element("a", outcome.path, href=f"#{anchor}") if anchor else outcome.path
    return [
        _name(link),
        sized(base.size if base else None),
        sized(outcome.before.size if outcome.before else None),
        cells["change"],
        join(_use(*use) for use in uses[:1]),
        sized(outcome.after.size if outcome.after else None),
        cells["saved"],
        cells["outputs"],
        number(outcome.seconds, f"{outcome.seconds:.1f} s") if outcome.seconds else "",
        _verdict_badge(outcome),
    ]


def _use(name: str, used: int, allowed: int) -> Markup:
    """How much of a limit is used: a bar, and the same in words."""
    words, share = text.use_words(name, used, allowed), used / allowed
    return join([html_page.share_bar(share, words, "over" if share > 1 else ""), number(share, words)])


def _model_map(report: results.RunReport, anchors: Mapping[int, str]) -> Iterator[Markup]:
    """Where the bytes of a run are, and where they were or could be."""
    now, was, after = [], [], []
    for outcome in report.outcomes:
        if outcome.before is None:
            continue
        cells = text.model_cells(outcome)
        told = ("now", "change", "after", "verdict")
        words = ", ".join([cells["model"], *(cells[key] for key in told if cells[key])])
        path, size, link = outcome.path.split("/"), outcome.before.size, anchors.get(id(outcome), "")
        here = Box(path=path, size=size, words=words, kind=text.tone(outcome), link=link)
        base = outcome.base.measure if outcome.base else None
        now.append(here)
        was += [replace(here, size=base.size)] if base else []
        after.append(replace(here, size=(outcome.after or outcome.before).size))
    if len(now) < 2:
        return
    for each in report.gone:
        words = f"{each.path}, {format_size(each.size)}, gone"
        was.append(Box(path=each.path.split("/"), size=each.size, words=words, kind="dim"))
    maps = [(text.column_titles(report, compared=True)["now"], now)]
    maps[:0] = [("was", was)] if report.compared else []
    if sum(box.size for box in after) != sum(box.size for box in now):
        maps.append((text.after_word(report), after))
    yield _titled("Where the bytes are", html_page.treemap("Models by folder", maps))


def _titled(title: str, *parts: str, **attributes: str) -> Markup:
    return element("section", element("h2", title), *parts, **attributes)


def _heading(level: str, title: str, outcome: results.Outcome) -> Markup:
    return element(level, _name(title), " ", _verdict_badge(outcome))


def _name(text: str) -> Markup:
    """Something that may be long, and is broken where it has to be."""
    return element("span", text, class_="name")


def _verdict_badge(outcome: results.Outcome) -> Markup:
    return badge(text.verdict_word(outcome), text.tone(outcome))


def brief_parts(outcome: results.Outcome) -> Iterator[Markup]:
    if outcome.findings:
        yield findings_list(outcome.findings)
    yield from _measures(outcome)
    yield from _difference(outcome.base)


def model_parts(outcome: results.Outcome) -> Iterator[Markup]:
    yield from brief_parts(outcome)
    yield from _budgets(outcome)
    yield from _tensor_map(outcome)
    yield from _steps(outcome.steps)
    yield from plan_parts(outcome)
    if outcome.before is not None:
        yield from _proof(outcome.verification)
    yield from _ports(outcome)
    yield from _times(outcome)


def _difference(base: results.Base | None) -> Iterator[Markup]:
    """What changed in a model since the base, folded."""
    if base is not None and base.diff is not None:
        summary = element("summary", "what changed in it since the base")
        yield element("details", summary, *_sheet_parts(base_sheet(base.diff), "h4"))
    elif base is not None and base.undiffed:
        yield element("p", f"What changed in it is not shown: {base.undiffed}", class_="soft")


def render_sheet(sheet: Sheet) -> str:
    heading = element("h1", _name(sheet.title))
    return html_page.page(sheet.title, heading, *_sheet_parts(sheet, "h2"))


def _sheet_parts(sheet: Sheet, level: str) -> Iterator[Markup]:
    yield from (element("p", line, class_="soft") for line in sheet.lines)
    yield join([sheet.picture])
    for section in sheet.sections:
        rows = [(_name(row[0]), *row[1:]) for row in section.rows[:ROWS]]
        columns = section.columns
        if any(section.spreads):
            rows = [
                (*row, html_page.spread(values)) for row, values in zip(rows, section.spreads, strict=False)
            ]
            columns = (*columns, "values, was grey")
        drawn = table("", columns, rows, numbers=",".join(section.numbers))
        left_out = [element("p", line) for line in section.left_out(ROWS)]
        wide = element("div", drawn, class_="wide")
        kind = "section" if level == "h2" else "div"
        yield element(kind, element(level, section.title), wide, *left_out)


def _budgets(outcome: results.Outcome) -> Iterator[Markup]:
    rows = []
    for name, used, allowed in text.budget_uses(outcome):
        left = abs(allowed - used)
        words = f"{left:,}" if name == "params" else format_size(left)
        rows.append((name, _use(name, used, allowed), f"{words} {'left' if used <= allowed else 'over'}"))
    if rows:
        yield element("h3", "Budget")
        yield table("", ("limit", "used", "headroom"), rows)


def _tensor_map(outcome: results.Outcome) -> Iterator[Markup]:
    tensors, before = outcome.tensors, outcome.before
    if not tensors or before is None:
        return
    maps = [("before" if outcome.after else "now", [_tensor_box(each, each.before) for each in tensors])]
    if outcome.after is not None:
        maps.append(("after", [_tensor_box(each, each.after or 0, after=True) for each in tensors]))
    rest = before.size - sum(tensor.before for tensor in tensors)
    yield element("h3", "Where the bytes are")
    yield html_page.treemap(
        f"Tensors by layer; {format_size(max(rest, 0))} are in the graph and what else there is", maps
    )
    yield _type_legend(box.kind for _, boxes in maps for box in boxes if box.size)
    largest = [_tensor_row(tensor) for tensor in tensors[:SHOWN]]
    columns = ("tensor", "type", "shape", "before", "after", "what was done")
    numbers = table("", columns, largest, numbers="before,after")
    yield element("details", element("summary", "the largest tensors in numbers"), numbers)


def _tensor_box(tensor: results.TensorBytes, size: int, *, after: bool = False) -> Box:
    dtype = tensor.stored if after and tensor.stored else tensor.dtype
    sizes = [format_size(each) for each in (tensor.before, tensor.after) if each is not None]
    words = [tensor.name, f"{tensor.dtype} {shape_words(tensor.shape)}", " -> ".join(sizes), tensor.done]
    kind = type_kind(dtype) + (" gone" if tensor.after == 0 else "")
    return _in_layer(tensor.name, size, ", ".join(filter(None, words)), kind)


def _in_layer(tensor: str, size: int, words: str, kind: str) -> Box:
    """A tensor among those of its layer: exporters join the names of modules with dots or slashes."""
    path = [part for part in re.split(r"[./]+", tensor, maxsplit=20) if part] or ["(unnamed)"]
    return Box(path=path, size=size, words=words, kind=kind)


def _tensor_row(tensor: results.TensorBytes) -> tuple[str, ...]:
    sizes = sized(tensor.before), sized(tensor.after)
    return _name(tensor.name), tensor.dtype, shape_words(tensor.shape), *sizes, tensor.done


# Types of one colour.
KINDS = {
    "k0": ("float", "double"),
    "k1": ("float16", "bfloat16"),
    "k2": ("int8", "uint8"),
    "k3": ("int4", "uint4", "int2", "uint2"),
    "k4": ("int64", "int32", "uint64", "uint32", "int16", "uint16"),
}
OTHER = "k5"


def type_kind(dtype: str) -> str:
    return next((kind for kind, dtypes in KINDS.items() if dtype in dtypes), OTHER)


def _type_legend(used: Iterable[str]) -> Markup:
    """What the colours mean that were used."""
    kinds = {kind.split()[0] for kind in used}
    items = [(kind, ", ".join(dtypes)) for kind, dtypes in [*KINDS.items(), (OTHER, ("other",))]]
    signs = [_sign(kind, words) for kind, words in items if kind in kinds]
    return element("div", *signs, class_="legend")


def _sign(kind: str, words: str) -> Markup:
    square = element("svg", element("rect", class_=f"box {kind}", width=12, height=12), aria_hidden="true")
    return element("span", square, words)


def shape_words(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "scalar"  # noqa: RUF001


def _ports(outcome: results.Outcome) -> Iterator[Markup]:
    rows = [(_name(port.name), "input", port.type) for port in outcome.inputs]
    rows += [(_name(port.name), "output", port.type) for port in outcome.outputs]
    if rows:
        yield element("h3", "Inputs and outputs")
        yield table("", ("name", "is", "type"), rows)


def _times(outcome: results.Outcome) -> Iterator[Markup]:
    work = outcome.work
    if work is None and not outcome.seconds:
        return
    yield element("h3", "Time")
    if outcome.seconds:
        yield element("p", f"{outcome.seconds:.1f} s in this run.")
    if work is not None:
        stages = [(name, getattr(work, name)) for name in ("loading", "running", "comparing", "planning")]
        signs = [_sign(f"k{place}", name) for place, (name, _) in enumerate(stages)]
        yield join([html_page.stage_bar(stages), element("div", *signs, class_="legend")])
        yield element("p", f"Work, when it was done: {work.words}.", class_="soft")


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
        columns = ("measure", "in the base", first, "after", "change")
        yield table(rule, columns, rows, numbers=",".join(columns[1:]))
    if changed := text.change_words(outcome):
        yield element("p", f"Since the base: {changed}.")


def _numbers(outcome: results.Outcome) -> Iterator[tuple[str, ...]]:
    before, after, latency = outcome.before, outcome.after, outcome.latency
    if before is not None:
        for name, old, new in text.sizes_of(before, after):
            last = (format_size(new), text.change(old, new)) if new is not None else ("", "")
            was = getattr(outcome.base.measure, name) if outcome.base and outcome.base.measure else None
            yield name, format_size(was) if was is not None else "", format_size(old), *last
        if before.params is not None:
            after_params = f"{after.params:,}" if after is not None and after.params is not None else ""
            yield "parameters", "", f"{before.params:,}", after_params, ""
    if latency is not None:
        labels = {"memory": "memory to load"}
        notes = {"latency": f"{latency.ratio:.2f}x ({latency.low:.2f} to {latency.high:.2f}, 95%)"}
        for name, was, now in text.latency_rows(latency):
            yield labels.get(name, name), "", was, now, notes.get(name, "")


def _steps(steps: Sequence[results.Step]) -> Iterator[Markup]:
    if not steps:
        return
    columns = ("method", "size before", "size after", "tensors", "time", "note")
    yield element("h3", "Steps")
    yield table("", columns, map(_step, steps), numbers="size before,size after,tensors,time")


def _step(step: results.Step) -> tuple[str, ...]:
    sizes = sized(step.size_before), sized(step.size_after)
    tensors = number(step.tensors, f"{step.tensors:,}") if step.tensors else ""
    return step.method, *sizes, tensors, number(step.seconds, f"{step.seconds:.2f} s"), step.note


def _proof(verification: results.Verification) -> Iterator[Markup]:
    yield element("h3", "Verification")
    status = badge(verification.status.replace("_", " "), PROOFS[verification.status])
    yield element("p", status, " ", text.proof_reason(verification).removeprefix(":").strip())
    if covered := text.coverage_words(verification):
        yield element("p", covered, class_="soft")
    yield from (element("p", line) for line in text.noise_words(verification))
    if verification.outputs:
        columns = (*text.OUTPUT_COLUMNS[:-1], "note", "errors")
        rows = [
            (*text.output_row(output), html_page.histogram(output.histogram))
            for output in verification.outputs
        ]
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
    if drawn := html_page.curve(points):
        yield element("h3", "Size against error")
        yield drawn


def _alternative(alternative: results.Alternative) -> tuple[str, ...]:
    cosine = f"{alternative.cosine:.6f}" if alternative.cosine is not None else ""
    sqnr = f"{alternative.sqnr:.1f} dB" if alternative.sqnr is not None else ""
    size = number(alternative.size, alternative.size_words)
    return ", ".join(alternative.methods), size, cosine, sqnr, alternative.verdict


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
    tensors, trials = counted(plan.tensors, "tensor"), counted(plan.trials, "trial")
    yield element("p", f"{tensors}: {forms}; {trials}, {plan.seconds:.1f} s.")
    yield element("p", MARGIN, class_="soft")
    if plan.untried:
        yield element("p", f"Not all was tried: {plan.untried}.")
    if plan.kept:
        yield _kept("Tensors not in the smallest form, the most sensitive first", plan.kept[:SHOWN])
    if more := plan.kept[SHOWN:]:
        named = f", {len(more):,} of them named" if plan.unnamed else ""
        title = f"{len(more) + plan.unnamed:,} more tensors{named}"
        yield element("details", element("summary", title), _kept("", more))


def _kept(caption: str, kept: Sequence[results.KeptTensor]) -> Markup:
    rows = [(_name(tensor.name), sized(tensor.size), tensor.form, tensor.why) for tensor in kept]
    return table(caption, ("tensor", "size before", "form", "why"), rows, numbers="size before")


def render_info(info: results.ModelInfo) -> str:
    return html_page.page(
        info.path,
        element("h1", _name(info.path)),
        *_head(info),
        element("div", id="search"),
        *_info_map(info),
        _titled("Inputs and outputs", _values(info)),
        _titled("Bytes by type", *_types(info)),
        _titled("Tensors by size", *_tensors(info)),
        _titled(counted(info.nodes, "node"), _ops(info)),
    )


def _head(info: results.ModelInfo) -> Iterator[Markup]:
    measure, about = info.measure, "about " if info.estimated else ""
    yield html_page.figures(
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


def _info_map(info: results.ModelInfo) -> Iterator[Markup]:
    boxes = []
    for tensor in info.tensors:
        copies = f"{tensor.copies} copies" if tensor.copies > 1 else ""
        told = (tensor.name, f"{tensor.dtype} {shape_words(tensor.shape)}", format_size(tensor.size), copies)
        words = ", ".join(filter(None, told))
        boxes.append(_in_layer(tensor.name, tensor.size, words, type_kind(tensor.dtype)))
    if drawn := html_page.treemap("Tensors by layer", [("tensors", boxes)]):
        yield _titled("Where the bytes are", drawn, _type_legend(box.kind for box in boxes))


def _values(info: results.ModelInfo) -> Markup:
    rows = [("input", value.name, value.type) for value in info.inputs]
    rows += [("output", value.name, value.type) for value in info.outputs]
    return table("", ("kind", "name", "type"), rows)


def _types(info: results.ModelInfo) -> Iterator[Markup]:
    parts = [*info.types.items(), *info.attribute_rows, ("graph, names", info.other_bytes)]
    rows = [(name, sized(size), *_share(size / info.measure.size)) for name, size in parts]
    yield table("", ("type", "size", "share", "of the file"), rows, numbers="size,share")
    if info.duplicate_bytes:
        share = format_percent(info.duplicate_bytes / info.measure.size)
        copies = format_size(info.duplicate_bytes)
        yield element("p", f"{copies} ({share}) are copies that dedupe would drop.")


def _share(share: float) -> tuple[str, str]:
    words = format_percent(share)
    return number(share, words), html_page.share_bar(share, f"{words} of the file")


def _tensors(info: results.ModelInfo) -> Iterator[Markup]:
    if not info.tensors:
        yield element("p", "There are none.")
        return
    columns = ("tensor", "type", "shape", "copies", "size", "share", "of the file")
    yield table("", columns, map(_row, info.tensors[:TENSORS]), numbers="copies,size,share")
    if rest := info.tensors[TENSORS:]:
        together = format_size(sum(tensor.size for tensor in rest))
        yield element("p", f"And {len(rest):,} more, {together} together; --format json lists all.")


def _row(tensor: results.TensorInfo) -> tuple[str, ...]:
    copies = str(tensor.copies) if tensor.copies > 1 else ""
    kind = tensor.dtype, shape_words(tensor.shape)
    return _name(tensor.name or "(unnamed)"), *kind, copies, sized(tensor.size), *_share(tensor.share)


def _ops(info: results.ModelInfo) -> Markup:
    rows = [(op, number(count, f"{count:,}")) for op, count in list(info.ops.items())[:OPS]]
    return table("The most used operators", ("operator", "nodes"), rows, numbers="nodes")
