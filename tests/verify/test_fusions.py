"""What onnxruntime makes of graphs: lost fusions and work at every run are said, and nothing else is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.fusions import Counts, compared, counted, optimized_counts
from tests.support.cli import call
from tests.support.models import bloated, lean
from tests.support.text_models import model, save

HEAD = "g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}"
GELU = """, float root = {1.4142135}, float one = {1}, float half = {0.5}> {
    m = MatMul(x, w) d = Div(m, root) %s s = Add(e, one) p = Mul(m, s) y = Mul(p, half) }"""
FUSED = HEAD + GELU % "e = Erf(d)"
UNFUSED = HEAD + GELU % "n = Neg(d) k = Neg(n) e = Erf(k)"  # the same to the last bit


@pytest.mark.sampled(0)
def test_a_lost_fusion_is_said(tmp_path: Path) -> None:
    save(model(FUSED), tmp_path / "a.onnx")
    save(model(UNFUSED), tmp_path / "b.onnx")
    done = call("compare", "a.onnx", "b.onnx", "--format", "json", cwd=tmp_path)
    (finding,) = done.json["findings"]
    assert done.code == 0
    assert (finding["code"], finding["severity"]) == ("OCI030", "warning")
    assert "com.microsoft.Gelu 1 to 0" in finding["message"]
    assert "Erf 0 to 1" in finding["message"]
    back = call("compare", "b.onnx", "a.onnx", "--format", "json", cwd=tmp_path)
    assert back.json["findings"] == []


@pytest.mark.parametrize("encoding", ["fold", "dq"])
def test_weights_that_are_not_computed_ahead(tmp_path: Path, encoding: str) -> None:
    save(lean(), tmp_path / "m.onnx")
    methods = f"int8-weights:encoding={encoding}"
    done = call("shrink", "m.onnx", "o.onnx", "--methods", methods, "--format", "json", cwd=tmp_path)
    assert done.code == 0
    if encoding == "fold":
        assert done.json["findings"] == []
        return
    (finding,) = done.json["findings"]
    assert (finding["code"], finding["severity"]) == ("OCI030", "note")
    assert "DequantizeLinear 0 to " in finding["message"]
    assert done.json["verification"]["optimized"]["repeated_values"] in (4096, 8192)


def test_exact_methods_lose_nothing(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    done = call("shrink", "m.onnx", "o.onnx", "--format", "json", cwd=tmp_path)
    found = done.json["verification"]["optimized"]
    assert found["nodes_before"] == found["nodes_after"] > 0
    assert found["lost"] == found["instead"] == found["repeated"] == []
    assert not list(tmp_path.glob("*weights*"))


def test_a_graph_is_written_when_its_session_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save(model(FUSED), path)
    feeds = [{"x": np.ones((1, 4), np.float32)}]
    with Runner() as kept, Runner() as anew:
        kept.run(path, feeds, limits=Limits(), keep=True)
        found = [optimized_counts(runner, path, Limits()) for runner in (kept, anew)]
        assert found[0] == found[1]
        assert kept.meter.work.loads == 1


def counts(**nodes: int) -> Counts:
    return Counts(nodes=Counter({name.replace("_", "."): count for name, count in nodes.items()}))


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"com_microsoft_nchwc_Conv": 3, "ReorderOutput": 1}, {"Conv": 3}, ["com.microsoft.nchwc.Conv"]),
        ({"QLinearConv": 2}, {"Conv": 2, "DequantizeLinear": 4, "QuantizeLinear": 2}, ["QLinearConv"]),
        ({"LayerNormalization": 2, "Add": 2}, {"com_microsoft_SkipLayerNormalization": 2}, []),
        ({"com_microsoft_FusedMatMul": 4, "Softmax": 1}, {"com_microsoft_Attention": 1}, []),
        ({"LayerNormalization": 2, "MatMul": 2}, {"LayerNormalization": 1, "MatMul": 1}, []),
        ({"MatMul": 1}, {"MatMul": 1, "Cast": 2, "Transpose": 1}, []),
    ],
)
def test_what_counts_as_lost(before: dict[str, int], after: dict[str, int], lost: list[str]) -> None:
    found = compared(counts(**before), counts(**after))
    assert [one.op for one in found.lost] == lost
    assert bool(found.instead) == bool(lost)


def test_a_normalization_that_is_no_longer_part_of_its_neighbour() -> None:
    found = compared(counts(Conv=2), counts(Conv=2, BatchNormalization=2))
    assert found.lost == ()
    assert [(one.op, one.after) for one in found.instead] == [("BatchNormalization", 2)]


def test_what_depends_on_stored_tensors_only() -> None:
    """Also in branches, and through one another; not what is drawn by chance or may be fed."""
    text = """g (bool c, float[2] x, float[2] fed) => (float[2] y)
        <float[2] w = {1,2}, float[2] fed = {1,2}> {
        a = Neg(w) b = Abs(a) r = RandomNormalLike(w) f = Neg(fed) k = Add(b, x)
        y = If (c) <then_branch = t () => (float[2] z) { z = Neg(w) },
                    else_branch = e () => (float[2] q) { o = Add(k, r) q = Add(o, f) }> }"""
    found = counted(model(text))
    assert found.repeated == Counter(Neg=2, Abs=1)
    assert found.nodes["Add"] == 3
