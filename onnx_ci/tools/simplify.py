"""onnxslim or onnxsim on a model, until they find nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from onnx_ci.tools.constants import spell_out
from onnx_ci.tools.files import load, save
from onnx_ci.tools.repeat import until_settled

# Both take -0.0 for 0.0, and one number for another of the same value; dedupe does not.
NOT_ITS_WORK = ["weight_tying", "subexpression_elimination"]


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    engine = {"onnxslim": _onnxslim, "onnxsim": _onnxsim}[options["engine"]]
    save(until_settled(engine, load(source)), target)
    return ""


def _onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    spell_out(model)
    made: onnx.ModelProto | None = onnxslim.slim(model, skip_optimizations=NOT_ITS_WORK)
    if made is None:
        raise RuntimeError("onnxslim gave nothing back")
    return made


def _onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxsim

    made: onnx.ModelProto = onnxsim.simplify(model)[0]
    return made
