"""Files: models past protobuf's limit of 2 GiB, written as sparse files in no time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto

from tests.traps.base import FILE, Feed, Trap, built, encode, model, weight
from tests.traps.wire import (
    GRAPH_INITIALIZER,
    LENGTH,
    MODEL_GRAPH,
    TENSOR_DIMS,
    TENSOR_NAME,
    TENSOR_RAW,
    TENSOR_TYPE,
    block,
    number,
    tag,
    varint,
)


def over_2_gib(folder: Path) -> Path:
    """A model past protobuf's limit of 2 GiB: a sparse file with a table of zeros, one row past the limit."""
    text = """g (float[2,64] x, int64[2] at) => (float[2,64] y) { r = Gather(T, at) a = Add(x, r) y =
        MatMul(a, W) }"""
    return write_sparse(model(text, {"W": weight(64, 64, seed=1)}), {"T": (2**23 + 1, 64)}, folder)


def over_2_gib_of_duplicates(folder: Path) -> Path:
    """Two equal tables of 1.2 GiB of zeros: too large to run, and small enough once they are one."""
    text = """g (float[2,64] x, int64[2] at) => (float[2,64] y)
        { r = Gather(T, at) s = Gather(S, at) t = Add(r, s) a = Add(x, t) y = MatMul(a, W) }"""
    sides = (5 * 2**20, 64)
    return write_sparse(model(text, {"W": weight(64, 64, seed=1)}), {"T": sides, "S": sides}, folder)


def write_sparse(made: ModelProto, zeros: Mapping[str, tuple[int, int]], folder: Path) -> Path:
    """The model plus tensors of zeros whose bytes are holes in the file, written in no time."""
    body = encode(made.graph)
    made.ClearField("graph")
    holes = []
    for name, shape in zeros.items():
        size = 4 * shape[0] * shape[1]
        head = b"".join(number(TENSOR_DIMS, side) for side in shape) + number(TENSOR_TYPE, TensorProto.FLOAT)
        head += block(TENSOR_NAME, name) + tag(TENSOR_RAW, LENGTH) + varint(size)
        holes.append((tag(GRAPH_INITIALIZER, LENGTH) + varint(len(head) + size) + head, size))
    total = len(body) + sum(len(head) + size for head, size in holes)
    path = folder / FILE
    with path.open("wb") as file:
        file.write(encode(made) + tag(MODEL_GRAPH, LENGTH) + varint(total) + body)
        for head, size in holes:
            file.write(head)
            file.seek(size, os.SEEK_CUR)
        file.truncate()
    return path


def looked_up() -> list[Feed]:
    return [{"x": weight(2, 64, seed=7, scale=1.0), "at": np.array([0, 5], np.int64)}]


HUGE_FILES: tuple[Trap, ...] = (
    built(over_2_gib, runs=False, checks=False, feeds=looked_up),
    built(over_2_gib_of_duplicates, runs=False, checks=False, feeds=looked_up),
)
