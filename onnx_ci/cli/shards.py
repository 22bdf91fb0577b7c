"""`onnx-ci plan`: spread a run over several CI jobs; `onnx-ci merge`: join their reports."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.cli.check import SELECTION, select_asked
from onnx_ci.cli.output import REPORT, format_arguments, value, whole_number, write_each, write_run
from onnx_ci.gate.project import MOST_SHARDS, open_context
from onnx_ci.report.text import counted
from onnx_ci.util.sizes import format_size
from onnx_ci.util.text import one_line, relative_name

if TYPE_CHECKING:
    from onnx_ci.gate.shares import Parts


ARGUMENTS = {
    "plan": (
        value("--shards", "N", "at most so many jobs", type=whole_number(1, MOST_SHARDS), required=True),
        *SELECTION,
        *format_arguments("text", "json", "github-matrix"),
    ),
    "merge": (value("reports", "REPORT", "written with --format json", nargs="+"), *REPORT),
}


def run_plan(options: argparse.Namespace) -> int:
    from onnx_ci.gate.shares import Parts

    context = open_context(options.policy)
    selection = select_asked(context, options)
    parts = Parts(context, selection, options.shards)
    filled = sum(map(bool, parts.parts))
    if filled < options.shards:  # no job for nothing, and one at least: a matrix can't be empty
        parts = Parts(context, selection, max(1, filled))
    shards = [_described(parts, index, context.root) for index in range(1, parts.count + 1)]
    matrix = {"include": [{"shard": shard["shard"]} for shard in shards]}
    texts = {
        "text": "\n".join(_text(shards)),
        "json": json.dumps({"version": 1, "shards": shards}, indent=2),
        "github-matrix": json.dumps(matrix, separators=(",", ":")),
    }
    write_each(options.formats, lambda name, _: f"{texts[name]}\n")
    return 0


def _described(parts: Parts, index: int, root: Path) -> dict[str, Any]:
    return {
        "shard": str(parts.shard(index)),
        "size": parts.size(index),
        "models": [relative_name(path, root) for path in parts.models(index)],
    }


def _text(shards: Sequence[dict[str, Any]]) -> Iterator[str]:
    for shard in shards:
        yield f"{shard['shard']}  {counted(len(shard['models']), 'model')}, {format_size(shard['size'])}"
        yield from (f"  {one_line(name)}" for name in shard["models"])


def run_merge(options: argparse.Namespace) -> int:
    from onnx_ci.report.read import merged, read_report

    report = merged([(name, read_report(Path(name), name)) for name in options.reports])
    write_run(report, options)
    return report.exit_code
