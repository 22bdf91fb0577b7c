"""`onnx-ci explain`: which rule holds for a model, why, and what would be done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from onnx_ci.entry.context import Context, context_for, open_context, policy_for
from onnx_ci.entry.gate import Judging, judge_selection, select_models
from onnx_ci.entry.output import add_cache_argument
from onnx_ci.policy.match import matching_rules
from onnx_ci.policy.schema import Rule
from onnx_ci.report.style import Style, one_line
from onnx_ci.sizes import format_percent, format_size
from onnx_ci.targets.select import Wanted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a model")
    parser.add_argument("--policy", metavar="FILE", help="policy file (default: .onnx-ci.yaml, found upward)")
    add_cache_argument(parser)


def run(options: argparse.Namespace) -> int:
    context = open_context(options.policy)
    selection = select_models(context, Wanted(paths=(options.path,)))
    style = Style.of(sys.stdout)
    for path in selection.models:
        _write(style.paint(one_line(_name(context, path)), "bold"))
        for line in _rules(context_for(context, policy_for(context, path.parent)), path):
            _write(line)
    from onnx_ci.report.text import render_outcome
    from onnx_ci.report.words import verdict_word

    report = judge_selection("check", context, selection, Judging(cache=options.cache))
    for outcome in report.outcomes:
        _write("")
        sys.stdout.write(render_outcome(outcome, style, title=f"what a check says: {verdict_word(outcome)}"))
    return 0


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")


def _name(context: Context, path: Path) -> str:
    inside = path.is_relative_to(context.folder)
    return path.relative_to(context.folder).as_posix() if inside else str(path)


def _rules(context: Context, path: Path) -> Iterator[str]:
    file = context.policy.file
    rules = matching_rules(context.policy, _name(context, path))
    if not rules:
        said = {"error": "which is an error", "warning": "which is a warning"}
        meant = said.get(context.policy.unmatched, "and that is allowed")
        yield f"  no rule of {file} matches it, so it is not checked, {meant} (unmatched)"
        return
    for rule in rules[:-1]:
        yield f"  {file}:{rule.line}: {rule.pattern!r} matches too, but a later rule wins"
    yield f"  {file}:{rules[-1].line}: {rules[-1].pattern!r} is the rule (the last match wins)"
    yield from _described(rules[-1])


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
