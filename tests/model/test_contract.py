"""The interface of a model, and every way to break it."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx import TensorProto

from onnx_ci.model.interface import contract_breaks
from tests.support.text_models import model

BASE = (
    '<ir_version: 8, opset_import: ["": 17, "f": 1, "unused": 3], producer_name: "me">\n'
    "g (float[N,4] x, int64[N] n) => (float[N,4] y, float[N,4] z) { y = f.twice(x) z = Relu(x) }\n"
    '<domain: "f", opset_import: ["": 17]> twice (a) => (b) { b = Add(a, a) }'
)


def base() -> onnx.ModelProto:
    proto = model(BASE, head="")
    proto.metadata_props.add(key="author", value="me")
    proto.doc_string = "a model"
    return proto


def rename(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].name = "X"


def retype(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16


def reshape(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def forget(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1


def say(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1


def fix(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def reorder(proto: onnx.ModelProto) -> None:
    outputs = list(proto.graph.output)[::-1]
    del proto.graph.output[:]
    proto.graph.output.extend(outputs)


def drop_output(proto: onnx.ModelProto) -> None:
    del proto.graph.output[1]


def raise_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version = 18


def add_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import.add(domain="com.microsoft", version=1)


def drop_opset(proto: onnx.ModelProto) -> None:
    del proto.opset_import[1]


def raise_ir(proto: onnx.ModelProto) -> None:
    proto.ir_version = 9


def drop_metadata(proto: onnx.ModelProto) -> None:
    del proto.metadata_props[:]


def change_metadata(proto: onnx.ModelProto) -> None:
    proto.metadata_props[0].value = "you"


def change_producer(proto: onnx.ModelProto) -> None:
    proto.producer_name = "onnx-ci"


def change_doc(proto: onnx.ModelProto) -> None:
    proto.doc_string = "another model"


def drop_function(proto: onnx.ModelProto) -> None:
    del proto.functions[:]


@pytest.mark.parametrize(
    ("change", "topic", "says"),
    [
        (rename, "inputs", "input 'x' is gone"),
        (retype, "outputs", "output 'y' was float[N,4] and is now float16[N,4]"),
        (reshape, "dims", "input 'x' was float[N,4] and is now float[batch,4]"),
        (forget, "dims", "input 'x' was float[N,4] and is now float[-1,4]"),
        (say, "dims", "output 'y' was float[N,4] and is now float[1,4]"),
        (fix, "inputs", "input 'x' was float[N,4] and is now float[1,4]"),
        (reorder, "outputs", "the order of the outputs changed: y, z became z, y"),
        (drop_output, "outputs", "output 'z' is gone"),
        (raise_opset, "opset", "opset of ai.onnx was 17 and is now 18"),
        (add_opset, "opset", "opset import of com.microsoft 1 is new"),
        (drop_opset, "opset", "opset import of f is gone although its operators are used"),
        (raise_ir, "ir", "IR version was 8 and is now 9"),
        (drop_metadata, "metadata", "metadata 'author' is gone"),
        (change_metadata, "metadata", "metadata 'author' changed"),
        (change_producer, "producer", "producer name was 'me' and is now 'onnx-ci'"),
        (change_doc, "producer", "the doc string changed"),
        (drop_function, "functions", "function f.twice is gone although it is called"),
    ],
)
def test_breaks(change: Callable[[onnx.ModelProto], None], topic: str, says: str) -> None:
    after = base()
    change(after)
    assert says in contract_breaks(base(), after)
    assert contract_breaks(base(), after, allow=[topic]) == []


def test_what_may_change() -> None:
    after = base()
    after.metadata_props.add(key="onnx_ci.receipt", value="{}")
    after.doc_string = ""
    after.graph.doc_string = "anything"
    after.graph.node[0].name = "renamed"
    del after.opset_import[2]
    assert contract_breaks(base(), after) == []


def test_other_types_are_told_apart() -> None:
    first = model("g (seq(float[2]) s, optional(float[N]) o) => (float[2] y) { y = SequenceAt(s, s) }")
    second = model("g (seq(float[3]) s, optional(float[M]) o) => (float[2] y) { y = SequenceAt(s, s) }")
    assert contract_breaks(first, first) == []
    assert "input 's' was sequence(float[2]) and is now sequence(float[3])" in contract_breaks(first, second)
    assert len(contract_breaks(first, second)) == 2
