"""onnxruntime's transformer optimizer, after the runtime's own basic optimizations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
import sympy  # noqa: F401  # the optimizer lacks it only halfway through, and then without its name
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model

from onnx_ci.tools.files import load, save
from onnx_ci.tools.ort_optimize import optimized

# Each would put something in place of what the fusions look for.
UNWANTED = ["ConstantSharing", "MatMulAddFusion"]
OWN = "com.microsoft"
FUSED = ("LayerNormalization", "SimplifiedLayerNormalization")  # of the runtime, by standard names


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    """What was fused, in words; empty if nothing was."""
    before = load(source)
    made = before
    for given in _forms(source, Path(options["folder"]) / "basic.onnx"):
        made = _fused(given, options)
        if made.ByteSize() < before.ByteSize():
            break
    save(made, target)
    names = _fusions(made) - _fusions(before)
    if not names:
        return ""
    listed = ", ".join(f"{count} {name}" for name, count in sorted(names.items()))
    return f"{listed}; runs in onnxruntime {ort.__version__} and what is compatible with it"


def _forms(source: Path, basic: Path) -> list[Path]:
    """The model as the fusions know it, and as it is: what is folded in the first can make it larger."""
    if list(source.parent.glob(f"{source.name}.*")):  # past protobuf's limit, with data beside it
        return [source]
    optimized(source, basic, "basic", without=UNWANTED)
    return [basic, source]


def _fused(path: Path, options: dict[str, Any]) -> onnx.ModelProto:
    wanted = FusionOptions(options["model_type"])
    # The default for some types counts the ones of a mask, or drops it: wrong unless padding is at the end.
    wanted.use_raw_attention_mask(True)
    made = optimize_model(
        str(path),
        model_type=options["model_type"],
        num_heads=options["num_heads"],
        hidden_size=options["hidden_size"],
        optimization_options=wanted,
        opt_level=0,
        use_gpu=False,
    )
    fused: onnx.ModelProto = made.model
    domains = {node.domain for node in fused.graph.node}
    if OWN in domains - {entry.domain for entry in fused.opset_import}:
        fused.opset_import.add(domain=OWN, version=1)  # the tool forgets it for some fusions
    return fused


def _fusions(model: onnx.ModelProto) -> Counter[str]:
    own = (node for node in model.graph.node if node.domain == OWN or node.op_type in FUSED)
    return Counter(node.op_type for node in own)
