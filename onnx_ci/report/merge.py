"""Several reports as one, with one verdict: those of the shards of a run, of several policies, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TypeVar

from onnx_ci.errors import UsageError
from onnx_ci.findings import Finding
from onnx_ci.results import GroupSize, Outcome, RunReport, Shard

MOST = 256  # shards of a run
Named = tuple[str, RunReport]  # the file a report was read from, and the report
Parts = dict[Shard, Named]  # of one run
Item = TypeVar("Item")


def merged(reports: Sequence[Named]) -> RunReport:
    """Groups are judged over all shards together; a shard that is missing is an error, since nobody knows
    what its models are like."""
    commands = sorted({report.command for _, report in reports})
    if len(commands) > 1:
        told = " and ".join(commands)
        raise UsageError(f"reports of {told} can't be merged", hint="merge those of one command")
    runs = _runs(reports)
    everything = [report for _, report in reports if report.shard is None]
    everything += [run[shard][1] for run in runs for shard in sorted(run, key=lambda shard: shard.index)]
    found = (finding for report in everything for finding in report.findings)
    made = (finding for run in runs for finding in (*_groups(run), *_missing(run)))
    return RunReport(
        command=commands[0],
        outcomes=tuple(_in_order(_once(o for report in everything for o in report.outcomes))),
        findings=tuple(_once([*found, *made])),
        policy=", ".join(_once(report.policy for report in everything if report.policy)),
        seconds=round(sum(report.seconds for report in everything), 3),
        notes=tuple(_once(note for report in everything for note in report.notes)),
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
        first, known = run.setdefault(shard, (name, report))
        if known != report:
            raise UsageError(
                f"{first} and {name} are both shard {shard}, and they differ",
                hint="give each shard once: that of the last attempt",
            )
    return list(runs.values())


def _missing(run: Parts) -> Iterator[Finding]:
    shard, (name, report) = next(iter(run.items()))
    missing = sorted({*range(1, shard.count + 1)} - {known.index for known in run})
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
