"""float-levels and round-mantissa: the same file size, less to compress, and only where that counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from tests.support.cli import onnx_ci
from tests.support.models import lean
from tests.support.weight_models import applied, rebuilt, sqnr, weights_model

pytestmark = pytest.mark.sampled(6)

RANDOM = np.random.default_rng(11)
EVEN = RANDOM.standard_normal((128, 96)).astype(np.float32)
BOTH = ["float-levels", "round-mantissa"]


def gzipped(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 9))


@pytest.mark.parametrize("name", BOTH)
def test_compresses_better_at_the_same_size(name: str, tmp_path: Path) -> None:
    path, chained = applied(weights_model({"w": EVEN}), tmp_path, name)
    assert path.stat().st_size == (tmp_path / "in.onnx").stat().st_size
    assert gzipped(path) < 0.65 * gzipped(tmp_path / "in.onnx")
    assert chained.steps[0].kept
    assert sqnr(EVEN, rebuilt(path)[0]) > 38


def test_levels_are_even_from_the_least_to_the_largest_with_zero_among_them(tmp_path: Path) -> None:
    weight = np.where(RANDOM.random(EVEN.shape) < 0.3, np.float32(0), EVEN)
    weight[0, :2] = -0.0, 0.0
    path, _ = applied(weights_model({"w": weight}), tmp_path, "float-levels", levels=33)
    found = onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    levels = np.unique(found)
    assert len(levels) <= 33
    assert (levels[0], levels[-1]) == (weight.min(), weight.max())
    step = (levels[-1] - levels[0]) / 32
    assert np.abs(found - weight).max() <= step * 0.501 + step / 2
    assert found[weight == 0].tobytes() == weight[weight == 0].tobytes()


@pytest.mark.parametrize("bits", [1, 8, 22])
def test_mantissas_are_rounded_to_the_nearest(bits: int, tmp_path: Path) -> None:
    path, _ = applied(weights_model({"w": EVEN}), tmp_path, "round-mantissa", bits=bits)
    found = onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    fraction, exponent = np.frexp(EVEN.astype(np.float64))
    wanted = np.ldexp(np.rint(np.ldexp(fraction, bits + 1)), exponent - bits - 1)
    assert np.array_equal(found.astype(np.float64), wanted)


def test_a_tensor_whose_channels_would_vanish_is_left_alone(tmp_path: Path) -> None:
    uneven = EVEN * np.geomspace(1e-4, 1, 128, dtype=np.float32)[:, None]
    _, chained = applied(weights_model({"w": uneven}), tmp_path, "float-levels")
    assert chained.steps[0].tensors == 0
    assert "1 left alone" in chained.steps[0].note


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("first", ["int8-weights", "int4-weights"])
def test_encoded_weights_are_left_alone(first: str, name: str, tmp_path: Path) -> None:
    wide = RANDOM.standard_normal((4096, 40)).astype(np.float32)  # more scales than min_elements
    path, _ = applied(weights_model({"w": wide}), tmp_path, first)
    (tmp_path / "second").mkdir()
    again, _ = applied(onnx.load(path), tmp_path / "second", name)
    assert onnx.load(again) == onnx.load(path)


def policy(folder: Path, **rule: object) -> None:
    methods = ["dedupe", "float-levels", {"round-mantissa": {"bits": 4}}]
    document = {"version": 1, "models": [{"path": "*.onnx", "methods": methods, **rule}]}
    (folder / ".onnx-ci.yaml").write_text(yaml.safe_dump(document))


def test_a_compressed_budget_is_met(tmp_path: Path) -> None:
    onnx.save(lean(width=128), tmp_path / "m.onnx")
    before = gzipped(tmp_path / "m.onnx")
    policy(tmp_path, budget={"gzip": before // 2})
    checked = onnx_ci("check", "m.onnx", "--format", "text", cwd=tmp_path)
    assert checked.code == 1
    assert "gzip" in checked.out
    assert "with float-levels" in checked.out
    fixed = onnx_ci("fix", "m.onnx", "--format", "json", cwd=tmp_path)
    assert fixed.code == 0, fixed.out
    report = fixed.json["models"][0]
    assert [step["method"] for step in report["steps"] if step["tensors"]] == ["float-levels"]
    assert report["after"]["gzip"] <= before // 2
    bytes_once = (tmp_path / "m.onnx").read_bytes()
    again = onnx_ci("fix", "m.onnx", "--format", "json", cwd=tmp_path)
    assert again.code == 0
    assert (tmp_path / "m.onnx").read_bytes() == bytes_once


def test_without_a_compressed_budget_nothing_is_rounded_for_one(tmp_path: Path) -> None:
    onnx.save(lean(width=128), tmp_path / "m.onnx")
    for rule in ({}, {"budget": {"size": "1 MB"}}, {"budget": {"gzip": "1 MB"}}):
        policy(tmp_path, **rule)
        done = onnx_ci("check", "m.onnx", "--format", "json", cwd=tmp_path)
        assert done.code == 0, (rule, done.out)
        assert done.json["models"][0]["verdict"] == "ok"


def test_what_was_rounded_once_is_not_rounded_again(tmp_path: Path) -> None:
    onnx.save(lean(width=128), tmp_path / "m.onnx")
    before = gzipped(tmp_path / "m.onnx")
    policy(tmp_path, budget={"gzip": before // 2})
    assert onnx_ci("fix", "m.onnx", cwd=tmp_path).code == 0
    once = (tmp_path / "m.onnx").read_bytes()
    policy(tmp_path, budget={"gzip": before // 10})
    assert onnx_ci("fix", "m.onnx", cwd=tmp_path).code == 1
    assert (tmp_path / "m.onnx").read_bytes() == once


@pytest.mark.parametrize("name", BOTH)
def test_shrink_does_it_where_it_is_named(name: str, tmp_path: Path) -> None:
    onnx.save(lean(width=128), tmp_path / "in.onnx")
    done = onnx_ci("shrink", "in.onnx", "out.onnx", "--methods", name, "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.out
    assert done.json["verdict"] == "shrunk"
    assert done.json["after"]["gzip"] < 0.65 * done.json["before"]["gzip"]
    receipt = next(p for p in onnx.load(tmp_path / "out.onnx").metadata_props if p.key == "onnx_ci.receipt")
    assert json.loads(receipt.value)["lossy"] is True
    plain = onnx_ci("shrink", "in.onnx", "plain.onnx", "--budget", "1 MB", "--format", "json", cwd=tmp_path)
    assert name not in [step["method"] for step in plain.json["steps"]]
