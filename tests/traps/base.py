"""What a trap is, and the few helpers its builder needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, parser

Array = NDArray[Any]
Feed = dict[str, Array]
Weight = Array | TensorProto
Make = Callable[[], ModelProto | bytes]

FILE = "model.onnx"


@dataclass(frozen=True, kw_only=True)
class Trap:
    """A model that is right as it stands, and that a careless tool breaks."""

    name: str
    build: Callable[[Path], Path]
    runs: bool = True  # onnxruntime loads and runs it
    feeds: Callable[[], list[Feed]] | None = None
    why: str
    checks: bool = True  # onnx.checker accepts it
    finite: bool = True  # no NaN or infinity in any output
    repeats: bool = True  # a second run gives the same bits
    also: tuple[str, ...] = ()  # further models written to the same folder


@dataclass(frozen=True, kw_only=True)
class FileTrap:
    """A file that can't be used as a model; `words` must be in the message (lower-cased) that says so."""

    name: str
    build: Callable[[Path], Path]
    words: tuple[str, ...]
    why: str
    probe: bool = True  # False: merely opening it with onnx.load would hang


def trap(make: Make, *, name: str = "", why: str = "", **flags: Any) -> Trap:
    """A trap of a single file; its name and reason are those of the function unless told otherwise."""
    text = why or (make.__doc__ or "") if not isinstance(make, partial) else why
    named = name or getattr(make, "__name__", "")
    return Trap(name=named, build=partial(write, make), why=" ".join(text.split()), **flags)


def built(build: Callable[[Path], Path], *, name: str = "", **flags: Any) -> Trap:
    """A trap whose builder writes its own files."""
    why = " ".join((build.__doc__ or "").split())
    return Trap(name=name or getattr(build, "__name__", ""), build=build, why=why, **flags)


def encode(message: Message) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def write(make: Make, folder: Path, file: str = FILE) -> Path:
    made = make()
    path = folder / file
    path.write_bytes(made if isinstance(made, bytes) else encode(made))
    return path


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def weight(*shape: int, seed: int = 0, scale: float = 0.125) -> NDArray[np.float32]:
    return (rng(seed).standard_normal(shape) * scale).astype(np.float32)


def uneven(*shape: int, axis: int, seed: int = 0) -> NDArray[np.float32]:
    """Channels along `axis` differ a thousandfold, so that scales along another axis lose the small ones."""
    sides = [1] * len(shape)
    sides[axis] = -1
    return (weight(*shape, seed=seed) * spread(shape[axis]).reshape(sides)).astype(np.float32)


def spread(channels: int) -> NDArray[np.float32]:
    return np.geomspace(0.001, 1.0, channels, dtype=np.float32)


def tensor(name: str, value: Weight) -> TensorProto:
    if isinstance(value, TensorProto):
        copy = TensorProto()
        copy.CopyFrom(value)
        copy.name = name
        return copy
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)


def raw(data_type: int, shape: tuple[int, ...], data: bytes) -> TensorProto:
    """A tensor of any type from its bytes, whatever numpy thinks of the type."""
    return TensorProto(data_type=data_type, dims=shape, raw_data=data)


def graph(text: str, weights: Mapping[str, Weight] | None = None) -> GraphProto:
    parsed = parser.parse_graph(text)
    parsed.initializer.extend(tensor(name, value) for name, value in (weights or {}).items())
    return parsed


def model(
    text: str | GraphProto,
    weights: Mapping[str, Weight] | None = None,
    *,
    inside: Mapping[str, Mapping[str, Weight]] | None = None,
    opset: int = 17,
    ir: int = 8,
    domains: Mapping[str, int] | None = None,
) -> ModelProto:
    """A model from the text of a graph, its weights, and those `inside` the subgraphs, by graph name."""
    top = graph(text, weights) if isinstance(text, str) else text
    for name, inner in (inside or {}).items():
        found = next(sub for sub in subgraphs(top) if sub.name == name)
        found.initializer.extend(tensor(key, value) for key, value in inner.items())
    imports = [
        helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()
    ]
    return helper.make_model(top, opset_imports=imports, ir_version=ir, producer_name="onnx-ci traps")


def subgraphs(top: GraphProto) -> Iterator[GraphProto]:
    for node in top.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                yield inner
                yield from subgraphs(inner)


def constant(output: str, value: Weight) -> NodeProto:
    return helper.make_node("Constant", [], [output], value=tensor(output, value))


def floats(*shape: int, count: int = 2, seed: int = 7, name: str = "x") -> Callable[[], list[Feed]]:
    """Feeds of one float input."""
    return lambda: [{name: weight(*shape, seed=seed + n, scale=1.0)} for n in range(count)]


def feeds_for(one: Trap, path: Path) -> list[Feed]:
    """The trap's own inputs, or seeded ones made from the graph's inputs."""
    if one.feeds is not None:
        return one.feeds()
    top = onnx.load(path, load_external_data=False).graph
    stored = {item.name for item in top.initializer} | {item.values.name for item in top.sparse_initializer}
    wanted = [value for value in top.input if value.name not in stored]
    return [{value.name: _generic(value, rng(seed)) for value in wanted} for seed in (11, 12)]


def _generic(value: onnx.ValueInfoProto, random: np.random.Generator) -> Array:
    """Symbolic dimensions are 2, which all that share a name then agree on."""
    kind = value.type.tensor_type
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else 2 for dim in kind.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if kind.elem_type == TensorProto.STRING:
        return random.choice(np.array(["a", "b"], dtype=object), shape)
    if np.issubdtype(dtype, np.floating):
        return np.asarray(random.standard_normal(shape), dtype)
    high = 256 if dtype == np.uint8 else 2  # uint8 is mostly pictures, other integers mostly indices
    return np.asarray(random.integers(0, high, shape), dtype)
