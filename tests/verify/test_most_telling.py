"""Which of the inputs that were made up are used."""

from __future__ import annotations

import numpy as np

from onnx_ci.sandbox.exchange import Array
from onnx_ci.verify.observation import Observation
from onnx_ci.verify.reference import most_telling


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


def test_answers_of_several_sizes_and_none_at_all_are_no_obstacle() -> None:
    outputs = [dict[str, Array](y=np.ones((n, 3), np.float32), ids=np.arange(n)) for n in (1, 5, 2, 0)]
    assert len(most_telling(outputs, 2)) == 2
    assert len(most_telling([{"ids": np.arange(3)} for _ in range(4)], 2)) == 2
