"""Reads and writes models for tools that want them whole, past protobuf's limit with data beside them."""

from __future__ import annotations

from pathlib import Path

import onnx

from onnx_ci.model.graphs import bodies

SAME = ("", "ai.onnx", "com.microsoft")  # domains in which a name means the same
LIMIT = (1 << 31) - (1 << 20)  # bytes; protobuf takes no more in one message


def load(path: Path) -> onnx.ModelProto:
    """The model, unless it has an operator that tools would take for a standard one: few look at domains."""
    model = onnx.load(str(path))
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    for body in bodies(model):
        for node in body.node:
            if node.op_type in standard and node.domain not in SAME:
                raise RuntimeError(f"{node.op_type} of {node.domain} has the name of a standard operator")
    return model


def save(model: onnx.ModelProto, path: Path) -> None:
    if model.ByteSize() <= LIMIT:
        path.write_bytes(model.SerializeToString(deterministic=True))
        return
    onnx.save(model, str(path), save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
