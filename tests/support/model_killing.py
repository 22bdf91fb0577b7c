"""Replaces a model for ever, with other content each time: run as a child that is killed."""

from __future__ import annotations

from pathlib import Path

from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import model_digest
from onnx_ci.model.replace import replace_model


def loop(path: Path) -> None:
    number = 0
    while True:
        number += 1
        with open_model(path) as model:
            changed = model.copy()
            del changed.proto.metadata_props[:]
            changed.proto.metadata_props.add(key="number", value=str(number))
            for tensor in changed.proto.graph.initializer:
                changed.set_array(tensor, model.array(tensor) + 1)
            print("about to replace", flush=True)
            replace_model(changed, model, root=path.parent, digest=model_digest(changed))
