"""One method on one model, for tests of what a method does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.model.load import open_model
from onnx_ci.model.save import lay_out, write_model


def run_method(name: str, model: onnx.ModelProto, folder: Path, **options: Any) -> tuple[Path, Path]:
    """The model as a file, and what the method makes of it."""
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(model, before)
    rewrite(name, before, after, **options)
    return before, after


def rewrite(name: str, source: Path, target: Path, **options: Any) -> None:
    with open_model(source) as opened:
        chained = run_chain(opened, [Run(method(name), options)], size=lay_out(opened).size)
        write_model(chained.model, target)


def ops_at_run_time(path: Path) -> Counter[str]:
    """The nodes that are left when a session has started, those of branches and loops included."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path.with_suffix(".optimized"))
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return _ops(onnx.load(path.with_suffix(".optimized")).graph)


def _ops(graph: onnx.GraphProto) -> Counter[str]:
    found: Counter[str] = Counter(node.op_type for node in graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += _ops(attribute.g)
    return found
