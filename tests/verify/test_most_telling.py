"""Which of the inputs that were made up are used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnx_ci import shrink
from onnx_ci.inputs.generate import blank_and_noise
from onnx_ci.sandbox.exchange import Array
from onnx_ci.verify.observation import Observation
from onnx_ci.verify.reference import asleep, most_telling
from tests.support.cli import call as onnx_ci

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'


def test_answers_that_differ_are_taken_and_copies_left_out() -> None:
    rng = np.random.default_rng(0)
    same, *others = rng.standard_normal((4, 32)).astype(np.float32)
    outputs = [{"y": same}, {"y": same}, {"y": others[0]}, {"y": same}, {"y": others[1]}, {"y": others[2]}]
    chosen = most_telling(outputs, 4)
    assert {2, 4, 5} < set(chosen)
    assert most_telling(outputs, 6) == [0, 1, 2, 3, 4, 5]


def test_an_answer_in_doubt_comes_before_one_that_is_sure() -> None:
    name = Observation(output="y", squash="Softmax", axis=-1, plain=True).name
    rng = np.random.default_rng(1)
    outputs = []
    for sure in (True, False, True, False):
        logits = rng.standard_normal((1, 4)).astype(np.float32)
        shares = np.eye(1, 4, dtype=np.float32) if sure else np.full((1, 4), 0.25, np.float32)
        outputs.append({"y": shares, name: logits})
    assert most_telling(outputs, 2) == [1, 3]


def test_what_lies_far_beyond_the_ends_of_a_function_is_no_other_answer() -> None:
    """Logits of -20 and -30 are the same no; one of them is enough."""
    name = Observation(output="y", squash="Sigmoid", plain=True).name
    outputs: list[dict[str, Array]] = []
    for logit in (-30.0, -20.0, -40.0, -1.0, 0.0, 2.0):
        logits = np.full(8, logit, np.float32)
        outputs.append({"y": 1 / (1 + np.exp(-logits)), name: logits})
    assert len(set(most_telling(outputs, 4)) & {0, 1, 2}) == 1


def test_answers_of_several_sizes_and_none_at_all_are_no_obstacle() -> None:
    outputs = [dict[str, Array](y=np.ones((n, 3), np.float32), ids=np.arange(n)) for n in (1, 5, 2, 0)]
    assert len(most_telling(outputs, 2)) == 2
    assert len(most_telling([{"ids": np.arange(3)} for _ in range(4)], 2)) == 2
    listed: list[dict[str, Array]] = [{f"y[{n}]": np.ones(3) for n in range(count)} for count in (1, 3, 2)]
    assert len(most_telling(listed, 2, listed[:1])) == 2


def test_what_answers_as_blank_and_noise_do_comes_last() -> None:
    still: list[dict[str, Array]] = [{"y": np.zeros(8, np.float32)}, {"y": np.full(8, 4, np.float32)}]
    answers = [0.0, 4.0, 2.0, 0.1, -3.0, 3.9]
    outputs: list[dict[str, Array]] = [{"y": np.full(8, value, np.float32)} for value in answers]
    assert most_telling(outputs, 2, still) == [2, 4]


def test_blank_and_noise_are_in_the_range_of_what_was_made_up() -> None:
    rng = np.random.default_rng(0)
    feeds: list[dict[str, Any]] = [
        {
            "picture": rng.uniform(0, 255, (1, 3, 8, 8)).astype(np.float32),
            "sound": rng.uniform(-0.25, 0.5, (1, 100)).astype(np.float16),
            "ids": np.arange(5),
            "threshold": np.array(0.5, np.float32),
            "past": np.zeros((1, 0, 4), np.float32),
        }
        for _ in range(3)
    ]
    blank, noise = map(dict[str, Any], blank_and_noise(feeds, seed=0))
    assert np.all(blank["picture"] == blank["picture"].flat[0])
    assert 120 < blank["picture"].flat[0] < 135
    assert not blank["sound"].any()
    assert noise["sound"].dtype == np.float16
    assert 200 < np.ptp(noise["picture"]) <= 255
    for sample in (blank, noise):
        assert all(sample[name] is feeds[0][name] for name in ("ids", "threshold", "past"))
    again: Any = blank_and_noise(feeds, seed=0)[1]["picture"]
    assert again.tobytes() == noise["picture"].tobytes()
    assert not blank_and_noise([{"ids": np.arange(5)}], seed=0)
    assert not blank_and_noise(feeds, seed=0, keep=["picture", "sound"])


def test_outputs_that_nothing_moves_away_from_blank_and_noise_are_asleep() -> None:
    rng = np.random.default_rng(0)
    near, far, behind = (rng.standard_normal(32).astype(np.float32) for _ in range(3))
    name = Observation(output="sure", squash="Sigmoid", plain=True).name

    def answer(factor: float, **others: Array) -> dict[str, Array]:
        ones = np.ones(32, np.float32)
        return {"near": near * factor, "far": far, "fixed": ones, "sure": ones, name: behind, **others}

    still = [answer(1.0, far=near), answer(2.0, far=-near)]
    outputs = [answer(1.01), answer(1.99, **{name: -behind})]
    assert asleep(outputs, still) == ("near",)
    assert asleep(outputs, still[:1]) == ()
    assert asleep([answer(1.01, near=near[:5])], still) == ()  # there is nothing to compare


def edges(*, end: str = "y = Identity(z)") -> onnx.ModelProto:
    """A model that answers to what is next to something else: noise is full of that, and scenes are not."""
    text = f"""g (float[1,3,32,32] image) => (float[1,8] y)
    <float[3,1,1,2] step, float[3,8] w, float[1] limit = {{0.001}}> {{
      edge = Conv<group = 3>(image, step) size = Abs(edge)
      mean = ReduceMean<axes = [2, 3], keepdims = 0>(size)
      two = Mul(mean, mean) four = Mul(two, two) eight = Mul(four, four) z = MatMul(eight, w) {end}
    }}"""
    model = parser.parse_model(HEAD + text)
    step = np.tile(np.array([-1.0, 1.0], np.float32), (3, 1, 1, 1))
    weights = np.random.default_rng(3).standard_normal((3, 8)).astype(np.float32)
    values = {"step": step, "w": weights}
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in values]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return model


@pytest.mark.sampled(0)
def test_what_nothing_wakes_up_is_said(tmp_path: Path) -> None:
    onnx.save(edges(), tmp_path / "m.onnx")
    made = onnx_ci("samples", "m.onnx", "--output", "s.npz", cwd=tmp_path)
    assert made.code == 0, made.err
    assert "output 'y' gives for all of them what it gives for a blank input or for noise" in made.out
    assert "onnx-ci record" in made.out
    compared = onnx_ci("compare", "m.onnx", "m.onnx", "--format", "json", cwd=tmp_path)
    assert compared.code == 0, compared.err
    outcome = json.loads(compared.out)
    assert outcome["verification"]["asleep"] == ["y"]
    (note,) = [finding for finding in outcome["findings"] if finding["code"] == "OCI057"]
    assert note["severity"] == "note"
    assert "--samples" in note["hint"]
    own = onnx_ci("compare", "m.onnx", "m.onnx", "--samples", "s*.npz", cwd=tmp_path)
    assert "OCI057" not in own.out


def test_a_model_that_fails_on_noise_keeps_its_inputs(tmp_path: Path) -> None:
    # A table of one row has no second one, which is asked for where the input is noisy.
    row = "top = ReduceMax<keepdims = 0>(eight) big = Greater(top, limit) row = Cast<to = 7>(big)"
    onnx.save(edges(end=f"{row} one = Gather(limit, row) y = Add(z, one)"), tmp_path / "m.onnx")
    made = onnx_ci("samples", "m.onnx", "--output", "s.npz", cwd=tmp_path)
    assert made.code == 0, made.err
    assert "blank" not in made.out
    assert (tmp_path / "s-1.npz").exists()
    assert shrink(tmp_path / "m.onnx", tmp_path / "out.onnx").outcome.verdict in ("ok", "shrunk")
