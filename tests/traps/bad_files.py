"""Files: what is no model, or no longer one, and what must be said about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from onnx import TensorProto

from tests.traps.bad_data import BAD_DATA, POINTER, TENSOR, with_data
from tests.traps.base import FILE, FileTrap, encode, model, rng, tensor, weight
from tests.traps.good_files import DATA, layers
from tests.traps.wire import (
    ATTRIBUTE_GRAPH,
    ATTRIBUTE_NAME,
    ATTRIBUTE_TYPE,
    GRAPH_INITIALIZER,
    GRAPH_NODE,
    LENGTH,
    MODEL_GRAPH,
    NODE_ATTRIBUTE,
    NODE_OP,
    TENSOR_DIMS,
    TENSOR_NAME,
    TENSOR_RAW,
    block,
    number,
    tag,
    varint,
)

NO_MODEL = ("not", "model")


def file(
    name: str, data: bytes | Callable[[], bytes], words: tuple[str, ...], why: str, **flags: bool
) -> FileTrap:
    """A trap that is one file of these bytes."""

    def build(folder: Path) -> Path:
        path = folder / FILE
        path.write_bytes(data if isinstance(data, bytes) else data())
        return path

    return FileTrap(name=name, build=build, words=words, why=why, **flags)


def cut(share: float) -> bytes:
    whole = encode(layers())
    return whole[: int(len(whole) * share)]


def without_opset() -> bytes:
    made = layers()
    made.ClearField("opset_import")
    return encode(made)


def nested(levels: int) -> bytes:
    """An If in an If in an If …, each level three messages deep; put together from the inside out."""
    parts = [block(GRAPH_NODE, block(NODE_OP, "Relu"))]
    size = len(parts[0])
    for _ in range(levels):
        about = block(ATTRIBUTE_NAME, "then_branch") + number(ATTRIBUTE_TYPE, 5)
        for head, field in (
            (about, ATTRIBUTE_GRAPH),
            (block(NODE_OP, "If"), NODE_ATTRIBUTE),
            (b"", GRAPH_NODE),
        ):
            parts.append(head + tag(field, LENGTH) + varint(size))
            size += len(parts[-1])
    return number(1, 8) + block(MODEL_GRAPH, b"".join(reversed(parts))) + block(8, number(2, 17))


def overlong(field: int, length: int) -> bytes:
    """A model whose tensor declares far more bytes than there are."""
    inner = (
        number(TENSOR_DIMS, 4) + block(TENSOR_NAME, TENSOR) + tag(field, LENGTH) + varint(length) + b"1234"
    )
    return number(1, 8) + block(MODEL_GRAPH, block(GRAPH_INITIALIZER, inner))


def with_tensor(item: TensorProto) -> bytes:
    made = model("g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, W) }")
    made.graph.node[0].input[1] = item.name = TENSOR
    made.graph.initializer.append(item)
    return encode(made)


def misfit(kind: int, dims: list[int], size: int) -> bytes:
    return with_tensor(TensorProto(data_type=kind, dims=dims, raw_data=bytes(size)))


def pipe(folder: Path, *, at: str) -> Path:
    """Nothing ever writes to the pipe: whoever opens it waits for ever."""
    if at == FILE:
        os.mkfifo(folder / FILE)
    else:
        (folder / FILE).write_bytes(encode(with_data()))
        os.mkfifo(folder / DATA)
    return folder / FILE


def model_is_folder(folder: Path) -> Path:
    (folder / FILE).mkdir()
    return folder / FILE


def model_is_dangling_link(folder: Path) -> Path:
    (folder / FILE).symlink_to("nowhere.onnx")
    return folder / FILE


PLACES: tuple[FileTrap, ...] = (
    FileTrap(
        name="model_is_folder", build=model_is_folder, words=(FILE,), why="A folder with a model's name."
    ),
    FileTrap(
        name="model_is_dangling_link", build=model_is_dangling_link, words=(FILE,), why="A link to nothing."
    ),
)
if hasattr(os, "mkfifo"):
    PLACES += (
        FileTrap(
            name="model_is_pipe",
            build=partial(pipe, at=FILE),
            words=(FILE,),
            why=pipe.__doc__ or "",
            probe=False,
        ),
        FileTrap(
            name="data_is_pipe",
            build=partial(pipe, at=DATA),
            words=(DATA,),
            why=pipe.__doc__ or "",
            probe=False,
        ),
    )

FILES: tuple[FileTrap, ...] = (
    file("text", b"# a read-me, saved under the wrong name\n" * 20, NO_MODEL, "Plain text."),
    file(
        "web_page",
        b"<!DOCTYPE html><html><body>404: Not Found</body></html>\n",
        NO_MODEL,
        "A failed download.",
    ),
    file("archive", b"PK\x03\x04" + rng(0).bytes(500), NO_MODEL, "A zip, which is what PyTorch saves."),
    file("random_bytes", rng(1).bytes(4096), NO_MODEL, "Bytes of no format."),
    file("zeros", bytes(4096), NO_MODEL, "A file of zeros, as a crash leaves behind: tag 0 is illegal."),
    file("empty", b"", ("empty",), "A file without a byte is a valid protobuf of no fields."),
    file("lfs_pointer", POINTER, ("lfs",), "The checkout did not fetch the file from Git LFS."),
    file(
        "ort_file",
        b"\x1c\x00\x00\x00ORTM" + rng(2).bytes(2000),
        ("ort",),
        "onnxruntime's own format, renamed.",
    ),
    *(
        file(
            f"truncated_at_{percent}_percent",
            partial(cut, percent / 100),
            NO_MODEL,
            "A download that broke off.",
        )
        for percent in (1, 25, 50, 75, 99)
    ),
    file(
        "truncated_by_a_byte",
        lambda: encode(layers())[:-1],
        NO_MODEL,
        "One byte short.",
    ),
    file(
        "trailing_bytes",
        lambda: cut(1.0) + b"\xff\xff\xff",
        NO_MODEL,
        "A good model and then something else.",
    ),
    file(
        "without_opset", without_opset, ("opset",), "Cut off between two fields: valid protobuf, no version."
    ),
    file("without_graph", number(1, 8) + block(8, number(2, 17)), NO_MODEL, "Versions and no graph."),
    file("unknown_fields_only", number(900, 1) + block(901, "abc"), NO_MODEL, "Protobuf, of something else."),
    file(
        "tensor_file",
        lambda: encode(tensor("x", weight(64, 64))),
        NO_MODEL,
        "A test input, renamed.",
    ),
    file("nested_120", partial(nested, 120), NO_MODEL, "Nested past protobuf's limit of 100 messages."),
    file("nested_20000", partial(nested, 20_000), NO_MODEL, "Nested past the stack of any recursive reader."),
    file(
        "huge_graph_length",
        number(1, 8) + tag(MODEL_GRAPH, LENGTH) + varint(2**62) + b"1234",
        NO_MODEL,
        "The graph declares 4 EiB.",
    ),
    file(
        "negative_graph_length",
        number(1, 8) + tag(MODEL_GRAPH, LENGTH) + varint(-1) + b"1234",
        NO_MODEL,
        "The graph's length is -1 as a signed number.",
    ),
    file("huge_raw_data_length", partial(overlong, TENSOR_RAW, 2**40), NO_MODEL, "raw_data declares 1 TiB."),
    file(
        "raw_data_out_of_its_tensor",
        partial(overlong, TENSOR_RAW, 5),
        NO_MODEL,
        "raw_data is a byte longer than its tensor.",
    ),
    file("endless_varint", b"\x08" + b"\xff" * 100, NO_MODEL, "A number that does not end after ten bytes."),
    file(
        "raw_data_too_short",
        partial(misfit, 1, [64, 64], 100),
        (TENSOR,),
        "Fewer bytes than the shape needs.",
    ),
    file(
        "raw_data_too_long",
        partial(misfit, 1, [64, 64], 20_000),
        (TENSOR,),
        "More bytes than the shape needs.",
    ),
    file("negative_dimension", partial(misfit, 1, [-64, 64], 16_384), (TENSOR,), "A dimension below zero."),
    file(
        "overflowing_dimensions",
        partial(misfit, 1, [2**32, 2**32], 0),
        (TENSOR,),
        "The product of the dimensions is 2^64, which is 0.",
    ),
    file(
        "unknown_tensor_type", partial(misfit, 999, [64, 64], 16_384), (TENSOR,), "A type that no onnx knows."
    ),
    file("undefined_tensor_type", partial(misfit, 0, [64, 64], 16_384), (TENSOR,), "Type 0 is UNDEFINED."),
)

FILE_TRAPS: tuple[FileTrap, ...] = (*FILES, *PLACES, *BAD_DATA)

NAMES: tuple[str, ...] = (
    "with space.onnx",
    " leading and trailing .onnx",
    "it's.onnx",
    'dou"ble.onnx',
    "line\nbreak.onnx",
    "return\r.onnx",
    "tab\t.onnx",
    "żółw.onnx",
    "模型.onnx",
    "e\u0301 in two code points.onnx",
    "turtle 🐢.onnx",
    "-dash.onnx",
    "--all.onnx",
    "@file.onnx",
    "a;b&c|d.onnx",
    "$HOME `id`.onnx",
    "%41%20.onnx",
    "#hash!.onnx",
    "[ab]*?.onnx",
    "{braces},comma.onnx",
    "co:lon.onnx",
    "back\\slash.onnx",
    "::error::x.onnx",
    "<b>&amp;.onnx",
    ".hidden.onnx",
    ".onnx",
    "UPPER.ONNX",
    "two.onnx.onnx",
    f"{'long' * 50}.onnx",
    "not-utf8-\udcff.onnx",
)
