"""Random and noisy models from the command to the report: shrunk, refused or said to be beyond telling."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from traps.noisy import TREES, many_trees
from traps.running import random_noise_scaled_to_nothing
from verify_models import save

from onnx_ci import shrink
from onnx_ci.entry.cli import main
from onnx_ci.verify.randomness import random_nodes

SPEECH = random_noise_scaled_to_nothing()


@pytest.mark.parametrize("method", ["int8-weights", "static-int8"])
def test_a_random_model_is_shrunk_and_nothing_of_the_seeds_is_left(method: str):
    result = shrink(SPEECH, methods=[method])
    assert (result.verdict, result.verification.method) == ("shrunk", "seeded")
    assert all(one.exact for one in result.verification.noise)
    assert len(random_nodes(result.model)) == len(random_nodes(SPEECH))
    again = shrink(SPEECH, methods=[method], cache=False)
    assert again.model == result.model


def damaged(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    weight = np.array(numpy_helper.to_array(copy.graph.initializer[0]))
    weight[5] = 0
    copy.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, copy.graph.initializer[0].name))
    return copy


def test_compare_says_how_it_was_done(tmp_path: Path, capsys):
    one, two = save(SPEECH, tmp_path / "one.onnx"), save(damaged(SPEECH), tmp_path / "two.onnx")
    assert main(["compare", str(one), str(one)]) == 0
    shown = capsys.readouterr().out
    assert "its random nodes were given the same seeds" in shown
    assert "noise: none" in shown
    assert main(["compare", str(one), str(two), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["verification"]["method"]) == ("outputs_changed", "seeded")


def test_compare_tells_noise_from_change(tmp_path: Path, capsys):
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
