"""Reports of commands that only look, as lines and tables: one value, drawn as text, Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onnx_ci import results
from onnx_ci.report.text import aligned, counted, flowed
from onnx_ci.util.sizes import format_percent, format_size
from onnx_ci.util.text import Style, one_line, shell_word

SHOWN = 20  # rows of a table, but for HTML
INDENT = 4  # spaces before a table
LONGEST = 160  # characters of a value
MANY_TIMES = 10.0  # from here on it is no percentage any more


@dataclass(frozen=True)
class Section:
    """A table with its title; `numbers` are the columns to align at the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    more: str = ""  # what lists all, where not even these rows are all
    # For HTML alone: what to draw at the end of each row.
    spreads: tuple[results.ValueSpread | None, ...] = ()

    def filled(self) -> Section:
        """Without columns in which nothing is."""
        kept = [n for n in range(len(self.columns)) if not n or any(row[n] for row in self.rows)]
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[n] for n in kept), rows=rows)

    def left_out(self, shown: int) -> list[str]:
        """What to say below a table that shows so many rows."""
        if len(self.rows) <= shown:
            return []
        return [self.more or f"and {len(self.rows) - shown:,} more (--format json lists all)"]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    title: str
    lines: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    picture: str = ""  # for HTML alone: Markup


def render(sheet: Sheet, name: str, style: Style, limit: int = 0) -> str:
    """`limit` is what Markdown may have at most; 0 stands for that of a comment."""
    from onnx_ci.report import html, markdown

    if name == "markdown":
        return markdown.render_sheet(sheet, limit or markdown.COMMENT)
    return html.render_sheet(sheet) if name == "html" else render_text(sheet, style)


def render_text(sheet: Sheet, style: Style) -> str:
    lines = [style.paint(one_line(sheet.title), "bold"), *(f"  {one_line(line)}" for line in sheet.lines)]
    for section in (each.filled() for each in sheet.sections):
        lines += ["", style.paint(f"  {one_line(section.title)}", "bold")]
        below = [*_aligned(section, style), *section.left_out(SHOWN)]
        lines += (f"{' ' * INDENT}{line}" for line in below)
    return "\n".join(lines) + "\n"


def _aligned(section: Section, style: Style) -> Iterator[str]:
    rows = [section.columns, *(tuple(map(one_line, row)) for row in section.rows[:SHOWN])]
    numbers = [place for place, name in enumerate(section.columns) if name in section.numbers]
    lines = list(aligned(rows, right=numbers))
    room = style.width - INDENT
    if style.width and room < max(map(len, lines)):  # one row below the other
        for name, *cells in rows[1:]:
            yield name
            titled = zip(section.columns[1:], cells, strict=True)
            yield from flowed(((title, cell, "") for title, cell in titled), room, style)
        return
    yield style.paint(lines[0], "dim")
    yield from lines[1:]


def diff_sheet(diff: results.ModelDiff) -> Sheet:
    """Two models, and all in which they differ."""
    lines = [f"size {_was_and_is(diff.size_before, diff.size_after)}"]
    if diff.params_before != diff.params_after:
        lines.append(f"parameters {diff.params_before:,} -> {diff.params_after:,}")
    if nodes := _counts(diff.node_counts, renamed="with other names for what they give"):
        lines.append(f"nodes: {', '.join(nodes)}")
    lines.append(f"tensors: {', '.join([*_counts(diff.tensor_counts), f'{diff.same_tensors:,} the same'])}")
    if not diff.exact:
        lines.append("values were compared in samples of each large tensor; onnx-ci diff --exact reads all")
    lines += diff.notes
    if not diff.differs:
        lines.insert(0, "no difference" if diff.exact and not diff.notes else "no difference was found")
    changes = [
        ("interface", diff.interface),
        ("opset", diff.opsets),
        ("about the model", diff.header),
        ("metadata", diff.metadata),
        ("operators", diff.operators),
    ]
    sections = [_changes(title, items) for title, items in changes if items]
    if diff.layers:
        rows = tuple(map(_layer, diff.layers))
        sections.append(Section("changed tensors by layer", LAYERS, rows, LAYERS[1:]))
    if diff.tensors:
        rows, spreads = tuple(map(_tensor, diff.tensors)), tuple(change.values for change in diff.tensors)
        sections.append(Section("tensors that changed", TENSORS, rows, TENSORS[4:8], spreads=spreads))
    if diff.nodes:
        sections.append(_changes("nodes that changed", diff.nodes))
    return Sheet(title=f"{diff.before} -> {diff.after}", lines=tuple(lines), sections=tuple(sections))


def base_sheet(diff: results.ModelDiff) -> Sheet:
    """The difference to the base, as a part of the report of a run."""
    sheet = diff_sheet(diff)
    before, after = (shell_word(one_line(name)) for name in (diff.before, diff.after))
    more = f"onnx-ci diff {before} {after} lists all"
    return replace(sheet, sections=tuple(replace(each, more=more) for each in sheet.sections))


LAYERS: tuple[str, ...] = ("layer", "tensors", "was", "is", "values moved by")
TENSORS: tuple[str, ...] = (
    *("tensor", "change", "was", "is", "size"),
    *("elements", "values moved by", "at most", "note"),
)


def _counts(counts: results.ChangeCounts, renamed: str = "renamed") -> list[str]:
    words = {"changed": "changed", "added": "added", "gone": "gone", "renamed": renamed}
    return [f"{getattr(counts, state):,} {word}" for state, word in words.items() if getattr(counts, state)]


def _was_and_is(before: int, after: int) -> str:
    if before == after:
        return f"{format_size(after)}, the same"
    share = f", {after / before - 1:+.1%}" if before else ""
    return f"{format_size(before)} -> {format_size(after)} ({after - before:+,} bytes{share})"


def _changes(title: str, changes: Sequence[results.Difference]) -> Section:
    numbers = all(isinstance(v, int | None) for change in changes for v in (change.before, change.after))
    rows = tuple((change.name, _shown(change.before), _shown(change.after)) for change in changes)
    return Section(title, ("what", "was", "is"), rows, ("was", "is") if numbers else ())


def _shown(value: str | int | None) -> str:
    if value is None:
        return "-"
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _relative(relative: float | None) -> str:
    if relative is None:
        return ""
    return format_percent(relative) if relative < MANY_TIMES else f"{relative:.3g}x"


def _layer(layer: results.LayerChange) -> tuple[str, ...]:
    sizes = format_size(layer.size_before), format_size(layer.size_after)
    return layer.prefix, f"{layer.tensors:,}", *sizes, _relative(layer.relative)


def _tensor(change: results.TensorChange) -> tuple[str, ...]:
    moved = change.moved
    note = f"was {change.former}" if change.former else ""
    if moved is not None and moved.not_finite:
        note = f"{counted(moved.not_finite, 'element')} became NaN or infinite"
    return (
        change.name,
        change.state,
        change.before or "",
        (change.after if change.after != change.before else "") or "",
        format_size(change.size_after or change.size_before),
        "" if moved is None else format_percent(moved.share),
        "" if moved is None else _relative(moved.relative),
        "" if moved is None or moved.max_abs is None else f"{moved.max_abs:.3g}",
        note,
    )


def variants_sheet(variants: Sequence[results.Variant], inputs: int, metric: str) -> Sheet:
    """The classic table: one row a model, the first being what the others are held against; `inputs` is how
    many they were run on."""
    columns = (
        *("model", "verdict", "parameters", "size", "gzip", "inference", "ratio", "load", "memory"),
        *("cosine", "sqnr", "top-1", metric),
    )
    rows = tuple(map(_variant, variants))
    sections = [Section("models", columns, rows, columns[1:])]
    lines = [f"{inputs} inputs"] if inputs else []
    lines += dict.fromkeys(variant.problem for variant in variants if variant.problem)
    for variant in variants:
        if variant.divergence is not None:
            sections += _divergence(variant.path, variant.divergence)
            lines += _divergence_lines(variant.path, variant.divergence)
    title = f"{counted(len(variants), 'model')}, held against {variants[0].path}"
    return Sheet(title=title, lines=tuple(lines), sections=tuple(sections))


def _variant(variant: results.Variant) -> tuple[str, ...]:
    about = "about " if variant.estimated else ""
    ratio = ""
    if variant.ratio is not None:
        ratio = f"{variant.ratio:.2f}x ({variant.low:.2f} to {variant.high:.2f})"
    exact = variant.max_abs == 0.0
    return (
        variant.path,
        (variant.verdict or "").replace("_", " "),
        "" if variant.params is None else f"{variant.params:,}",
        "" if variant.size is None else format_size(variant.size),
        "" if variant.gzip is None else f"{about}{format_size(variant.gzip)}",
        "" if variant.seconds is None else f"{variant.seconds * 1e3:.3g} ms",
        ratio,
        "" if variant.load is None else f"{variant.load * 1e3:.3g} ms",
        "" if variant.memory is None else format_size(variant.memory),
        "" if variant.cosine is None else f"{variant.cosine:.6f}",
        "" if variant.sqnr is None else "identical" if exact else f"{variant.sqnr:.1f} dB",
        "" if variant.top1 is None else format_percent(variant.top1),
        "" if variant.score is None else f"{variant.score:g}",
    )


def _divergence(path: str, found: results.Divergence) -> Iterator[Section]:
    if found.first is None:
        return
    gaps = [("first", found.first), *(("worst", gap) for gap in found.worst)]
    rows = tuple(
        (gap.name, place, gap.op, f"{gap.sqnr:.1f} dB", _relative(gap.relative), ", ".join(gap.weights))
        for place, gap in gaps
    )
    columns = ("tensor", "which", "operator", "sqnr", "error", "weights")
    title = f"where {path} parts, of {counted(found.compared, 'tensor')}"
    yield Section(title, columns, rows, ("sqnr", "error"))


def _divergence_lines(path: str, found: results.Divergence) -> Iterator[str]:
    if found.compared and found.first is None:
        yield f"{path}: {counted(found.compared, 'inner tensor')} compared, none is off by more than rounding"
    if found.skip:  # as a policy takes it: JSON is YAML too
        yield f"{path}: to leave alone what loses most: skip: {json.dumps(found.skip)}"
    if found.note:
        yield f"{path}: {found.note}"
