"""What the bytes of a model are, as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_ci.report.bars import share_bar
from onnx_ci.report.markup import Markup, element, table
from onnx_ci.report.page import figures, page
from onnx_ci.results import ModelInfo, TensorInfo
from onnx_ci.sizes import format_percent, format_size

TENSORS = 200  # rows that a person may still read; JSON lists all
OPS = 12


def render_info(info: ModelInfo) -> str:
    return page(
        info.path,
        element("h1", element("span", info.path, class_="name")),
        *_head(info),
        element("section", *_types(info)),
        element("section", *_tensors(info)),
        element("section", *_ops(info)),
    )


def _head(info: ModelInfo) -> Iterator[Markup]:
    measure = info.measure
    yield figures(
        ("on disk", format_size(measure.size)),
        ("as gzip", format_size(measure.gzip) if measure.gzip is not None else ""),
        ("parameters", f"{measure.params or 0:,}"),
        ("tensors", f"{len(info.tensors):,}"),
        ("copies", format_size(info.duplicate_bytes) if info.duplicate_bytes else "none"),
    )
    producer = info.producer or "an unnamed exporter"
    yield element("p", f"opset {info.opset}, IR {info.ir_version}, by {producer}", class_="soft")
    if info.shrunk_by:
        yield element("p", f"shrunk by onnx-ci with {', '.join(info.shrunk_by)}", class_="soft")


def _types(info: ModelInfo) -> Iterator[Markup]:
    yield element("h2", "Bytes by type")
    parts = [*info.types.items(), ("graph, names", info.other_bytes)]
    rows = [(name, format_size(size), *_share(size / info.measure.size)) for name, size in parts]
    yield table("", ("type", "size", "share", "of the file"), rows, numbers="size,share")
    if info.duplicate_bytes:
        share = format_percent(info.duplicate_bytes / info.measure.size)
        yield element(
            "p", f"{format_size(info.duplicate_bytes)} ({share}) are copies that dedupe would drop."
        )


def _share(share: float) -> tuple[str, str]:
    return format_percent(share), share_bar(share, f"{format_percent(share)} of the file")


def _tensors(info: ModelInfo) -> Iterator[Markup]:
    yield element("h2", "Tensors by size")
    if not info.tensors:
        yield element("p", "There are none.")
        return
    columns = ("tensor", "type", "shape", "copies", "size", "share", "of the file")
    yield table("", columns, map(_row, info.tensors[:TENSORS]), numbers="copies,size,share")
    rest = info.tensors[TENSORS:]
    if rest:
        together = format_size(sum(tensor.size for tensor in rest))
        yield element("p", f"And {len(rest):,} more, {together} together; --format json lists all.")


def _row(tensor: TensorInfo) -> tuple[str, ...]:
    shape = " × ".join(map(str, tensor.shape)) or "scalar"  # noqa: RUF001
    copies = str(tensor.copies) if tensor.copies > 1 else ""
    name = element("span", tensor.name or "(unnamed)", class_="name")
    return name, tensor.dtype, shape, copies, format_size(tensor.size), *_share(tensor.share)


def _ops(info: ModelInfo) -> Iterator[Markup]:
    yield element("h2", f"{info.nodes:,} nodes")
    rows = [(op, f"{count:,}") for op, count in list(info.ops.items())[:OPS]]
    yield table("The most used operators", ("operator", "nodes"), rows, numbers="nodes")
