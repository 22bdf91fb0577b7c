"""What fuzzing starts from, made by code; and what once crashed, kept so that it never does again."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.model.wire import BYTES, VARINT, tag, varint
from tests.support.models import bloated


def models() -> list[bytes]:
    """A plain one, one with weights of every kind of storage, and one with graphs in graphs and functions."""
    return [found.SerializeToString() for found in (bloated(width=16, layers=2), _stored(), _nested())]


def policies() -> list[bytes]:
    from tests.support.good_policies import CONTRACT

    return [
        CONTRACT.encode(),
        b'version: 1\nmodels: [{path: "*.onnx"}]\n',
        b"&a [*a]",
        b"version: 1\nmodels: [{<<: {}}]",
    ]


def crashes() -> dict[str, list[bytes]]:
    """By target: what was found by fuzzing and mended."""
    return {"container": [_raw_data_that_is_a_number()], "policy": []}


def _raw_data_that_is_a_number() -> bytes:
    """`raw_data` under the wrong wire type, in a tensor that is large enough to be looked into."""
    tensor = tag(9, VARINT) + varint(1) + tag(8, BYTES) + varint(2000) + b"x" * 2000
    graph = tag(5, BYTES) + varint(len(tensor)) + tensor
    return tag(7, BYTES) + varint(len(graph)) + graph


def _stored() -> onnx.ModelProto:
    values = np.arange(300, dtype=np.float32)
    weights = [
        numpy_helper.from_array(values, "raw"),
        helper.make_tensor("floats", TensorProto.FLOAT, [300], values.tolist()),
        helper.make_tensor("doubles", TensorProto.DOUBLE, [300], values.tolist()),
        helper.make_tensor("halves", TensorProto.FLOAT16, [4], [1.0, 2.0, 3.0, 4.0]),
        helper.make_tensor("words", TensorProto.STRING, [2], np.array([b"a", b"b"])),
    ]
    nodes = [helper.make_node("Add", ["x", "raw"], ["y"], name="n", doc_string="d")]
    shape = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [300]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", shape[:1], shape[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _nested() -> onnx.ModelProto:
    constant = helper.make_node(
        "Constant", [], ["y"], value=numpy_helper.from_array(np.ones(300, np.float32))
    )
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [300])
    branch = helper.make_graph([constant], "b", [], [result])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([choice], "g", [condition], [result])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "f", [], ["y"], [constant], opsets[:1])
    return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=8)
