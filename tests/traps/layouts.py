"""Storage: files that every protobuf reader takes, though no library writes them so."""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto, TensorProto

from tests.traps.base import Trap, encode, model, tensor, trap, weight
from tests.traps.wire import (
    GRAPH_INITIALIZER,
    GROUP_END,
    GROUP_START,
    LENGTH,
    MODEL_GRAPH,
    TENSOR_DIMS,
    TENSOR_FLOATS,
    TENSOR_NAME,
    TENSOR_RAW,
    TENSOR_TYPE,
    block,
    fields,
    number,
    tag,
    varint,
)

VALUES = weight(64, 64, seed=1)


def _bare() -> ModelProto:
    return model("g (float[2,64] x) => (float[2,64] y) { h = MatMul(x, W) y = MatMul(h, V) }", {"V": VALUES})


def _with(initializer: bytes, *, field_width: int = 1) -> bytes:
    """The model whose W is this message, byte for byte."""
    made = _bare()
    body = encode(made.graph) + block(GRAPH_INITIALIZER, initializer, width=field_width)
    made.ClearField("graph")
    return encode(made) + block(MODEL_GRAPH, body, width=field_width)


def _dims() -> bytes:
    return number(TENSOR_DIMS, 64) + number(TENSOR_DIMS, 64)


def _head() -> bytes:
    return number(TENSOR_TYPE, TensorProto.FLOAT) + block(TENSOR_NAME, "W")


def raw_data_first() -> bytes:
    """raw_data stands before the name, type and dims that explain it."""
    return _with(block(TENSOR_RAW, VALUES.tobytes()) + _head() + _dims())


def raw_data_twice() -> bytes:
    """raw_data is there twice: the last one counts."""
    wrong = weight(64, 64, seed=9).tobytes()
    return _with(block(TENSOR_RAW, wrong) + _head() + _dims() + block(TENSOR_RAW, VALUES.tobytes()))


def packed_dims() -> bytes:
    """dims in packed form, which readers must take as well."""
    return _with(block(TENSOR_DIMS, varint(64) + varint(64)) + _head() + block(TENSOR_RAW, VALUES.tobytes()))


def unpacked_floats() -> bytes:
    """float_data with a tag before each number, and a packed run after them: they add up."""
    each = tag(TENSOR_FLOATS, 5)
    start = b"".join(each + number_.tobytes() for number_ in VALUES.ravel()[:1000])
    return _with(_dims() + _head() + start + block(TENSOR_FLOATS, VALUES.ravel()[1000:].tobytes()))


def long_varints() -> bytes:
    """Lengths and numbers padded to more bytes than they need."""
    dims = (tag(TENSOR_DIMS, 0) + varint(64, width=10)) * 2
    return _with(dims + _head() + block(TENSOR_RAW, VALUES.tobytes(), width=5), field_width=5)


def unknown_fields() -> bytes:
    """Fields of a later onnx, among them a group: onnxruntime skips them, a rewrite should keep them."""
    later = (
        number(1000, 7)
        + block(1001, "later" * 300)
        + tag(1002, GROUP_START)
        + number(1, 1)
        + tag(1002, GROUP_END)
    )
    tensor_bytes = later + _dims() + _head() + later + block(TENSOR_RAW, VALUES.tobytes()) + later
    return later + _with(tensor_bytes) + later


def graph_in_pieces() -> bytes:
    """The graph field occurs three times: readers merge the pieces into one graph."""
    made = _bare()
    made.graph.initializer.append(tensor("W", VALUES))
    parts = [content for _, content in fields(encode(made.graph))]
    made.ClearField("graph")
    cut = len(parts) // 2
    pieces = [b"".join(parts[:cut]), b"", b"".join(parts[cut:])]
    first, *rest = [block(MODEL_GRAPH, piece) for piece in pieces]
    return first + encode(made) + b"".join(rest)


def weights_before_nodes() -> bytes:
    """The fields of the graph in reverse order of their numbers, the large ones first."""
    made = _bare()
    made.graph.initializer.append(tensor("W", VALUES))
    parts = sorted(fields(encode(made.graph)), key=lambda part: -part[0])
    made.ClearField("graph")
    return block(MODEL_GRAPH, b"".join(content for _, content in parts)) + encode(made)


def empty_typed_fields() -> bytes:
    """An empty float_data beside the raw_data, and an empty raw_data before it."""
    empty = tag(TENSOR_FLOATS, LENGTH) + varint(0) + block(TENSOR_RAW, b"")
    return _with(empty + _dims() + _head() + block(TENSOR_RAW, VALUES.tobytes()))


MAKERS: tuple[Callable[[], bytes], ...] = (
    raw_data_first,
    raw_data_twice,
    packed_dims,
    unpacked_floats,
    long_varints,
    unknown_fields,
    graph_in_pieces,
    weights_before_nodes,
    empty_typed_fields,
)
LAYOUTS: tuple[Trap, ...] = tuple(trap(make) for make in MAKERS)
