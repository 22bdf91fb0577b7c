"""Constants in the one form that every tool reads: numbers given in short become tensors."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, numpy_helper

from onnx_ci.model.graphs import bodies

SHORT = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}


def spell_out(model: onnx.ModelProto) -> None:
    """onnxslim makes double numbers of `value_float`, and then nothing fits."""
    for body in bodies(model):
        for node in body.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name in SHORT:
                _spell_out(node)


def _spell_out(node: NodeProto) -> None:
    short = node.attribute[0]
    values = onnx.helper.get_attribute_value(short)
    tensor = numpy_helper.from_array(np.array(values, SHORT[short.name]))
    del node.attribute[:]
    node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
