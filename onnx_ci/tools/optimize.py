"""onnxoptimizer on a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxoptimizer

from onnx_ci.model.graphs import RANDOM_OPERATORS, bodies
from onnx_ci.tools.files import load, save
from onnx_ci.tools.repeat import until_settled

MERGING = "eliminate_common_subexpression"  # it takes two nodes that draw random numbers for one
DRAWS = {*RANDOM_OPERATORS, "Dropout"}
NOT_ITS_WORK = {"eliminate_duplicate_initializer"}  # it takes -0.0 for 0.0; dedupe does not


def run(source: Path, target: Path, options: dict[str, Any]) -> str:
    safe = [name for name in onnxoptimizer.get_fuse_and_elimination_passes() if name not in NOT_ITS_WORK]
    passes, model = options["passes"] or safe, load(source)
    if any(node.op_type in DRAWS for body in bodies(model) for node in body.node):
        passes = [name for name in passes if name != MERGING]
    model = until_settled(lambda one: onnxoptimizer.optimize(one, passes, fixed_point=True), model)
    save(model, target)
    return ""
