"""Tensors that are kept are told in an order that is of use: what can be harmed comes first."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.cli import onnx_ci
from tests.traps.base import model, weight, write

BRANCH = """g (float[n,64] x, int64 k) => (float[n,64] y) { h = MatMul(x, W)
    m = Constant<value_int = 9973>() r = Mod(k, m) t = Constant<value_int = 8191>() c = Equal(r, t)
    y = If (c) <then_branch = t () => (float[n,64] a) { a = MatMul(h, A) },
    else_branch = e () => (float[n,64] b) { b = Identity(h) }> }"""


def test_what_no_output_tells_of_comes_last(tmp_path: Path) -> None:
    path = write(lambda: model(BRANCH, {"W": weight(64, 64, seed=1), "A": weight(64, 64, seed=2)}), tmp_path)
    np.savez(tmp_path / "sample.npz", x=weight(2, 64, seed=3, scale=1.0), k=np.array(0))
    done = onnx_ci(
        *("shrink", path, "out.onnx", "--methods", "fp16-weights,int8-weights,int4-weights"),
        *("--samples", "sample.npz", "--tolerance", "cosine=0.99999", "--format", "json"),
        cwd=tmp_path,
    )
    assert done.code == 0, done.out
    assert [kept["name"] for kept in done.json["plan"]["kept"]] == ["W", "A"]
