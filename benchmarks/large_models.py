"""Writes models of any size without holding them: many copies, many bytes, or many nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_ci.model.wire import tag, varint

BLOCK = 1 << 22  # numbers that are drawn once; every tensor is made of them, scaled by a number of its own
WIDTH = 1024  # of a matrix; inputs stay small, whatever the model takes
OPSET = [helper.make_opsetid("", 17)]
ALBERT = ((768, 768),) * 4 + ((768, 3072), (3072, 768))  # of one layer
LAYERS = 12


def copies(path: Path) -> None:
    """An ALBERT whose twelve layers each have a copy of the weights they share, 340 MB."""
    names = [f"layer{layer}.{number}" for layer in range(LAYERS) for number in range(len(ALBERT))]
    write(
        path,
        _chain(names),
        [(name, ALBERT[n % len(ALBERT)], n % len(ALBERT)) for n, name in enumerate(names)],
    )


def weights(path: Path, size: int, *, outside: bool = False) -> None:
    """Matrices of 128 MB, no two alike, `size` bytes together; if asked in a file beside the model."""
    rows = 128_000_000 // 4 // WIDTH
    count = max(1, size // (rows * WIDTH * 4))
    nodes, tensors = [], []
    for number in range(count):
        name = f"table{number}"
        nodes.append(helper.make_node("Gather", [name, "ids"], [f"row{number}"]))
        tensors.append((name, (rows, WIDTH), number))
    nodes.append(helper.make_node("Sum", [f"row{number}" for number in range(count)], ["y"]))
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [1])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, WIDTH])]
    write(path, helper.make_graph(nodes, "tables", inputs, outputs), tensors, outside=outside)


def nodes(path: Path, count: int) -> None:
    """A chain of so many small nodes, one in four with a weight of its own."""
    made, tensors = [], []
    for number in range(count):
        inputs = [f"v{number}"]
        if number % 4 == 0:
            inputs.append(f"w{number}")
            tensors.append(helper.make_tensor(f"w{number}", TensorProto.FLOAT, [4], [number + 1.0, 2, 3, 4]))
        op = ("Add", "Sigmoid", "Neg", "Tanh")[number % 4]
        made.append(helper.make_node(op, inputs, [f"v{number + 1}"], name=f"node{number}"))
    value = helper.make_tensor_value_info
    first, last = (value(f"v{number}", TensorProto.FLOAT, [4]) for number in (0, count))
    graph = helper.make_graph(made, "chain", [first], [last], tensors)
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=8), path)


def _chain(names: Sequence[str]) -> onnx.GraphProto:
    values = ["x", *(f"h{number}" for number in range(1, len(names))), "y"]
    made = [
        helper.make_node("MatMul", [before, name], [after])
        for before, name, after in zip(values, names, values[1:], strict=False)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 768]) for name in ("x", "y")]
    return helper.make_graph(made, "chain", ends[:1], ends[1:])


def write(
    path: Path,
    graph: onnx.GraphProto,
    tensors: Sequence[tuple[str, tuple[int, ...], int]],
    *,
    outside: bool = False,
) -> None:
    """Write a model with float32 tensors (name, shape, seed) added to its graph: its bytes by hand, since
    protobuf takes no more than 2 GiB."""
    heads, sizes = [], []
    at = 0
    for name, shape, _ in tensors:
        size = 4 * int(np.prod(shape))
        head = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        if outside:
            head.data_location = TensorProto.EXTERNAL
            for key, value in (("location", f"{path.name}.data"), ("offset", at), ("length", size)):
                head.external_data.add(key=key, value=str(value))
        heads.append(head.SerializeToString() + (b"" if outside else tag(9) + varint(size)))
        sizes.append(size)
        at += size
    inner = graph.SerializeToString()
    prefixes = [tag(5) + varint(len(h) + (0 if outside else s)) for h, s in zip(heads, sizes, strict=True)]
    length = len(inner) + sum(map(len, prefixes)) + sum(map(len, heads)) + (0 if outside else at)
    model = helper.make_model(onnx.GraphProto(), opset_imports=OPSET, ir_version=8)
    model.ClearField("graph")
    with (
        path.open("wb") as file,
        (path.with_name(f"{path.name}.data") if outside else path).open("ab") as data,
    ):
        file.write(model.SerializeToString() + tag(7) + varint(length) + inner)
        for prefix, head, size, (_, _, seed) in zip(prefixes, heads, sizes, tensors, strict=True):
            file.write(prefix + head)
            file.flush()
            for piece in _numbers(size // 4, seed):
                data.write(piece)
            data.flush()
            file.seek(0, 2)


def _numbers(count: int, seed: int) -> Iterator[bytes]:
    block = np.random.default_rng(0).standard_normal(min(BLOCK, count), np.float32)
    for start in range(0, count, BLOCK):
        scale = np.float32(0.02 * (1 + seed / 997 + start / BLOCK / 99_991))
        yield (block[: min(BLOCK, count - start)] * scale).tobytes()


def main() -> None:
    """`large_models.py KIND PATH [SIZE]`, in a process of its own: numpy would swell the one that races."""
    kind, path, *size = sys.argv[1:]
    target, number = Path(path), int(float(size[0])) if size else 0
    if kind == "copies":
        copies(target)
    elif kind == "nodes":
        nodes(target, number)
    else:
        weights(target, number, outside=kind == "outside")


if __name__ == "__main__":
    main()
