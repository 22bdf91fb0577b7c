"""`onnx-ci info`: what the bytes of a model are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_ci.entry.output import PLAIN, add_format_arguments, write_each
from onnx_ci.errors import UsageError
from onnx_ci.report.style import Style, one_line
from onnx_ci.sizes import format_percent, format_size

if TYPE_CHECKING:
    from onnx_ci.results import ModelInfo, TensorInfo

TOP = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    add_format_arguments(parser, PLAIN)


def run(options: argparse.Namespace) -> int:
    path = Path(options.model)
    if not path.exists():
        raise UsageError(f"there is no file {options.model!r}", hint="usage: onnx-ci info MODEL")
    from onnx_ci.inspect import inspect_model
    from onnx_ci.report.html_info import render_info
    from onnx_ci.report.json import dumps

    info = inspect_model(path, options.model)
    write_each(
        options.formats,
        lambda style: "\n".join(_text(info, style)) + "\n",
        json=lambda: dumps(asdict(info)),
        html=lambda: render_info(info),
    )
    return 0


def _text(info: ModelInfo, style: Style) -> Iterator[str]:
    yield style.paint(one_line(info.path), "bold")
    yield from _head(info)
    yield ""
    yield style.paint("  bytes by type", "bold")
    for name, size in [*info.types.items(), ("graph, names", info.other_bytes)]:
        yield f"    {name:<12} {format_size(size):>9}  {size / info.measure.size:6.1%}"
    if info.duplicate_bytes:
        share = format_percent(info.duplicate_bytes / info.measure.size)
        yield f"  {format_size(info.duplicate_bytes)} ({share}) are copies that dedupe would drop"
    yield ""
    yield style.paint("  largest tensors", "bold")
    yield from map(_tensor_line, info.tensors[:TOP])
    if len(info.tensors) > TOP:
        yield f"    and {len(info.tensors) - TOP} more (--format json lists all)"


def _head(info: ModelInfo) -> Iterator[str]:
    gzip = f", {format_size(info.measure.gzip)} as gzip" if info.measure.gzip is not None else ""
    yield f"  {format_size(info.measure.size)} on disk{gzip}, {info.measure.params or 0:,} parameters"
    producer = one_line(info.producer) or "an unnamed exporter"
    yield f"  opset {info.opset}, IR {info.ir_version}, {info.nodes:,} nodes, by {producer}"
    ops = (f"{one_line(op)} {count}" for op, count in list(info.ops.items())[:8])
    yield f"  most used ops: {', '.join(ops)}"
    if info.shrunk_by:
        yield f"  shrunk by onnx-ci with {', '.join(map(one_line, info.shrunk_by))}"


def _tensor_line(tensor: TensorInfo) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    name = one_line(tensor.name) or "(unnamed)"
    copies = f"  x{tensor.copies}" if tensor.copies > 1 else ""
    size = f"{format_size(tensor.size):>9} {tensor.share:6.1%}"
    return f"    {size}  {tensor.dtype:<8} {shape:<16} {name}{copies}"
