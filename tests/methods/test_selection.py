"""Which stored tensors are parts of an encoding, also in graphs that are not as they should be."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.methods.selection import encoding_parts


@pytest.mark.parametrize(
    ("op", "inputs"), [("Cast", []), ("CastLike", []), ("Gather", []), ("Gather", ["w"]), ("Expand", [])]
)
def test_a_node_without_its_inputs_is_no_part(op: str, inputs: list[str]) -> None:
    weight = numpy_helper.from_array(np.ones(4, np.int8), "w")
    nodes = [
        helper.make_node(op, inputs, ["a"]),
        helper.make_node("Cast", ["w"], ["b"], to=TensorProto.INT32),
    ]
    made = helper.make_model(helper.make_graph(nodes, "g", [], [], [weight]))
    assert encoding_parts(made) - {"a"} == {"b"}
