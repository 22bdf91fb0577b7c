"""Files: layouts of one model over several files that are in order, and must come out so."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from tests.traps.base import (
    FILE,
    Array,
    Trap,
    built,
    constant,
    encode,
    floats,
    model,
    subgraphs,
    tensor,
    trap,
    weight,
)
from tests.traps.storage import float_data

DATA = "weights.bin"
LAYERS = "g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) k = MatMul(h, V) y = Add(k, b) }"


def layers(*, same: bool = False) -> ModelProto:
    first = weight(64, 64, seed=1)
    second = first if same else weight(64, 64, seed=2)
    return model(LAYERS, {"W": first, "V": second, "b": weight(64, seed=3)})


def move_out(
    item: TensorProto, location: str, offset: int | None = None, length: int | None = None, **more: str
) -> bytes:
    """Turn a tensor into a reference to a file, and return the bytes that belong there."""
    data = item.raw_data
    item.ClearField("raw_data")
    item.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": length, **more}
    for key, value in entries.items():
        if value is not None:
            item.external_data.add(key=key, value=str(value))
    return data


def save(made: ModelProto, folder: Path, files: Mapping[str, bytes], name: str = FILE) -> Path:
    for location, data in files.items():
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(data)
    path = folder / name
    path.write_bytes(encode(made))
    return path


def pack(
    items: Iterable[TensorProto], location: str, *, align: int = 1, start: bytes = b"", end: bytes = b""
) -> bytes:
    """Move tensors one after another into one file; what is between them is no one's."""
    out = bytearray(start)
    for item in items:
        out.extend(b"\xee" * (-len(out) % align))
        at, size = len(out), len(item.raw_data)
        out.extend(move_out(item, location, at, size))
    return bytes(out) + end


def external_one_file(folder: Path) -> Path:
    """All weights in one file, page-aligned, as onnx.save writes them."""
    made = layers()
    return save(
        made, folder, {"model.onnx.data": pack(made.graph.initializer, "model.onnx.data", align=4096)}
    )


def external_many_files(folder: Path) -> Path:
    """A file for each weight, without offset or length: the whole file is the tensor."""
    made = layers()
    return save(made, folder, {item.name: move_out(item, item.name) for item in made.graph.initializer})


def external_subfolder(folder: Path) -> Path:
    """The data is in a folder below the model's, one location with a leading dot."""
    made = layers()
    first, second, bias = made.graph.initializer
    files = {"data/a/first.bin": move_out(first, "data/a/first.bin"), "data/rest.bin": b""}
    files["data/rest.bin"] = pack([second, bias], "./data/rest.bin")
    return save(made, folder, files)


def external_shared_by_two_models(folder: Path) -> Path:
    """Two models use one data file, in part the same bytes: rewriting it for one breaks the other."""
    made, twin = layers(), layers()
    data = pack(made.graph.initializer, DATA)
    own = weight(64, 64, seed=5).tobytes()
    for item, span in zip(
        twin.graph.initializer, ((0, 16384), (len(data), 16384), (32768, 256)), strict=True
    ):
        move_out(item, DATA, *span)
    save(twin, folder, {}, name="twin.onnx")
    return save(made, folder, {DATA: data + own})


def external_gaps_and_orphans(folder: Path) -> Path:
    """Bytes before, between and after the tensors that belong to none, at odd offsets."""
    made = layers()
    data = pack(made.graph.initializer, DATA, align=777, start=b"HEAD", end=b"\x55" * 9000)
    return save(made, folder, {DATA: data})


def external_unused_file(folder: Path) -> Path:
    """A data file whose only tensor nothing uses, and a file beside the model that is not the model's."""
    made = layers()
    idle = tensor("idle", weight(64, 64, seed=8))
    files = {
        DATA: pack(made.graph.initializer, DATA),
        "idle.bin": move_out(idle, "idle.bin"),
        "other.bin": b"keep me",
    }
    made.graph.initializer.append(idle)
    return save(made, folder, files)


def external_shared_span(folder: Path) -> Path:
    """Two tensors are the same bytes of the file, and a third is part of them: shared already."""
    made = layers(same=True)
    first, second, bias = made.graph.initializer
    data = move_out(first, DATA, 0, 16384)
    move_out(second, DATA, 0, 16384)
    move_out(bias, DATA, 1024, 256)
    return save(made, folder, {DATA: data})


def external_offset_without_length(folder: Path) -> Path:
    """An offset and no length: the rest of the file; the first has a length and no offset."""
    made = layers()
    first, bias, second = (made.graph.initializer[at] for at in (0, 2, 1))
    data = (
        move_out(first, DATA, None, 16384) + move_out(bias, DATA, 16384, 256) + move_out(second, DATA, 16640)
    )
    return save(made, folder, {DATA: data})


def external_open_end_before_others(folder: Path) -> Path:
    """No length though other tensors follow: onnxruntime goes by the shape, onnx.load reads to the end."""
    made = layers()
    first, second, bias = made.graph.initializer
    data = move_out(first, DATA, 0, 16384) + move_out(second, DATA, 16384) + move_out(bias, DATA, 32768, 256)
    return save(made, folder, {DATA: data})


def external_checksum(folder: Path) -> Path:
    """A checksum key, and one that no specification knows: a rewrite makes the first stale."""
    made = layers()
    files = {}
    for item in made.graph.initializer:
        digest = hashlib.sha1(item.raw_data).hexdigest()  # noqa: S324 - what the specification asks for
        files[item.name] = move_out(item, item.name, 0, len(item.raw_data), checksum=digest)
    return save(made, folder, files)


def external_duplicates(folder: Path) -> Path:
    """Equal tensors stored twice in the data file, and a third copy inside the model."""
    made = layers(same=True)
    made.graph.initializer.append(tensor("U", weight(64, 64, seed=1)))
    made.graph.node[2].input[0] = "u"
    made.graph.node.insert(
        2, model("g (float[2,64] k) => (float[2,64] u) { u = MatMul(k, U) }").graph.node[0]
    )
    return save(made, folder, {DATA: pack(made.graph.initializer[:2], DATA)})


def _small_and_empty() -> ModelProto:
    text = "g (float[2,64] x) => (float[2,64] y, float[0,4] e) { h = MatMul(x, W) y = Mul(h, f) e = Neg(E) }"
    small: dict[str, Array] = {"E": np.zeros((0, 4), np.float32), "f": np.array(0.5, np.float32)}
    return model(text, {**small, "W": weight(64, 64, seed=1)})


def external_small_and_empty(folder: Path) -> Path:
    """A scalar and an empty tensor in the data file too."""
    made = _small_and_empty()
    return save(made, folder, {DATA: pack(made.graph.initializer, DATA)})


def external_empty_at_end(folder: Path) -> Path:
    """The empty tensor is at the very end of the data file, where onnxruntime can't even read nothing."""
    made = _small_and_empty()
    return save(made, folder, {DATA: pack(reversed(made.graph.initializer), DATA)})


def external_shape(folder: Path) -> Path:
    """The shape of a Reshape in the data file, where shape inference can't look: onnxruntime says no."""
    text = "g (float[2,64] x) => (float[2,64] y) { r = Reshape(x, s) y = MatMul(r, W) }"
    made = model(text, {"W": weight(64, 64, seed=1), "s": np.array([2, 64], np.int64)})
    return save(made, folder, {DATA: pack(made.graph.initializer, DATA)})


def external_in_branches(folder: Path) -> Path:
    """Weights of subgraphs in the data file."""
    text = """g (float[2,64] x, bool c) => (float[2,64] y) {
        y = If (c) <then_branch = t () => (float[2,64] p) { p = MatMul(x, W) },
                    else_branch = e () => (float[2,64] q) { q = MatMul(x, W) }> }"""
    made = model(text, inside={"t": {"W": weight(64, 64, seed=1)}, "e": {"W": weight(64, 64, seed=2)}})
    inner: list[GraphProto] = list(subgraphs(made.graph))
    return save(made, folder, {DATA: pack([item for sub in inner for item in sub.initializer], DATA)})


def external_in_constants(folder: Path) -> Path:
    """The tensors of Constant nodes in the data file."""
    made = layers()
    weights = list(made.graph.initializer)
    del made.graph.initializer[:]
    for item in weights:
        made.graph.node.insert(0, constant(item.name, item))
    moved = [node.attribute[0].t for node in made.graph.node if node.op_type == "Constant"]
    return save(made, folder, {DATA: pack(moved, DATA)})


def external_odd_names(folder: Path) -> Path:
    """Data files whose names have spaces, quotes and other scripts, or look like a model's."""
    made = layers()
    names = ("my weights 'a'.bin", "wägen 重み.bin", "other.onnx")
    moved = zip(made.graph.initializer, names, strict=True)
    return save(made, folder, {name: move_out(item, name) for item, name in moved})


def external_past_4_gib(folder: Path) -> Path:
    """A tensor beyond 4 GiB of a sparse data file: offsets need 64 bits."""
    made = layers()
    start = 2**32 + 4096
    data = pack(made.graph.initializer, DATA)
    for item in made.graph.initializer:
        item.external_data[1].value = str(int(item.external_data[1].value) + start)
    path = save(made, folder, {})
    with (folder / DATA).open("wb") as file:
        file.seek(start)
        file.write(data)
    return path


def read_only_file(folder: Path) -> Path:
    """A file without write permission: it can be replaced, and its mode is part of it."""
    path = save(layers(same=True), folder, {})
    path.chmod(0o444)
    return path


def linked_model(folder: Path) -> Path:
    """The model is a symbolic link to a file of the same folder: writing must not turn it into a copy."""
    save(layers(same=True), folder, {}, name="real.onnx")
    (folder / FILE).symlink_to("real.onnx")
    return folder / FILE


GOOD_FILES: tuple[Trap, ...] = (
    trap(float_data, name="float_data_file"),
    built(external_one_file),
    built(external_many_files),
    built(external_subfolder),
    built(external_shared_by_two_models, also=("twin.onnx",)),
    built(external_gaps_and_orphans),
    built(external_unused_file),
    built(external_shared_span),
    built(external_offset_without_length),
    built(external_open_end_before_others),
    built(external_checksum),
    built(external_duplicates),
    built(external_small_and_empty),
    built(external_empty_at_end, runs=False),
    built(external_shape, runs=False),
    built(
        external_in_branches,
        feeds=lambda: [{**feed, "c": np.array(c)} for feed in floats(2, 64)() for c in (True, False)],
    ),
    built(external_in_constants),
    built(external_odd_names),
    built(external_past_4_gib),
    built(read_only_file),
    built(linked_model),
)
