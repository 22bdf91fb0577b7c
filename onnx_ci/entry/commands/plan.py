"""`onnx-ci plan`: spread a run over several CI jobs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_ci.entry.context import open_context
from onnx_ci.entry.gate import add_selection_arguments, select_asked
from onnx_ci.entry.output import add_format_arguments, write_each
from onnx_ci.pipeline import relative
from onnx_ci.report.style import one_line
from onnx_ci.report.words import counted
from onnx_ci.sizes import format_size

if TYPE_CHECKING:
    from onnx_ci.entry.sharding import Parts

FORMATS = ("text", "json", "github-matrix")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", type=_count, required=True, metavar="N", help="at most so many jobs")
    add_selection_arguments(parser)
    add_format_arguments(parser, FORMATS)


def _count(text: str) -> int:
    from onnx_ci.entry.sharding import MOST

    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST}, found {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from onnx_ci.entry.sharding import Parts

    context = open_context(options.policy)
    selection = select_asked(context, options)
    parts = Parts(context, selection, options.shards)
    filled = sum(map(bool, parts.parts))
    if filled < options.shards:  # no job for nothing, and one at least: a matrix can't be empty
        parts = Parts(context, selection, max(1, filled))
    shards = [_described(parts, index, context.root) for index in range(1, parts.count + 1)]
    matrix = {"include": [{"shard": shard["shard"]} for shard in shards]}
    write_each(
        options.formats,
        lambda _: "".join(f"{line}\n" for line in _text(shards)),
        **{
            "json": lambda: json.dumps({"version": 1, "shards": shards}, indent=2) + "\n",
            "github-matrix": lambda: json.dumps(matrix, separators=(",", ":")) + "\n",
        },
    )
    return 0


def _described(parts: Parts, index: int, root: Path) -> dict[str, Any]:
    return {
        "shard": str(parts.shard(index)),
        "size": parts.size(index),
        "models": [relative(path, root) for path in parts.models(index)],
    }


def _text(shards: Sequence[dict[str, Any]]) -> Iterator[str]:
    for shard in shards:
        yield f"{shard['shard']}  {counted(len(shard['models']), 'model')}, {format_size(shard['size'])}"
        yield from (f"  {one_line(name)}" for name in shard["models"])
