"""Commands that only look: `onnx-ci info`, `files`, `explain` and `survey`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.cli.arguments import read_tolerance
from onnx_ci.cli.output import ProgressLine, existing_path, flag, format_arguments, value, write_each
from onnx_ci.errors import ModelError, UsageError
from onnx_ci.gate import project
from onnx_ci.gate.project import Context, Judging
from onnx_ci.inputs.sample_paths import recorded_from
from onnx_ci.policy.load import matching_rules
from onnx_ci.policy.schema import Rule
from onnx_ci.repo.select import Wanted
from onnx_ci.util.sizes import format_percent, format_size
from onnx_ci.util.text import Style, counted, one_line

if TYPE_CHECKING:
    from onnx_ci.results import ModelInfo, Surveyed, SurveyedForm, TensorInfo


ARGUMENTS = {
    # No findings, so no format that shows them elsewhere.
    "info": (
        ("model", {"metavar": "MODEL"}),
        flag("--exact", "compress and hash all of a large model, instead of an estimate from samples of it"),
        *format_arguments("text", "json", "html"),
    ),
    "files": (
        "paths",
        flag("--all", "of every model"),
        flag("--null", "end each name with a NUL, for tar and xargs"),
        "--policy",
    ),
    "survey": ("paths", "--policy", "--tolerance", *format_arguments("text", "json")),
    "explain": (value("path", "PATH", "a model"), "--policy", "--no-cache"),
}
TOP = 20
SURVEYED = 10  # models whose rules are shown


def run_info(options: argparse.Namespace) -> int:
    path = existing_path(options.model, "info MODEL")
    from onnx_ci.model.measure import inspect_model

    info = inspect_model(path, options.model, exact=options.exact)

    def rendered(name: str, style: Style) -> str:
        if name == "json":
            from onnx_ci.report.json import dumps

            return dumps(asdict(info))
        if name == "html":
            from onnx_ci.report.html import render_info

            return render_info(info)
        return "\n".join(_text(info, style)) + "\n"

    write_each(options.formats, rendered)
    return 0


def _text(info: ModelInfo, style: Style) -> Iterator[str]:
    yield style.paint(one_line(info.path), "bold")
    about = "about " if info.estimated else ""
    gzip = f", {about}{format_size(info.measure.gzip)} as gzip" if info.measure.gzip is not None else ""
    yield f"  {format_size(info.measure.size)} on disk{gzip}, {info.measure.params or 0:,} parameters"
    producer = one_line(info.producer) or "an unnamed exporter"
    opsets = "".join(f", {one_line(domain)} {version}" for domain, version in info.opsets.items())
    yield f"  opset {info.opset}{opsets}, IR {info.ir_version}, {counted(info.nodes, 'node')}, by {producer}"
    ops = (f"{one_line(op)} {count}" for op, count in list(info.ops.items())[:8])
    yield f"  most used ops: {', '.join(ops)}"
    if info.shrunk_by:
        yield f"  shrunk by onnx-ci with {', '.join(map(one_line, info.shrunk_by))}"
    for title, values in (("inputs", info.inputs), ("outputs", info.outputs)):
        yield ""
        yield style.paint(f"  {title}", "bold")
        yield from (f"    {one_line(value.name)}: {one_line(value.type)}" for value in values[:TOP])
        if len(values) > TOP:
            yield f"    and {len(values) - TOP} more (--format json lists all)"
    yield ""
    yield style.paint("  bytes by type", "bold")
    types = [*info.types.items(), *info.attribute_rows, ("graph, names", info.other_bytes)]
    width = max(len(one_line(name)) for name, _ in types)
    for name, size in types:
        yield f"    {one_line(name):<{width}} {format_size(size):>9}  {size / info.measure.size:6.1%}"
    if info.duplicate_bytes:
        share = format_percent(info.duplicate_bytes / info.measure.size)
        yield f"  {format_size(info.duplicate_bytes)} ({share}) are copies that dedupe would drop"
    if not info.tensors:
        return
    yield ""
    yield style.paint("  largest tensors", "bold")
    yield from map(_tensor_line, info.tensors[:TOP])
    if len(info.tensors) > TOP:
        yield f"    and {len(info.tensors) - TOP} more (--format json lists all)"


def _tensor_line(tensor: TensorInfo) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    name = one_line(tensor.name) or "(unnamed)"
    copies = f"  x{tensor.copies}" if tensor.copies > 1 else ""
    size = f"{format_size(tensor.size):>9} {tensor.share:6.1%}"
    return f"    {size}  {tensor.dtype:<8} {shape:<16} {name}{copies}"


def run_files(options: argparse.Namespace) -> int:
    """All or nothing: nobody is to pack half a model because the list broke off."""
    if bool(options.paths) == options.all:
        raise UsageError("expected PATH or --all, and not both", hint="for example: onnx-ci files --all")
    context = project.open_context(options.policy)
    selection = project.select_models(context, Wanted(paths=options.paths, everything=options.all))
    if options.paths and selection.note:
        raise UsageError(selection.note)
    files = dict.fromkeys(file for model in selection.models for file in _files(context, model))
    names = [os.path.relpath(file) for file in files]
    if not options.null and not all("\n" not in name for name in names):
        raise UsageError("a file has a line end in its name", hint="onnx-ci files --null")
    end = b"\0" if options.null else b"\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(os.fsencode(name) + end for name in names))
    return 0


def _files(context: Context, model: Path) -> list[Path]:
    """The model and its data, each there and inside the repository. What a rule ignores need be no model."""
    from onnx_ci.model.load import data_files, open_model, opened_files

    try:
        with open_model(model, root=context.root) as opened:
            names, there = data_files(opened.proto), set(opened_files(opened))
    except ModelError:
        rule = project.ruling_context(context, model).rule_of(model)
        if rule is None or not rule.ignore:
            raise
        return [model]
    for name in names:
        if name not in there:
            raise ModelError(
                f"{os.path.relpath(model)}: {name!r} belongs to it, and is missing or not what it should be",
                hint="restore it: git checkout; git lfs pull; or dvc pull",
            )
    return [model, *(model.parent / name for name in names)]


def run_survey(options: argparse.Namespace) -> int:
    tolerance = read_tolerance(options.tolerance) if options.tolerance else None
    context = project.open_context(options.policy)
    wanted = Wanted(paths=options.paths, everything=not options.paths)
    selection = project.select_models(context, wanted)
    if options.paths and selection.note:
        raise UsageError(selection.note)
    rules = [(model, project.ruling_context(context, model).rule_of(model)) for model in selection.models]
    models = [model for model, rule in rules if rule is None or not rule.ignore or options.paths]
    found = survey(context, models, tolerance=tolerance)

    def rendered(name: str, style: Style) -> str:
        if name == "json":
            from onnx_ci.report.json import dumps

            return dumps({"version": 1, "models": [_surveyed_json(one) for one in found if one]})
        lines = [*survey_table(found, style), *_survey_lines(found, style)]
        return "\n".join(lines or ["there is no model to look at"]) + "\n"

    write_each(options.formats, rendered)
    return int(any(one is None or (one.problem and not one.forms) for one in found))


def survey(context: Context, models: Sequence[Path], **settings: Any) -> list[Surveyed | None]:
    from onnx_ci.gate.survey import survey_models

    with ProgressLine() as progress:
        return survey_models(context, models, progress=progress, **settings) if models else []


def survey_table(found: Sequence[Surveyed | None], style: Style) -> Iterator[str]:
    """A row a model: what it weighs, and what it would weigh in each form; then what could not be told."""
    from onnx_ci.gate.attempts import LEVELS

    models = [one for one in found if one is not None]
    if not models:
        return
    rows = [("model", "now", *LEVELS)]
    for one in models:
        forms = {form.level: form for form in one.forms}
        cells = (_form_cell(one, forms.get(level)) for level in LEVELS)
        rows.append((one_line(one.path), format_size(one.size), *cells))
    if len(models) > 1:
        sizes = [(one, {form.level: form.size for form in one.forms if form.proven}) for one in models]
        totals = [sum(held.get(level, one.size) for one, held in sizes) for level in LEVELS]
        now = sum(one.size for one in models)
        rows.append(("together", *map(format_size, (now, *totals))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield line if number else style.paint(line, "bold")
    for one in models:
        if one.problem:
            yield one_line(one.problem)
        for form in one.forms:
            if not form.proven:
                state = "refused" if form.verification.status == "failed" else "not verified"
                yield f"{one_line(one.path)}: {form.level} {state}: {one_line(form.verification.reason)}"


def _form_cell(model: Surveyed, form: SurveyedForm | None) -> str:
    if form is None:
        return "-"
    if form.verification.status == "not_run":
        return f"{format_size(form.size)} not verified"
    saved, worst = format_percent(1 - form.size / model.size), _worst_cosine(form)
    held = "" if form.proven else "refused "
    error = f" {worst:.5f}" if worst is not None and form.level != "exact" else ""
    return f"{format_size(form.size)} {held or f'-{saved}'}{error}"


def _worst_cosine(form: SurveyedForm) -> float | None:
    return min((output.cosine for output in form.verification.outputs), default=None)


def _survey_lines(found: Sequence[Surveyed | None], style: Style) -> Iterator[str]:
    """The rule for each form; of many models, those of the first show what they look like."""
    models = [one for one in found if one is not None and one.forms]
    if not models:
        return
    yield ""
    yield style.paint("what each takes, as a rule under `models:` of the policy, after the others", "bold")
    for one in models[:SURVEYED]:
        forms = [form for form in one.forms if form.verification.status != "not_run"]
        yield from (f"  {form.level:<8}  {_survey_rule(one, form)}" for form in forms)
    if len(models) > SURVEYED:
        yield f"  and so on for {len(models) - SURVEYED} more models (--format json has all)"
    if any(form.verification.inputs == "generated" for one in models for form in one.forms):
        yield "inputs were made up where a rule has no samples: `onnx-ci record -- PROGRAM` keeps real ones"
    yield "a number after a size is the cosine of the worst output; `fix` searches longer, and may find more"
    yield "not looked at: latency, other runtimes, your own score (evaluate); `fix` does where a rule asks"


def _survey_rule(model: Surveyed, form: SurveyedForm) -> str:
    from onnx_ci.gate.attempts import LEVELS
    from onnx_ci.policy.edit import survey_rule

    return survey_rule(model.matched, LEVELS[form.level])


def _surveyed_json(model: Surveyed) -> dict[str, Any]:
    forms = []
    for form in model.forms:
        proof = form.verification
        worst = {
            "cosine": _worst_cosine(form),
            "sqnr": min((output.sqnr for output in proof.outputs), default=None),
            "max_abs": max((output.max_abs for output in proof.outputs), default=None),
        }
        about = {"level": form.level, "size": form.size, "methods": form.methods, "status": proof.status}
        reason = {"reason": proof.reason, "inputs": proof.inputs, "samples": proof.samples}
        forms.append({**about, **reason, **worst, "rule": _survey_rule(model, form)})
    return {"path": model.path, "size": model.size, "problem": model.problem, "forms": forms}


def run_explain(options: argparse.Namespace) -> int:
    context = project.open_context(options.policy)
    selection = project.select_models(context, Wanted(paths=(options.path,)))
    style = Style.of(sys.stdout)
    for path in selection.models:
        sys.stdout.write(style.paint(one_line(context.name_of(path)), "bold") + "\n")
        for line in _rules(project.ruling_context(context, path), path):
            sys.stdout.write(f"{line}\n")
    from onnx_ci.report.text import render_outcome, verdict_word

    report = project.judge_selection("check", context, selection, Judging(cache=options.cache))
    for outcome in report.outcomes:
        title = f"what a check says: {verdict_word(outcome)}"
        sys.stdout.write("\n" + render_outcome(outcome, style, title=title))
    return 0


def _rules(context: Context, path: Path) -> Iterator[str]:
    file = context.policy.file
    rules = matching_rules(context.policy, context.name_of(path))
    if not rules:
        meanings = {"error": "which is an error", "warning": "which is a warning"}
        meaning = meanings.get(context.policy.unmatched, "and that is allowed")
        yield f"  no rule of {file} matches it, so it is not checked, {meaning} (unmatched)"
        return
    for rule in rules[:-1]:
        yield f"  {file}:{rule.line}: {rule.pattern!r} matches too, but a later rule wins"
    yield f"  {file}:{rules[-1].line}: {rules[-1].pattern!r} is the rule (the last match wins)"
    yield from _described(context.rule_of(path) or rules[-1])


def _described(rule: Rule) -> Iterator[str]:
    if rule.ignore:
        yield "    ignore: true, so it is not checked"
        return
    for item in fields(rule.budget):
        value = getattr(rule.budget, item.name)
        if value is not None:
            yield f"    budget {item.name}: {_limit(item.name, value)}"
    methods = (f"{m.name} {dict(m.options)}" if m.options else m.name for m in rule.methods)
    yield f"    methods, mildest first: {', '.join(methods) or 'none'}"
    yield f"    shrink: {rule.mode} ({MODES[rule.mode]})"
    given = ((item.name, getattr(rule.tolerance, item.name)) for item in fields(rule.tolerance))
    yield f"    tolerance, all must hold: {', '.join(f'{n} {v}' for n, v in given if v not in (None, False))}"
    source = f"samples {', '.join(rule.inputs.samples)}" if rule.inputs.samples else "derived from the graph"
    if recorded_from(rule.inputs.samples):
        source += " (recorded by `onnx-ci record`)"
    yield f"    inputs: {source}"
    if rule.runtimes:
        yield f"    onnxruntime: the installed one, and {', '.join(rule.runtimes)}"
    if rule.libraries:
        yield f"    libraries of operators: {', '.join(rule.libraries)}"
    if rule.only_new:
        yield "    only_new: what is wrong with a model that did not change is a warning"
    yield f"    savings under {rule.minimum_gain:.1%} are left alone; severity {rule.severity}"


def _limit(name: str, value: float) -> str:
    if name == "params":
        return f"{value:,}"
    if name in ("growth", "latency"):
        return format_percent(value)
    return f"{format_size(int(value))} ({value:,} bytes)"


MODES = {
    "to-budget": "exact methods always, approximate ones only as far as the budget needs",
    "smallest": "the smallest candidate within tolerance",
    "exact-only": "no approximate method",
}
