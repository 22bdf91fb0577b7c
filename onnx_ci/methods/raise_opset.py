"""Raises a model's opset where that changes nothing: every operator means what it meant before."""

from __future__ import annotations

from typing import Any

from onnx_ci.model.graphs import bodies, opset
from onnx_ci.model.proto import ModelProto, NodeProto, full_onnx

OLDEST = 13  # before it too much changed in ways that a signature does not show
# Operators whose meaning changed from here on while their signature did not say so.
CHANGED = {"GroupNormalization", "RoiAlign", "AveragePool", "Upsample", "Resize"}
OWN = ("", "ai.onnx")


def raise_opset(model: ModelProto, target: int, ir: int) -> str:
    """Raise opset and IR version to at least these, or change nothing and say why not."""
    version = opset(model)
    reason = "" if version >= target else _obstacle(model, version, target)
    if not reason:
        for entry in model.opset_import:
            if entry.domain in OWN:
                entry.version = max(entry.version, target)
        model.ir_version = max(model.ir_version, ir)
    return reason


def _obstacle(model: ModelProto, version: int, target: int) -> str:
    imports = [entry for entry in model.opset_import if entry.domain in OWN]
    if version < OLDEST or model.functions or len(imports) != 1:
        return f"opset {version} can't be raised: it is below {OLDEST}, or the model has functions of its own"
    nodes = [node for body in bodies(model) for node in body.node if node.domain in OWN]
    changed = sorted({node.op_type for node in nodes if not _means_the_same(node, version, target)})
    return f"opset {version} can't be raised: {', '.join(changed[:3])} changed since" if changed else ""


def _means_the_same(node: NodeProto, version: int, target: int) -> bool:
    defs = full_onnx().defs
    try:
        old, new = (defs.get_schema(node.op_type, at, "") for at in (version, target))
    except defs.SchemaError:
        return False
    if old.since_version == new.since_version:
        return True
    if node.op_type in CHANGED or (node.op_type == "Split" and len(node.input) < 2):
        return False
    return _extends(old, new)


def _extends(old: Any, new: Any) -> bool:
    """Whether the new signature takes all that the old one did, and asks for nothing more."""
    kept = all(
        name in new.attributes and new.attributes[name].default_value == attribute.default_value
        for name, attribute in old.attributes.items()
    )
    asked = any(new.attributes[name].required for name in new.attributes.keys() - old.attributes.keys())
    inputs = [[value.name for value in schema.inputs] for schema in (old, new)]
    outputs = [[value.name for value in schema.outputs] for schema in (old, new)]
    longer = inputs[1][: len(inputs[0])] == inputs[0] and new.min_input <= old.min_input
    return bool(kept and not asked and longer and outputs[0] == outputs[1] and not new.deprecated)
