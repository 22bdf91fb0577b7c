"""Stores tensors in a smaller form that gives them back bit for bit when a session starts.

Only `Cast`, `Expand`, `Gather` and `Reshape` are used. Measured with onnxruntime 1.31: of stored tensors it
folds each of them, for every type in TYPES, from opset 6 (Expand 8) on, in branches and loop bodies too, and
whatever the size of the result (512 MiB tried), so that a session runs the graph as it was. `Tile` would not
do: of float16 it is not folded. The parts of a form are compacted in turn until nothing more is gained,
which is also why a second run finds nothing to do.
"""

from __future__ import annotations

import numpy as np

from onnx_ci.methods.applied import Applied
from onnx_ci.methods.edit import cast_node
from onnx_ci.methods.forms.narrow import Narrow, narrow
from onnx_ci.methods.forms.repeat import Repeat, repeat
from onnx_ci.methods.forms.table import Table, table
from onnx_ci.methods.options import NoOptions
from onnx_ci.methods.quantized import quantized_inputs
from onnx_ci.methods.scopes import Site, fixed_names
from onnx_ci.methods.slices import Array
from onnx_ci.methods.weights import Encoder, encode_tensors
from onnx_ci.model.container import NUMPY_TYPES, Model
from onnx_ci.model.dtypes import stored_bytes
from onnx_ci.model.graphs import opset
from onnx_ci.model.proto import FunctionProto, NodeProto, TensorProto

MIN_OPSET = 6  # Cast takes its type as a number from here on
MIN_BYTES = (
    1024  # smaller tensors are shapes, axes and the like, which must be seen before anything is folded
)
OVERHEAD = 512  # bytes: more than what the nodes and names of a form take
WORTH = 0.75  # a form has to be this much smaller, or loading takes longer for next to nothing
TYPES = frozenset(NUMPY_TYPES)

Form = Narrow | Repeat | Table


def apply(model: Model, _: NoOptions) -> Applied:
    def encode(encoder: Encoder, values: Array) -> list[NodeProto] | None:
        form = smaller_form(values, opset=_opset(model, encoder.site))
        return None if form is None else _Rebuild(encoder, _opset(model, encoder.site)).nodes(form, values)

    def wanted(site: Site) -> bool:
        tensor = site.tensor
        # Numbers that are stored one by one (int64_data) are compact already, if they are small.
        plain = tensor.HasField("raw_data") or model.span(tensor) is not None
        size = stored_bytes(tensor.data_type, tensor.dims) or 0
        return plain and tensor.data_type in TYPES and size >= MIN_BYTES

    left_alone = fixed_names(model.proto) | quantized_inputs(model.proto)
    return Applied(encode_tensors(model, left_alone, wanted, encode))


def _opset(model: Model, site: Site) -> int:
    """Functions import opsets of their own."""
    root = site.scope.chain()[-1].body
    return opset(root if isinstance(root, FunctionProto) else model.proto)


def smaller_form(values: Array, *, opset: int) -> Form | None:
    """The first form that is worth it. What it stores is looked at again, so they add up: a mask of
    float32 becomes uint8 first, and then one byte for every eight of them."""
    if opset < MIN_OPSET or values.nbytes < MIN_BYTES:
        return None
    for make in (repeat, narrow, table):
        form: Form | None = make(values, opset=opset)
        if form is not None and form.nbytes + OVERHEAD <= values.nbytes * WORTH:
            return form
    return None


class _Rebuild:
    """The nodes that rebuild one tensor, with the parts they read."""

    def __init__(self, encoder: Encoder, opset: int) -> None:
        self.encoder = encoder
        self.opset = opset
        self.made: list[NodeProto] = []

    def nodes(self, form: Form, values: Array) -> list[NodeProto]:
        self._rebuild(form, values, self.encoder.output)
        return self.made

    def _rebuild(self, form: Form, values: Array, output: str) -> None:
        if isinstance(form, Narrow):
            self._cast(self._part("narrow", form.values, form.data_type), output, _type_of(values))
            return
        made = self.encoder.name("flat") if form.reshapes else output
        if isinstance(form, Repeat):
            shape = self.encoder.store("expanded", np.array(form.expanded, np.int64))
            self._add("Expand", [self._part("block", form.block), shape], made)
        else:
            codes, indices = self._part("codes", form.codes), self.encoder.name("indices")
            self._cast(codes, indices, TensorProto.INT32)
            self._add("Gather", [self._part("table", form.entries), indices], made)
        if form.reshapes:
            shape = self.encoder.store("shape", np.array(values.shape, np.int64))
            self._add("Reshape", [made, shape], output)

    def _part(self, suffix: str, values: Array, data_type: int = 0) -> str:
        """The name of a part: stored, or rebuilt from something smaller still."""
        form = None if data_type else smaller_form(values, opset=self.opset)
        if form is None:
            return self.encoder.store(suffix, values, data_type)
        name = self.encoder.name(suffix)
        self._rebuild(form, values, name)
        return name

    def _cast(self, source: str, output: str, data_type: int) -> None:
        self.made.append(cast_node(source, output, self.encoder.name("cast"), data_type))

    def _add(self, op_type: str, inputs: list[str], output: str) -> None:
        name = self.encoder.name(op_type.lower())
        self.made.append(NodeProto(op_type=op_type, input=inputs, output=[output], name=name))


def _type_of(values: Array) -> int:
    return next(number for number, name in NUMPY_TYPES.items() if name == values.dtype.name)
