"""int8-weights: how scales are shared, where zero points pay, and both encodings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.cli import onnx_ci
from tests.support.models import lean
from tests.support.weight_models import applied, ops, ops_that_run, rebuilt, sqnr, weights_model

RANDOM = np.random.default_rng(7)
EVEN = RANDOM.standard_normal((96, 80)).astype(np.float32)
SKEWED = RANDOM.gamma(2.0, size=(96, 80)).astype(np.float32)
OUTLIER = EVEN.copy()
OUTLIER[3, 5] = 200.0


@pytest.mark.parametrize("granularity", ["channel", "tensor", "block"])
def test_nothing_but_the_original_graph_runs(granularity: str, tmp_path: Path) -> None:
    model = weights_model({"even": EVEN, "skewed": SKEWED, "flat": EVEN.reshape(-1)[:3001]})
    path, _ = applied(model, tmp_path, "int8-weights", granularity=granularity)
    assert set(ops_that_run(path)) == {"Add"}
    for wanted, found in zip((EVEN, SKEWED, EVEN.reshape(-1)[:3001]), rebuilt(path), strict=True):
        assert wanted.shape == found.shape
        assert sqnr(wanted, found) > 38


def test_finer_sharing_leaves_less_error(tmp_path: Path) -> None:
    weight = EVEN * np.geomspace(0.1, 10, 96, dtype=np.float32)[:, None]
    weight[:, :40] *= np.float32(0.2)
    found = {}
    for granularity in ("tensor", "channel", "block"):
        path, _ = applied(
            weights_model({"w": weight}), tmp_path, "int8-weights", granularity=granularity, block_size=40
        )
        found[granularity] = sqnr(weight, rebuilt(path)[0])
    assert found["tensor"] + 5 < found["channel"]
    assert found["channel"] + 1 < found["block"]


def test_one_sided_weights_get_a_zero_point(tmp_path: Path) -> None:
    path, _ = applied(weights_model({"w": SKEWED}), tmp_path, "int8-weights")
    assert "Sub" in ops(path)
    step = SKEWED.max(axis=0) / 127  # of symmetric levels: half of them are never used
    assert np.abs(rebuilt(path)[0] - SKEWED).mean() < 0.6 * (step / 4).mean()


def test_zeros_stay_zeros(tmp_path: Path) -> None:
    sparse = np.where(RANDOM.random((96, 80)) < 0.5, np.float32(0), SKEWED + 3)
    for granularity in ("tensor", "channel", "block"):
        path, _ = applied(weights_model({"w": sparse}), tmp_path, "int8-weights", granularity=granularity)
        assert not rebuilt(path)[0][sparse == 0].any()


def test_a_single_scale_clips_an_outlier_where_that_pays(tmp_path: Path) -> None:
    weight = RANDOM.standard_normal((512, 512)).astype(np.float32)
    weight[0, 0] = 30.0
    path, _ = applied(weights_model({"w": weight}), tmp_path, "int8-weights", granularity="tensor")
    found = rebuilt(path)[0]
    assert found.max() < 29
    unclipped = np.rint(weight / (30 / 127)) * (30 / 127)
    assert sqnr(weight, found) > sqnr(weight, unclipped) + 0.1


def test_an_outlier_costs_its_own_slice_only(tmp_path: Path) -> None:
    path, _ = applied(weights_model({"w": OUTLIER}), tmp_path, "int8-weights")
    rest = np.delete(OUTLIER, 3, axis=0)[:, [c for c in range(80) if c != 5]]
    found = np.delete(rebuilt(path)[0], 3, axis=0)[:, [c for c in range(80) if c != 5]]
    assert sqnr(rest, found) > 38


@pytest.mark.parametrize("opset", [7, 9, 10, 12, 17])
def test_blocks_that_do_not_come_out_even_work_in_every_opset(opset: int, tmp_path: Path) -> None:
    odd = EVEN.reshape(-1)[: 71 * 33].reshape(71, 33)
    path, chained = applied(
        weights_model({"w": odd}, opset=opset, ir=4), tmp_path, "int8-weights", granularity="block"
    )
    assert chained.steps[0].tensors == 1
    assert "Slice" in ops(path)
    assert set(ops_that_run(path)) == {"Add"}
    assert sqnr(odd, rebuilt(path)[0]) > 40


@pytest.mark.parametrize(
    ("opset", "granularity", "attributes", "note"),
    [
        (21, "block", {"axis", "block_size"}, ""),
        (21, "channel", {"axis"}, ""),
        (17, "block", {"axis"}, "need opset 21, this is 17: one scale a channel"),
        (13, "channel", {"axis"}, ""),
        (11, "channel", set(), "need opset 13, this is 11: one scale a tensor"),
        (11, "tensor", set(), ""),
    ],
)
def test_dq(opset: int, granularity: str, attributes: set[str], note: str, tmp_path: Path) -> None:
    model = weights_model({"even": EVEN, "skewed": SKEWED}, opset=opset, ir=10 if opset > 20 else 7)
    path, chained = applied(model, tmp_path, "int8-weights", encoding="dq", granularity=granularity)
    made = onnx.load(path)
    onnx.checker.check_model(made, full_check=True)
    nodes = [node for node in made.graph.node if node.op_type == "DequantizeLinear"]
    assert len(nodes) == 2
    for node in nodes:
        assert len(node.input) == 3, "the zero point is always there"
        assert {attribute.name for attribute in node.attribute} == attributes
    assert made.opset_import[0].version == opset
    assert note in chained.steps[0].note
    for wanted, found in zip((EVEN, SKEWED), rebuilt(path), strict=True):
        assert sqnr(wanted, found) > 35


def test_dq_blocks_lie_along_the_axis_that_a_matmul_sums(tmp_path: Path) -> None:
    model = lean(width=96)
    model.opset_import[0].version, model.ir_version = 21, 10
    path, _ = applied(model, tmp_path, "int8-weights", encoding="dq", granularity="block", block_size=32)
    made = onnx.load(path)
    scales = {t.name: tuple(t.dims) for t in made.graph.initializer if t.name.endswith(".scale")}
    assert set(scales.values()) == {(3, 96)}


def test_dq_in_an_opset_without_it_leaves_the_model_alone(tmp_path: Path) -> None:
    model = weights_model({"w": EVEN}, opset=9, ir=4)
    path, chained = applied(model, tmp_path, "int8-weights", encoding="dq", granularity="tensor")
    assert ops(path) == ["Add"]
    assert chained.steps[0].tensors == 0


@pytest.mark.parametrize("encoding", ["fold", "dq"])
@pytest.mark.parametrize("granularity", ["channel", "tensor", "block"])
@pytest.mark.parametrize("second", ["int8-weights", "fp16-weights"])
def test_what_is_encoded_is_left_alone(granularity: str, encoding: str, second: str, tmp_path: Path) -> None:
    wide = RANDOM.standard_normal((4096, 40)).astype(np.float32)  # more scales than min_elements
    model = weights_model({"w": wide}, opset=21, ir=10)
    path, _ = applied(model, tmp_path, "int8-weights", granularity=granularity, encoding=encoding)
    (tmp_path / "second").mkdir()
    again, _ = applied(onnx.load(path), tmp_path / "second", second)
    assert onnx.load(again) == onnx.load(path)


def test_tensors_are_chosen_by_name_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(lean(layers=3), tmp_path / "in.onnx")
    arguments = ["--methods", "int8-weights:only=w0+w1:skip=*1,fp16-weights:only=w2", "--format", "json"]
    done = onnx_ci("shrink", "in.onnx", "out.onnx", *arguments, cwd=tmp_path)
    assert done.code == 0, done.out
    stored = {t.name: t.data_type for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert stored["w1"] == onnx.TensorProto.FLOAT
    assert stored["w2.f16"] == onnx.TensorProto.FLOAT16
    assert stored["w0.q"] in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
