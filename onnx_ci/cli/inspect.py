"""Commands that only look: `onnx-ci info`, `diff`, `log`, `badge`, `files`, `explain` and `survey`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.cli import output
from onnx_ci.cli.arguments import read_tolerance
from onnx_ci.cli.output import dumps, existing_path, flag, format_arguments, value, write_each, write_to
from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.gate import project
from onnx_ci.gate.project import Context, Judging
from onnx_ci.inputs.sample_paths import recorded_from
from onnx_ci.policy.load import matching_rules
from onnx_ci.policy.schema import Operators, Rule, Versions
from onnx_ci.repo.content import Sources
from onnx_ci.repo.git import commit_of, find_root
from onnx_ci.repo.select import Wanted, all_models
from onnx_ci.repo.tree import Tree
from onnx_ci.util.sizes import PLACES, format_count, format_percent, format_size
from onnx_ci.util.text import Style, bar, clipped_start, counted, first_of, layers_of, one_line

if TYPE_CHECKING:
    from onnx_ci.results import ModelInfo, Surveyed, SurveyedForm, TensorInfo

ARGUMENTS = {
    # No findings, so no format that shows them elsewhere.
    "info": (
        ("model", {"metavar": "MODEL"}),
        flag("--exact", "compress and hash all of a large model, instead of an estimate from samples of it"),
        *format_arguments("text", "json", "html"),
    ),
    "diff": (
        value(
            "models A B", "two models, each a path or REV:PATH; one alone: what changed since HEAD", nargs="+"
        ),
        flag("--exact", "compare all values of a large model, instead of samples of them"),
        flag("--exit-code", "exit 1 where they differ, as git diff does"),
        flag("--textconv", "print one model line by line: what git diff shows, once it is told to"),
        *format_arguments("text", "json", "markdown", "html"),
        "--markdown-limit",
    ),
    "log": (
        value("model MODEL", "a model (default: all of the repository together)", nargs="?"),
        *format_arguments("text", "json", "markdown", "html", "svg"),
        "--markdown-limit",
    ),
    "badge": (
        value("model MODEL", "a model (default: all of the repository together)", nargs="?"),
        value("--of WHAT", "size, gzip or params", choices=("size", "gzip", "params"), default="size"),
        value("--label TEXT", "what stands on the left (default: model size, and the like)"),
        value("--format F", "svg, or json for shields.io/endpoint", choices=("svg", "json"), default="svg"),
        value("--output P", "the file to write", default=""),
        "--policy",
    ),
    "files": (
        "paths",
        flag("--all", "of every model"),
        flag("--null", "end each name with a NUL, for tar and xargs"),
        "--policy",
    ),
    "survey": ("paths", "--policy", "--tolerance", *format_arguments("text", "json")),
    "explain": (value("path PATH", "a model"), "--policy", "--no-cache"),
}
EXAMPLES = {
    "info": """\
onnx-ci info model.onnx
onnx-ci info model.onnx --output info.html""",
    "files": "onnx-ci files --all --null | xargs -0 tar -czf models.tar.gz",
    "explain": "onnx-ci explain models/encoder.onnx",
    "diff": """\
onnx-ci diff old.onnx new.onnx
onnx-ci diff v1.2:models/encoder.onnx models/encoder.onnx""",
    "log": """\
onnx-ci log models/encoder.onnx
onnx-ci log --format svg --output docs/model-size.svg""",
    "badge": "onnx-ci badge models/encoder.onnx --output docs/size.svg",
    "survey": """\
onnx-ci survey
onnx-ci survey models/encoder.onnx --tolerance cosine=0.99""",
}
TOP = 20
LONGEST_LAYER = 24  # characters, so that a line has at most 60 columns with its bar
BROKEN = 5  # models that are named where nothing can be listed
SURVEYED = 10  # models whose rules are shown


def run_info(options: argparse.Namespace) -> int:
    path = existing_path(options.model, "info MODEL")
    from onnx_ci.model.measure import inspect_model

    info = inspect_model(path, options.model, exact=options.exact)

    def rendered(name: str, style: Style) -> str:
        if name == "json":
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
    yield from _bars(info, style)
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


def _bars(info: ModelInfo, style: Style) -> Iterator[str]:
    """Where the bytes are: by type, and by what the names of tensors begin with."""
    sizes: Counter[str] = Counter()
    for tensor in info.tensors:
        sizes[tensor.name] += tensor.size
    layers: Counter[str] = Counter()
    for name, layer in layers_of(sizes).items():
        layers[layer] += sizes[name]
    types = [*info.types.items(), *info.attribute_rows, ("graph, names", info.other_bytes)]
    for title, parts in (("type", types), ("layer", layers.most_common())):
        if title == "layer" and len(parts) < 2:
            continue
        yield style.paint(f"  bytes by {title}", "bold")
        shown = [(clipped_start(one_line(name), LONGEST_LAYER), size) for name, size in parts]
        width = max(12, *(len(name) for name, _ in shown))
        largest = max(size for _, size in shown) or 1
        for name, size in shown:
            share = f"{size / info.measure.size:6.1%}"
            yield f"    {name:<{width}} {format_size(size):>9}  {share}  {bar(size / largest)}".rstrip()


def _tensor_line(tensor: TensorInfo) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    name = one_line(tensor.name) or "(unnamed)"
    copies = f"  x{tensor.copies}" if tensor.copies > 1 else ""
    size = f"{format_size(tensor.size):>9} {tensor.share:6.1%}"
    return f"    {size}  {tensor.dtype:<8} {shape:<16} {name}{copies}"


def run_diff(options: argparse.Namespace) -> int:
    from onnx_ci.model.diff import diff_models, textconv

    if options.textconv:
        for name in options.models:
            write_to(
                "".join(f"{one_line(line)}\n" for line in textconv(existing_path(name, "diff --textconv"))),
                "",
            )
        return 0
    names = options.models
    if len(names) == 1:
        names = [f"HEAD:./{Path(os.path.relpath(names[0])).as_posix()}", *names]
    if len(names) != 2:
        raise UsageError(f"expected two models, found {len(names)}", hint="usage: onnx-ci diff A B")
    with ExitStack() as stack:
        (before, size_before), (after, size_after) = (_side(name, stack) for name in names)
        diff = diff_models(before, after, names=(names[0], names[1]), exact=options.exact)
    diff = replace(diff, size_before=size_before, size_after=size_after)

    def rendered(name: str, style: Style) -> str:
        if name == "json":
            return dumps({**asdict(diff), "differs": diff.differs})
        from onnx_ci.report.sheet import diff_sheet, render

        return render(diff_sheet(diff), name, style, options.markdown_limit)

    write_each(options.formats, rendered)
    return int(options.exit_code and diff.differs)


def _side(name: str, stack: ExitStack) -> tuple[Path, int]:
    """The file to read for PATH, REV:PATH or, of what is staged, :PATH; and its size with all its data."""
    path = Path(name)
    revision, colon, file = name.partition(":")
    root = find_root(Path.cwd())
    tree = None
    if not path.is_file():
        if not colon or not file:
            raise UsageError(
                f"there is no file {name!r}", hint="usage: onnx-ci diff A B, of paths or REV:PATH"
            )
        if root is None:
            raise UsageError(f"{name!r}: this is no git repository", hint="name files: onnx-ci diff A B")
        commit = commit_of(root, revision) if revision else ""
        if commit is None:
            raise UsageError(f"git knows no revision {revision!r}", hint="git log --oneline lists some")
        tree = Tree(root, commit)
        places = [Path(os.path.normpath(folder / file)) for folder in (root, Path.cwd())]
        found = [place for place in places[file.startswith("./") :] if tree.has(place)]
        if not found:
            raise UsageError(
                f"there is no {file!r} in {revision or 'the index'}", hint="git ls-files lists all"
            )
        path = found[0]
    sources = stack.enter_context(Sources(root or path.absolute().parent, tree))
    source = sources.of(path if tree else path.absolute())
    first = source.parts[0]
    if first.content is None:
        raise ModelError(
            f"{name}: its content of {first.size:,} bytes is not here, only a pointer to it",
            hint="fetch it: git lfs fetch --all, or dvc fetch",
            code="OCI007",
        )
    # Without all of its data it is not laid out; it can be read all the same.
    return (first.content if source.absent else source.path), source.size


def run_log(options: argparse.Namespace) -> int:
    from onnx_ci.repo.baseline import model_history, total_history

    repository = find_root(Path.cwd())
    if repository is None:
        raise UsageError(
            "this is no git repository, so there is no history", hint="usage: onnx-ci log [MODEL]"
        )
    if options.model is None:
        history = total_history(repository)
    else:
        model = Path(options.model)
        path = model.parent.resolve() / model.name
        if not path.is_relative_to(repository):
            raise UsageError(f"{options.model!r} is outside of the repository", hint="run it from its own")
        history = model_history(repository, path)
    if not history.entries:
        what = repr(options.model) if options.model else "any model"
        raise UsageError(f"git knows no version of {what}", hint="check the name: git ls-files '*.onnx'")

    def rendered(name: str, style: Style) -> str:
        from onnx_ci.report.history import history_sheet, render_svg

        if name == "json":
            return dumps(asdict(history))
        if name == "svg":
            return render_svg(history)
        from onnx_ci.report.sheet import render

        return render(history_sheet(history), name, style, options.markdown_limit)

    write_each(options.formats, rendered)
    return 0


def run_badge(options: argparse.Namespace) -> int:
    """Red where a model is over the budget of its rule, green below it, blue where it has none."""
    from onnx_ci.report.history import badge_json, badge_svg

    folder = find_root(Path.cwd()) or Path.cwd()
    models = all_models(folder, find_root(Path.cwd()))
    limit = None
    if options.model is not None:
        path = existing_path(options.model, "badge [MODEL]").absolute()
        models = [path]
        rule = project.ruling_context(project.open_context(options.policy), path).rule_of(path)
        limit = None if rule is None else getattr(rule.budget, options.of)
    with Sources(folder) as sources:
        total = weight_together(sources, models, options.of)
    if total is None:
        message = "the content of a model is not here, so there is nothing to count"
        raise EnvironmentFault(message, hint="git lfs pull, or dvc pull")
    message = format_count(total) if options.of == "params" else format_size(total)
    names = {"size": "model size", "gzip": "model size, gzip", "params": "model parameters"}
    colour = "blue" if limit is None else "red" if total > limit else "brightgreen"
    shown = (options.label or names[options.of], message, colour)
    write_to(dumps({**badge_json(*shown)}) if options.format == "json" else badge_svg(*shown), options.output)
    return 0


def weight_together(sources: Sources, models: Sequence[Path], measure: str) -> int | None:
    """What models have together: bytes, as they are or compressed, or parameters. None where the content of
    one is not here."""
    from onnx_ci.gate.groups import parts_of, stored_size
    from onnx_ci.model.load import read_skeleton
    from onnx_ci.model.measure import parameters

    if measure == "params":
        found = [sources.of(model) for model in models]
        amounts = [None if source.absent else parameters(read_skeleton(source.path)) for source in found]
    else:
        amounts = [stored_size(measure, part) for part in parts_of(sources, models)]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def run_files(options: argparse.Namespace) -> int:
    """All or nothing: nobody is to pack half a model because the list broke off."""
    if bool(options.paths) == options.all:
        raise UsageError("expected PATH or --all, and not both", hint="for example: onnx-ci files --all")
    context = project.open_context(options.policy)
    selection = project.select_models(context, Wanted(paths=options.paths, everything=options.all))
    if options.paths and selection.note:
        raise UsageError(selection.note)
    files: dict[Path, None] = {}
    broken: list[ModelError] = []
    for model in selection.models:
        try:
            files.update(dict.fromkeys(_files(context, model)))
        except ModelError as error:
            broken.append(error)
    if broken:
        messages = first_of([error.message for error in broken], BROKEN, separator="; ", last="; and ")
        raise ModelError(f"nothing is listed: {messages}", hint=broken[0].hint, code=broken[0].code)
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
            return dumps({"version": 1, "models": [_surveyed_json(one) for one in found if one]})
        lines = [*survey_table(found, style), *_survey_lines(found, style)]
        return "\n".join(lines or ["there is no model to look at"]) + "\n"

    write_each(options.formats, rendered)
    return int(any(one is None or (one.problem and not one.forms) for one in found))


def survey(context: Context, models: Sequence[Path], **settings: Any) -> list[Surveyed | None]:
    from onnx_ci.gate.survey import survey_models

    with output.ProgressLine() as progress:
        return survey_models(context, models, progress=progress, **settings) if models else []


def survey_table(found: Sequence[Surveyed | None], style: Style) -> Iterator[str]:
    """A row a model: what it weighs, and what it would weigh in each form; then what could not be told."""
    from onnx_ci.gate.attempts import LEVELS
    from onnx_ci.report.text import aligned, flowed

    models = [one for one in found if one is not None]
    if not models:
        return
    rows = [("model", "now", *LEVELS)]
    for one in models:
        forms = {form.level: form for form in one.forms}
        sizes_of_forms = (_form_cell(one, forms.get(level)) for level in LEVELS)
        rows.append((one_line(one.path), format_size(one.size), *sizes_of_forms))
    if len(models) > 1:
        sizes = [(one, {form.level: form.size for form in one.forms if form.proven}) for one in models]
        totals = [sum(held.get(level, one.size) for one, held in sizes) for level in LEVELS]
        now = sum(one.size for one in models)
        rows.append(("together", *map(format_size, (now, *totals))))
    head, *lines = aligned(rows)
    if 0 < style.width < max(map(len, (head, *lines))):  # one model below the other
        titles = rows.pop(0)[1:]
        for row in rows:
            yield style.paint(row[0], "bold")
            cells = zip(titles, row[1:], strict=True)
            yield from flowed(((title, cell, "") for title, cell in cells), style.width, style)
    else:
        yield from (style.paint(head, "bold"), *lines)
    yield from _not_had(models)


def _not_had(models: Sequence[Surveyed]) -> Iterator[str]:
    """What could not be told of models, and the forms that were refused or not verified: each reason once."""
    for one in models:
        if one.problem:
            yield one_line(one.problem)
        unproven: dict[tuple[str, str], list[str]] = {}  # levels, by what is said of them
        for form in one.forms:
            if not form.proven:
                state = "refused" if form.verification.status == "failed" else "not verified"
                unproven.setdefault((state, form.verification.reason), []).append(form.level)
        for (state, reason), levels in unproven.items():
            yield f"{one_line(one.path)}: {', '.join(levels)} {state}: {one_line(reason)}"


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
        if len(report.outcomes) > 1:
            title = f"{outcome.path}: {title}"
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
        yield f"  {file}:{rule.line}: {rule.pattern!r} matches too; later rules win, key by key"
    yield f"  {file}:{rules[-1].line}: {rules[-1].pattern!r} is the rule (the last match)"
    rule = context.rule_of(path) or rules[-1]
    for key, text in _described(rule):
        line = rule.lines.get(key) or rule.lines.get(key.split()[0])
        origin = f"{file}:{line}" if line else "built in"
        yield f"    {text}  [{origin}]"


def _described(rule: Rule) -> Iterator[tuple[str, str]]:
    """What a rule says: the key of each value, and the value in words."""
    if rule.ignore:
        yield "ignore", "ignore: true, so it is not checked"
        return
    for item in fields(rule.budget):
        value = getattr(rule.budget, item.name)
        if value not in (None, ()):
            yield f"budget {item.name}", f"budget {item.name}: {_limit(item.name, value)}"
    for key in rule.lines:
        if key.startswith("require "):
            yield key, f"{key}: {_required(getattr(rule.require, key.split()[1]))}"
    methods = (f"{m.name} {dict(m.options)}" if m.options else m.name for m in rule.methods)
    yield "methods", f"methods, mildest first: {', '.join(methods) or 'none'}"
    yield "shrink", f"shrink: {rule.mode} ({MODES[rule.mode]})"
    given = ((item.name, getattr(rule.tolerance, item.name)) for item in fields(rule.tolerance))
    limits = ", ".join(f"{name} {value}" for name, value in given if value not in (None, False))
    yield "tolerance", f"tolerance, all must hold: {limits}"
    source = f"samples {', '.join(rule.inputs.samples)}" if rule.inputs.samples else "derived from the graph"
    if recorded_from(rule.inputs.samples):
        source += " (recorded by `onnx-ci record`)"
    yield "inputs samples", f"inputs: {source}"
    for key in rule.lines:
        section, _, name = key.partition(" ")
        if section in ("inputs", "limits") and name not in ("", "samples"):
            yield key, f"{section} {name}: {getattr(getattr(rule, section), name)}"
    score = f"{rule.evaluate.metric} of {rule.evaluate.command}" if rule.evaluate else ""
    others = {
        "evaluate": f"evaluate: {score}",
        "runtimes": f"onnxruntime: the installed one, and {', '.join(rule.runtimes)}",
        "libraries": f"libraries of operators: {', '.join(rule.libraries)}",
        "only_new": "only_new: what is wrong with a model that did not change is a warning",
    }
    yield from ((key, text) for key, text in others.items() if getattr(rule, key))
    yield "minimum_gain", f"savings under {rule.minimum_gain.words} are left alone"
    yield "severity", f"severity {rule.severity}"


def _required(value: Any) -> str:
    if isinstance(value, Versions):
        return value.words
    if isinstance(value, Operators):
        sides = {"deny": value.deny, "allow": value.allow or ()}
        return "; ".join(f"{side} {', '.join(names)}" for side, names in sides.items() if names)
    return str(value).lower() if isinstance(value, bool) else ", ".join(value) or "none"


def _limit(name: str, value: Any) -> str:
    if name == "fits":
        return "; ".join(f"{place} ({format_size(PLACES[place][1])}, {PLACES[place][2]})" for place in value)
    if name == "load_seconds":
        return f"{value:g} s"
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
