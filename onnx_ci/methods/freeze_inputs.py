"""Makes constants of weights that are graph inputs too, so that other methods may store them smaller."""

from __future__ import annotations

from collections.abc import Collection

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.options import FreezeInputs
from onnx_ci.methods.selection import matches
from onnx_ci.model.graph import CONSTANTS_IR, default_inputs, fixed_names, keep_items
from onnx_ci.model.model import Model

OLDEST_IR = 3  # before it a model does not even say which opset it uses


def freeze_inputs(model: Model, options: FreezeInputs) -> Applied:
    """Take the inputs that have a value off the list; whoever never feeds them sees no difference."""
    proto = model.proto
    if proto.ir_version < OLDEST_IR:
        return Applied(0, f"IR version {proto.ir_version} can't be raised to {CONSTANTS_IR}")
    fixed = fixed_names(proto)
    named = [name for name in default_inputs(proto.graph) if not matches(name, options.skip)]
    frozen = {name for name in named if name not in fixed}
    if not frozen:
        return Applied(0, f"{_inputs(named)} kept: training or quantization notes name them" if named else "")
    keep_items(proto.graph, "input", lambda value: value.name not in frozen)
    note = f"{_inputs(frozen)} frozen"
    if proto.ir_version < CONSTANTS_IR:
        note += f"; IR version {proto.ir_version} raised to {CONSTANTS_IR}"
        proto.ir_version = CONSTANTS_IR
    return Applied(len(frozen), note)


def inputs_too(count: int) -> str:
    """Why a method leaves weights alone that it could store smaller."""
    weights = "1 weight is a graph input" if count == 1 else f"{count} weights are graph inputs"
    return f"{weights} too: add freeze-inputs"


def _inputs(names: Collection[str]) -> str:
    return f"{len(names)} input{'s'[: len(names) != 1]}"
