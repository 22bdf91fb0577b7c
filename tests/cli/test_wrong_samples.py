"""A sample that is wrong is told once, by its name and with what was expected, and no candidate is blamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.cli import Done, onnx_ci
from tests.traps.base import model, weight

pytestmark = pytest.mark.sampled(3)

LOOKUP = "g (int64[n] ids) => (float[n,64] y) { e = Gather(E, ids) y = MatMul(e, W) }"


def run(folder: Path, sample: Any, *command: str) -> Done:
    weights = {"E": weight(100, 64, seed=1), "W": weight(64, 64, seed=2)}
    onnx.save(model(LOOKUP, weights), folder / "m.onnx")
    np.savez(folder / "a.npz", ids=np.arange(4))
    np.savez(folder / "b.npz", ids=sample)
    rule = 'path: "*.onnx", methods: [dedupe, fp16-weights, int8-weights], inputs: {samples: ["*.npz"]}'
    (folder / ".onnx-ci.yaml").write_text(f"version: 1\nmodels: [{{{rule}}}]\n")
    return onnx_ci(*command, cwd=folder)


WRONG = [
    pytest.param(
        np.array([5000]),
        "it could not be run on the sample b.npz: ",
        "check inputs.samples; the model takes ids int64[n]",
        id="a value that the model can't run",
    ),
    pytest.param(
        np.zeros((2, 2), np.int64),
        "b.npz: input 'ids' needs int64[n], the sample has int64[2, 2]",
        "save it with that many axes, the batch included",
        id="another shape",
    ),
]


@pytest.mark.parametrize(("sample", "message", "hint"), WRONG)
def test_a_check_names_the_sample_and_blames_no_candidate(
    tmp_path: Path, sample: Any, message: str, hint: str
) -> None:
    done = run(tmp_path, sample, "check", "m.onnx", "--format", "json")
    (outcome,) = done.json["models"]
    assert (done.code, outcome["verdict"]) == (1, "unverified")
    (finding,) = outcome["findings"]
    assert message in finding["message"]
    assert finding["hint"] == hint
    assert [one["state"] for one in outcome["alternatives"]] == [""]
    told = run(tmp_path, sample, "explain", "m.onnx").out
    assert "refused" not in told
    assert told.count(message) == 2  # of the verification, and of the finding


@pytest.mark.parametrize(("sample", "message", "hint"), WRONG[:1])
def test_a_survey_says_it_once(tmp_path: Path, sample: Any, message: str, hint: str) -> None:
    told = run(tmp_path, sample, "survey", "m.onnx").out
    assert told.count(message) == 1
    assert "m.onnx: fp16, int8 not verified: " in told
