"""A JSON report back into a RunReport. It may come from anywhere, a fork's artifact too: nothing in it is
believed that is not of the right kind and size."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar, get_args, get_origin

from onnx_ci.errors import UsageError
from onnx_ci.results import Code, CodeOrNone, Finding, GroupSize, Outcome, RunReport, Shard
from onnx_ci.util.advice import Hint
from onnx_ci.util.codec import build
from onnx_ci.util.scalars import FLAG, Scalar, whole
from onnx_ci.util.text import one_line

LONGEST_TEXT = 20_000  # characters
LONGEST_LIST = 100_000
LARGEST_NUMBER = 2**63
CODE = re.compile(r"OCI[0-9]{3}")


def _is_short(kind: type[Sized], longest: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) and len(value) <= longest


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and CODE.fullmatch(value) is not None


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


KINDS: dict[Any, Scalar] = {
    dict: Scalar("an object", lambda value: isinstance(value, dict), {}),
    list: Scalar(f"a list of at most {LONGEST_LIST:,}", _is_short(list, LONGEST_LIST), {}),
    str: Scalar(f"text of at most {LONGEST_TEXT:,} characters", _is_short(str, LONGEST_TEXT), {}),
    bool: FLAG,
    int: Scalar("a whole number from 0", whole(0, LARGEST_NUMBER - 1).fits, {}),
    float: Scalar("a number", _is_number, {}),
    Code: Scalar("a code like OCI001", _is_code, {}),
    CodeOrNone: Scalar("a code like OCI001", lambda value: value == "" or _is_code(value), {}),
}


def _checked(kind: Any, value: Any, where: str) -> Any:
    """`kind` is an annotation, as the classes of results have them."""
    if get_origin(kind) is Literal:
        words = get_args(kind)
        fits, expected = value in words, " or ".join(words)
    else:
        fits, expected = KINDS[kind].fits(value), KINDS[kind].expected
    if not fits:
        raise _refusal(where, expected, value)
    return float(value) if kind is float else value


def _refusal(where: str, expected: str, value: Any) -> ValueError:
    shown = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return ValueError(f"{one_line(where)}: expected {expected}, found {one_line(shown[:60])}")


# Bytes: some thousand models. What it takes in memory is twenty times that at worst.
LARGEST_FILE = 16 * 2**20
HINT = "expected a report by onnx-ci check --format json"


def read_report(path: Path, name: str = "") -> RunReport:
    """`name` is what messages call the file."""
    name = name or str(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{name}: can't be read: {error.strerror}", hint=HINT) from None
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{name}: is larger than {LARGEST_FILE:,} bytes", hint=HINT)
    return parse_report(content, name)


def parse_report(content: bytes, name: str) -> RunReport:
    """The report in a file's content. Its verdict is worked out anew: what it says of that is not read."""
    try:
        document = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise UsageError(f"{name}: is not JSON: {why}", hint=HINT) from None
    try:
        return _report(document)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", hint=HINT) from None


def _report(document: Any) -> RunReport:
    values = _checked(dict, document, "the report")
    if values.get("version") != 1:
        raise _refusal("the report.version", "1", values.get("version"))
    models = _checked(list, values.get("models"), "the report.models")
    outcomes = [_outcome(model, f"the report.models[{number}]") for number, model in enumerate(models)]
    flat = {**values, "outcomes": outcomes, "findings": _findings(values, "the report")}
    report: RunReport = build(RunReport, flat, _checked, "the report")
    return report


def _findings(values: dict[str, Any], where: str) -> list[Finding]:
    """Those of a model or of the run; a hint that is a command is one again."""
    findings = []
    for number, item in enumerate(_checked(list, values.get("findings", []), f"{where}.findings")):
        place = f"{where}.findings[{number}]"
        finding: Finding = build(Finding, item, _checked, place)
        if command := _checked(str, item.get("command", ""), f"{place}.command"):
            finding = replace(finding, hint=Hint(finding.hint, command=command))
        findings.append(finding)
    return findings


def _outcome(model: Any, where: str) -> Outcome:
    """One model in the shape of an Outcome: the rule is not nested, nor is an `after` that is `before`."""
    values = _checked(dict, model, where)
    rule = _checked(dict, values.get("rule", {}), f"{where}.rule")
    flat = {**values, **{f"rule_{key}": rule.get(key) for key in ("pattern", "line", "file")}}
    if values.get("after") == values.get("before"):
        flat["after"] = None
    if values.get("file") == values.get("path"):
        flat["file"] = None
    if values.get("plan") is not None:
        plan = _checked(dict, values["plan"], f"{where}.plan")
        forms = _checked(dict, plan.get("forms", {}), f"{where}.plan.forms")
        flat["plan"] = {**plan, "forms": [list(pair) for pair in forms.items()]}
    flat = {key: value for key, value in flat.items() if value is not None}
    flat["findings"] = _findings(flat, where)
    outcome: Outcome = build(Outcome, flat, _checked, where)
    return outcome


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


MOST = 256  # shards of a run
Named = tuple[str, RunReport]  # the file a report was read from, and the report
Parts = dict[Shard, Named]  # of one run
Item = TypeVar("Item")


def merged(reports: Sequence[Named]) -> RunReport:
    """Groups are judged over all shards together; a shard that is missing is an error, since nobody knows
    what its models are like."""
    commands = sorted({report.command for _, report in reports})
    if len(commands) > 1:
        names = " and ".join(commands)
        raise UsageError(f"reports of {names} can't be merged", hint="merge those of one command")
    runs = _runs(reports)
    everything = [report for _, report in reports if report.shard is None]
    everything += [run[shard][1] for run in runs for shard in sorted(run, key=lambda shard: shard.index)]
    of_reports = (finding for report in everything for finding in report.findings)
    across_shards = (finding for run in runs for finding in (*_groups(run), *_missing(run)))
    return RunReport(
        command=commands[0],
        outcomes=tuple(_in_order(_once(o for report in everything for o in report.outcomes))),
        findings=tuple(_once([*of_reports, *across_shards])),
        policy=", ".join(_once(report.policy for report in everything if report.policy)),
        seconds=round(sum(report.seconds for report in everything), 3),
        notes=tuple(_once(note for report in everything for note in report.notes)),
        base=next((report.base for report in everything if report.base), ""),
        gone=tuple(_once(model for report in everything for model in report.gone)),
        provenance=next((report.provenance for report in everything if report.provenance), None),
    )


def _once(items: Iterable[Item]) -> list[Item]:
    return list(dict.fromkeys(items))


def _runs(reports: Sequence[Named]) -> list[Parts]:
    """The shards of each run, which agree in how it was split. The same report twice does no harm; two of
    one shard that differ do."""
    runs: dict[tuple[str, str, int], Parts] = {}
    for name, report in reports:
        shard = report.shard
        if shard is None:
            continue
        if not 1 <= shard.index <= shard.count <= MOST:
            raise UsageError(f"{name}: there is no shard {shard}", hint="for example: --shard 1/3")
        run = runs.setdefault((report.policy, shard.split, shard.count), {})
        first, earlier = run.setdefault(shard, (name, report))
        if earlier != report:
            raise UsageError(
                f"{first} and {name} are both shard {shard}, and they differ",
                hint="give each shard once: that of the last attempt",
            )
    return list(runs.values())


def _missing(run: Parts) -> Iterator[Finding]:
    shard, (name, report) = next(iter(run.items()))
    missing = sorted({*range(1, shard.count + 1)} - {present.index for present in run})
    if missing:
        numbers = ", ".join(map(str, missing))
        yield Finding(
            code="OCI040",
            severity="error",
            message=f"no report of shard {numbers} of {shard.count}: its models were not judged"
            f" (the split that {name} is of)",
            hint="look why its job ended; all shards have to check out the same commit",
            file=report.policy,
        )


def _groups(run: Parts) -> Iterator[Finding]:
    """Every shard began with the same sizes, so what each of them gained or lost adds up."""
    seen: dict[tuple[str, int, str, str, int], list[GroupSize]] = {}
    for _, report in run.values():
        for group in report.groups:
            key = (group.file, group.line, group.name, group.measure, group.limit)
            seen.setdefault(key, []).append(group)
    for sizes in seen.values():
        before = max(group.before for group in sizes)
        after = before + sum(group.after - group.before for group in sizes)
        yield from replace(sizes[0], before=before, after=after).findings()


def _in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """As one run has them: by policy, and by path."""
    by_path = sorted(outcomes, key=lambda outcome: PurePosixPath(outcome.file or outcome.path))
    policies = _once(outcome.rule_file for outcome in by_path)
    return sorted(by_path, key=lambda outcome: policies.index(outcome.rule_file))
