"""Limits hold for all work on one model, not only for running it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import onnx
import pytest
from command import onnx_ci
from onnx import helper
from small_models import bloated, lean

linux = pytest.mark.skipif(sys.platform != "linux", reason="work is bounded where processes can be forked")


def long_chain(nodes: int) -> onnx.ModelProto:
    steps = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"]) for n in range(nodes)]
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in ("t0", f"t{nodes}")]
    graph = helper.make_graph(steps, "chain", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@linux
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_model_that_takes_too_long_to_look_at_ends_and_the_others_are_judged(
    tmp_path: Path, jobs: str
) -> None:
    onnx.save(long_chain(60_000), tmp_path / "a_long.onnx")
    onnx.save(lean(), tmp_path / "b_lean.onnx")
    onnx.save(bloated(), tmp_path / "c_bloated.onnx")
    rules = '{path: "*.onnx"}, {path: a_long.onnx, limits: {seconds: 0.01}, plan_seconds: 0}'
    (tmp_path / ".onnx-ci.yaml").write_text(f"version: 1\nmodels: [{rules}]\n")
    began = time.monotonic()
    done = onnx_ci("fix", "--all", "--no-cache", "--jobs", jobs, "--format", "json", cwd=tmp_path)
    assert time.monotonic() - began < 60
    assert done.code == 1
    outcomes = {Path(outcome["path"]).name: outcome for outcome in done.json["models"]}
    assert outcomes["b_lean.onnx"]["verdict"] == "ok"
    assert outcomes["c_bloated.onnx"]["written"]
    long = outcomes["a_long.onnx"]
    assert long["verdict"] == "unverified"
    (finding,) = long["findings"]
    assert finding["code"] == "OCI013"
    assert "0.2 s" in finding["message"]
    assert "limits.seconds" in finding["message"]
    assert "limits: {seconds" in finding["hint"]
