"""A model in which one output is wrong, for models without weights that could be damaged instead."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, helper

from onnx_ci.model.graph import opset


def disturbed(proto: onnx.ModelProto, output: str) -> onnx.ModelProto | None:
    """A copy whose output `output` is wrong; None where no operators do that to its type."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    if not any(entry.domain in ("", "ai.onnx") for entry in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid("", 17))
    value = next(value for value in copy.graph.output if value.name == output)
    nodes = Wrong(opset(copy)).value(value.type, f"{output}.right", output)
    if nodes is None or not _rename(copy.graph, output, f"{output}.right"):
        return None
    copy.graph.node.extend(nodes)
    return copy


def _rename(graph: onnx.GraphProto, old: str, new: str) -> bool:
    """The value as the graph's nodes know it; the output keeps its name."""
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = new if name == old else name
    return any(new in node.output for node in graph.node)


class Wrong:
    """Nodes that make a wrong value of a right one, in the words of an operator set."""

    def __init__(self, version: int) -> None:
        self.version = version

    def value(self, kind: TypeProto, source: str, target: str) -> list[NodeProto] | None:
        which = kind.WhichOneof("value")
        if which == "tensor_type":
            return self.tensor(kind.tensor_type.elem_type, source, target)
        if which == "sequence_type":
            return self.sequence(kind.sequence_type.elem_type, source, target)
        if which == "optional_type":
            return self.optional(kind.optional_type.elem_type, source, target)
        return None

    def tensor(self, code: int, source: str, target: str) -> list[NodeProto]:
        if code == TensorProto.BOOL:
            return [helper.make_node("Not", [source], [target])]
        if code == TensorProto.STRING:
            return self._words(source, target)
        if code in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return self._opposite(code, source, target)
        wide, moved = f"{target}.wide", f"{target}.moved"  # few operators take all types
        return [
            helper.make_node("Cast", [source], [wide], to=TensorProto.FLOAT),
            *self._opposite(TensorProto.FLOAT, wide, moved),
            helper.make_node("Cast", [moved], [target], to=code),
        ]

    def _opposite(self, code: int, source: str, target: str) -> list[NodeProto]:
        """1 - x: another sign, and another value where it was 0."""
        one = f"{target}.one"
        constant = helper.make_node("Constant", [], [one], value=helper.make_tensor("", code, [], [1.0]))
        if self.version < 7:  # only the second operand is stretched: -x + 1
            negative = f"{target}.negative"
            flip = helper.make_node("Neg", [source], [negative])
            return [constant, flip, helper.make_node("Add", [negative, one], [target], broadcast=1)]
        return [constant, helper.make_node("Sub", [one, source], [target])]

    def _words(self, source: str, target: str) -> list[NodeProto]:
        word, shape = f"{target}.word", f"{target}.shape"
        text = helper.make_tensor("", TensorProto.STRING, [], np.array([b"wrong"]))
        return [
            helper.make_node("Constant", [], [word], value=text),
            helper.make_node("Shape", [source], [shape]),
            helper.make_node("Expand", [word, shape], [target]),
        ]

    def sequence(self, kind: TypeProto, source: str, target: str) -> list[NodeProto] | None:
        """One item more."""
        if kind.WhichOneof("value") != "tensor_type":
            return None
        code, item = kind.tensor_type.elem_type, f"{target}.item"
        sizes = [max(1, dim.dim_value) for dim in kind.tensor_type.shape.dim]
        count = 1
        for size in sizes:
            count *= size
        content = np.array([b"wrong" if code == TensorProto.STRING else 1] * count)
        return [
            helper.make_node("Constant", [], [item], value=helper.make_tensor("", code, sizes, content)),
            helper.make_node("SequenceInsert", [source, item], [target]),
        ]

    def optional(self, kind: TypeProto, source: str, target: str) -> list[NodeProto] | None:
        inner, wrong = f"{target}.inner", f"{target}.wrong"
        nodes = self.value(kind, inner, wrong)
        if nodes is None:
            return None
        return [
            helper.make_node("OptionalGetElement", [source], [inner]),
            *nodes,
            helper.make_node("Optional", [wrong], [target]),
        ]
