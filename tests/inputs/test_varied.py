"""Ids and masks: within their range whatever the manner, and varied enough that damage shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci import compare
from onnx_ci.gate.single import make_samples
from onnx_ci.inputs import patterns
from onnx_ci.policy.schema import InputSpec

pytestmark = pytest.mark.sampled(4)


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("below", [1, 2, 3, 257, 30522])
def test_ids_stay_in_their_table(index: int, below: int) -> None:
    drawn = patterns.ids(np.random.default_rng(index), (2, 500), 0, below, index)
    assert drawn.shape == (2, 500)
    assert drawn.min() >= 0
    assert drawn.max() < below


def test_samples_are_of_several_kinds() -> None:
    drawn = [patterns.ids(np.random.default_rng(0), (1, 2000), 0, 1000, index) for index in range(4)]
    spread, often, near, filled = (len(np.unique(one)) for one in drawn)
    assert spread > often > near >= filled - 1
    assert np.median(drawn[1]) < 100
    assert drawn[3][0, -1] == 999
    assert near > 400  # words of few letters are none
    assert (drawn[3] == 999).mean() < 0.3


def test_floats_are_of_several_kinds() -> None:
    plain, positive, faint, wandering = (
        patterns.numbers(np.random.default_rng(0), (2, 400), index) for index in range(4)
    )
    assert plain.min() < 0 <= positive.min()
    assert np.abs(faint).max() < np.abs(plain).max() / 5
    assert np.abs(np.diff(wandering)).max() < np.ptp(wandering) / 2  # neighbours are near each other
    assert patterns.numbers(np.random.default_rng(0), (), 3).shape == ()


def test_some_floats_are_far_from_zero() -> None:
    kinds = [patterns.numbers(np.random.default_rng(0), (2, 400), index, wide=True) for index in range(8)]
    assert [np.abs(one).max() > 8 for one in kinds].count(True) == 1
    assert np.abs(kinds[6]).max() < 1  # and those near zero are still there


CLIPPED = (
    '<ir_version: 8, opset_import: ["" : 17]>'
    " g (float[N,8] {name}) => (float[N,8] y) {{ y = Clip ({name}, low, high) }}"
)


def clipped(name: str, high: float) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(CLIPPED.format(name=name))
    bounds = {"low": -6.0, "high": high}
    stored = [onnx.numpy_helper.from_array(np.float32(bound), key) for key, bound in bounds.items()]
    proto.graph.initializer.extend(stored)
    return proto


def test_a_bound_that_small_numbers_never_reach_is_looked_at() -> None:
    assert compare(clipped("x", 6.0), clipped("x", 4.0)).verdict == "outputs_changed"


def test_states_of_a_network_stay_small() -> None:
    """What tanh gave is within 1, so no sample may say what happens beyond."""
    assert compare(clipped("state", 9.0), clipped("state", 8.0)).verdict == "ok"


def test_numbers_far_from_zero_are_left_out_where_nothing_comes_of_them(tmp_path: Path) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,8] x) => (float[1,8] y)'
        " { limit = Constant <value = float {40.0}> () size = ReduceSumSquare (x)"
        " room = Sub (limit, size) root = Sqrt (room) y = Add (x, root) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    made = make_samples(tmp_path / "m.onnx", InputSpec(count=8)).samples
    assert len(made) == 8
    assert max(np.abs(sample["x"]).max() for sample in made) < 8


def test_a_lost_mask_is_noticed() -> None:
    """With a mask of ones only, a model that ignores it is the same model."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]>'
        " g (float[B,S,8] x, int64[B,S] attention_mask) => (float[B,8] y)"
        " {{ axes = Constant <value = int64[1] {{1}}> () shown = Cast <to = 1> (attention_mask)"
        " {extra} wide = Unsqueeze ({mask}, last) kept = Mul (x, wide)"
        " y = ReduceSum <keepdims = 0> (kept, axes) }}"
    )
    last = "last = Constant <value = int64[1] {2}> ()"
    whole = text.format(extra=last, mask="shown")
    lost = text.format(
        extra=f"{last} none = Constant <value = float {{0.0}}> () nothing = Mul (shown, none)"
        " one = Constant <value = float {1.0}> () all = Add (nothing, one)",
        mask="all",
    )
    before, after = onnx.parser.parse_model(whole), onnx.parser.parse_model(lost)
    assert compare(before, before).verdict == "ok"
    assert compare(before, after).verdict == "outputs_changed"


@pytest.mark.parametrize(("name", "batch"), [("padding_mask", "B"), ("mask", "B"), ("hiddenMask", "1")])
def test_a_mask_that_hides_what_is_true_leaves_something_to_see(name: str, batch: int) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]>'
        f" g (float[{batch},6,2] x, bool[{batch},6] {name}) => (float[{batch},6,2] y)"
        f" <int64[1] last = {{-1}}, float none = {{0}}, float[2] w = {{%s}}>"
        f" {{ wide = Unsqueeze ({name}, last) product = Mul (x, w) y = Where (wide, none, product) }}"
    )
    before, after = (onnx.parser.parse_model(text % weights) for weights in ("3, 4", "4, 3"))
    assert compare(before, after).verdict == "outputs_changed"


def test_a_padding_mask_is_true_where_there_is_padding() -> None:
    drawn = patterns.padding(np.random.default_rng(0), (3, 8))
    assert not drawn[0].any()
    assert not drawn[:, :4].any()
    assert drawn[1:, -1].all()
    assert not patterns.padding(np.random.default_rng(0), (2, 1)).any()
    assert patterns.padding(np.random.default_rng(0), ()).shape == ()
