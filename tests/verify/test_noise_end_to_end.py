"""Random and noisy models from the command to the report: shrunk, refused or said to be beyond telling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci import shrink
from onnx_ci.cli.main import main
from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run, run_chain
from onnx_ci.methods.external_tools import TOOLS
from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import model_digest
from onnx_ci.verify.noise import random_nodes
from tests.support.text_models import save
from tests.traps.base import model, weight
from tests.traps.noisy import TREES, many_trees
from tests.traps.running import random_noise_scaled_to_nothing

SPEECH = random_noise_scaled_to_nothing()


def test_a_random_model_is_shrunk_and_nothing_of_the_seeds_is_left() -> None:
    result = shrink(SPEECH, methods=["int8-weights"])
    assert (result.verdict, result.verification.method) == ("shrunk", "seeded")
    assert all(one.exact for one in result.verification.noise)
    assert isinstance(result.model, onnx.ModelProto)
    assert random_nodes(result.model) == random_nodes(SPEECH)


def test_calibration_draws_the_same_numbers_each_time(tmp_path: Path) -> None:
    text = "g (float[2,64] x) => (float[2,64] y) { n = RandomNormalLike(x) a = Add(x, n) y = MatMul(a, W) }"
    path = save(model(text, {"W": weight(64, 64)}), tmp_path / "model.onnx")
    feeds: list[dict[str, Any]] = [{"x": np.ones((2, 64), np.float32)}]
    found = []
    for _ in range(2):
        TOOLS.close()  # the next process begins with other random numbers, if nobody tells it
        with open_model(path) as opened:
            run = Run(method("static-int8"), {})
            chained = run_chain(opened, [run], size=path.stat().st_size, feeds=lambda: feeds)
            found.append(model_digest(chained.model))
    assert chained.kept
    assert found[0] == found[1]


def damaged(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    values = np.array(numpy_helper.to_array(copy.graph.initializer[0]))
    values[5] = 0
    copy.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, copy.graph.initializer[0].name))
    return copy


def test_compare_says_how_it_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = save(SPEECH, tmp_path / "one.onnx"), save(damaged(SPEECH), tmp_path / "two.onnx")
    assert main(["compare", str(one), str(two)]) == 1
    shown = capsys.readouterr().out
    assert "its random nodes were given the same seeds" in shown
    assert "noise: none" in shown
    assert main(["compare", str(one), str(two), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["verification"]["method"]) == ("outputs_changed", "seeded")


def test_compare_tells_noise_from_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = [int(tree) for tree in np.random.default_rng(3).permutation(TREES)]
    one, two = save(many_trees(), tmp_path / "one.onnx"), save(many_trees(order), tmp_path / "two.onnx")
    assert main(["compare", str(one), str(two), "--tolerance", "max_abs=1e-12"]) == 1
    shown = capsys.readouterr().out
    assert "noise: output y of the original differs from itself with another number of threads" in shown
    assert "not verified" in shown or "not_run" in shown
    assert main(["compare", str(one), str(two), "--tolerance", "max_abs=1e-12", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "unverified"
    (noise,) = found["verification"]["noise"]
    assert (noise["name"], noise["exact"], noise["source"]) == ("y", False, "threads")
    assert noise["max_abs"] > 0
    assert {"max_rel", "cosine", "sqnr"} <= noise.keys()
