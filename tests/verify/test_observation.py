"""What is behind an output is judged: where a sigmoid or softmax shows too little, or too much."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_ci import compare
from onnx_ci.errors import ModelError
from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import Tolerance
from onnx_ci.report.text import output_row
from onnx_ci.results import OutputDelta
from onnx_ci.verify.compare import compare_outputs
from onnx_ci.verify.observation import Observation, observation_of, observed
from tests.traps.base import model, weight


def behind(text: str, tmp_path: Path) -> list[tuple[str, int | None, bool]]:
    onnx.save(model(text), tmp_path / "m.onnx")
    with open_model(tmp_path / "m.onnx") as opened:
        names = [output.name for output in observed(opened).proto.graph.output]
    found = [observation_of(name) for name in names]
    return [(one.squash, one.axis, one.plain) for one in found if one is not None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("g (float[2,4] x) => (float[2,4] y) { y = Sigmoid(x) }", [("Sigmoid", None, True)]),
        ("g (float[2,4] x) => (float[4,2] y) { s = Tanh(x) y = Transpose(s) }", [("Tanh", None, True)]),
        ("g (float[2,4] x) => (float[2,4] y) { y = Softmax<axis = 0>(x) }", [("Softmax", 0, True)]),
        ("g (float[2,4] x) => (int64[2,1] y) { y = ArgMax<axis = 1>(x) }", [("ArgMax", 1, True)]),
        (
            "g (float[2,4] x, float[4,3] t) => (float[2,3] y) { i = ArgMax<axis = 1, keepdims = 0>(x)"
            " r = Gather(t, i) e = Exp(r) y = Mul(e, r) }",
            [("ArgMax", 1, False)],
        ),
        (
            "g (float[2,4] x, float[4,3] t) => (float[2,3] y) { i = ArgMax<axis = 1, keepdims = 0>(x)"
            " r = Gather(t, i) y = MatMul(r, t) }",
            [],
        ),
        (
            "g (float[2,4] x) => (float[2,8] y) { s = Sigmoid(x) y = Concat<axis = 1>(s, x) }",
            [("Sigmoid", None, False)],
        ),
        (
            "g (float[2,4] x) => (float[2,4] y) { s = Sigmoid(x) two = Constant<value_float = 2.0>()"
            " y = Mul(s, two) }",
            [("Sigmoid", None, False)],
        ),
        (
            "g (float[2,4] x) => (float[2,4] y) { e = Exp(x) a = Constant<value_ints = [-1]>()"
            " t = ReduceSum<keepdims = 1>(e, a) y = Div(e, t) }",
            [("Softmax", -1, True)],
        ),
        (
            "g (float[2,4] x) => (float[2,4] y) { t = Relu(x) y = Add(x, t) }",
            [("Add", None, True)],
        ),
        (
            "g (float[2,4] x) => (float[4,2] y) { t = Tanh(x) h = Constant<value_float = 0.5>()"
            " s = Mul(t, h) d = Sub(x, s) c = Clip(d) y = Transpose(c) }",
            [("Sub", None, True), ("Tanh", None, False)],
        ),
        ("g (float[2,4] x) => (float[2,4] y) { r = Relu(x) y = Add(r, r) }", []),
        ("g (float[2,4] x) => (float[2,4] y) { h = Constant<value_float = 0.5>() y = Add(x, h) }", []),
        ("g (float[2,4] x) => (float[2,4] y) { s = Sigmoid(x) y = Mul(s, x) }", []),
        ("g (float[2,4] x) => (float[2,4] y) { s = Sigmoid(x) y = Relu(s) }", []),
        ("g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }", []),
    ],
)
def test_what_squashes_is_found_through_what_keeps_values(
    tmp_path: Path, text: str, found: list[tuple[str, int | None, bool]]
) -> None:
    assert behind(text, tmp_path) == found


def test_a_name_that_is_kept_for_this_is_refused(tmp_path: Path) -> None:
    proto = model("g (float[2,4] x) => (float[2,4] y) { y = Sigmoid(x) }")
    name = Observation(output="y", squash="Sigmoid", plain=True).name
    proto.graph.node[0].output[0] = proto.graph.output[0].name = name
    onnx.save(proto, tmp_path / "m.onnx")
    with open_model(tmp_path / "m.onnx") as opened, pytest.raises(ModelError) as refused:
        observed(opened)
    assert refused.value.code == "OCI005"


def deltas(
    before: np.ndarray,
    after: np.ndarray,
    squash: str = "Sigmoid",
    *,
    cosine: float = 0.999,
    together: bool = False,
    few: bool = False,
) -> tuple[OutputDelta, ...]:
    """Compare an output by what is behind it; all arrays are samples of what is behind."""
    functions = {"Sigmoid": lambda z: 1 / (1 + np.exp(-z)), "Softmax": softmax}
    name = Observation(output="y", squash=squash, axis=-1 if squash == "Softmax" else None, plain=True).name

    def outputs(samples: np.ndarray) -> list[dict[str, np.ndarray]]:
        return [{"y": functions[squash](z).astype(np.float32), name: z.astype(np.float32)} for z in samples]

    limits = Tolerance(cosine=cosine)
    return compare_outputs(outputs(before), outputs(after), limits, together=together, few=few)


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def test_an_answer_next_to_nothing_that_moves_by_less_is_no_failure() -> None:
    """An objectness of 1e-5 that moves by 2e-7 has a cosine of 0.998 with itself, taken alone."""
    rng = np.random.default_rng(0)
    before = -11.5 + 0.5 * rng.standard_normal((4, 8, 8))
    (delta,) = deltas(before, before + 0.03 * rng.standard_normal(before.shape))
    assert (delta.name, delta.problem, delta.behind) == ("y", "", "Sigmoid")
    assert delta.max_abs < 1e-5


def test_answers_that_are_small_everywhere_are_answers() -> None:
    """Scores of 0.016 that move by 0.0013: what 0.2 would forgive is 8% of all that the model says."""
    rng = np.random.default_rng(0)
    before = -4.2 + 0.2 * rng.standard_normal((4, 8, 8))
    (delta,) = deltas(before, before + 0.08 * rng.standard_normal(before.shape))
    assert delta.max_abs < 0.006
    assert delta.breaches == ("limit",)
    assert "behind" not in delta.problem


def test_an_answer_that_is_sure_is_no_proof() -> None:
    """The softmax hardly moves; what is behind it, and what it would say in doubt, does."""
    rng = np.random.default_rng(0)
    before = rng.standard_normal((4, 1, 5))
    before[:, :, 0] += 12
    (delta,) = deltas(before, before + 1.5 * rng.standard_normal(before.shape), "Softmax")
    assert delta.max_abs < 0.01
    assert delta.cosine < 0.999
    assert delta.breaches == ("limit",)


def test_doubt_is_judged_where_the_model_has_none() -> None:
    """Logits of a hundred hold a cosine of 0.999 with an error that turns an open question round."""
    rng = np.random.default_rng(0)
    before = 8 * rng.standard_normal((4, 1, 50))
    before[:, :, 0] += 20
    (delta,) = deltas(before, before + 0.2 * rng.standard_normal(before.shape), "Softmax")
    assert "is undecided" in delta.problem
    (milder,) = deltas(before, before + 0.02 * rng.standard_normal(before.shape), "Softmax")
    assert not milder.problem


@pytest.mark.parametrize("sure", [-9.0, 9.0])
def test_doubt_is_where_a_map_changes_sides(sure: float) -> None:
    """Whatever a mask is sure of, its edge is where it decides: that is what rounding moves."""
    rng = np.random.default_rng(0)
    before = sure + 0.5 * rng.standard_normal((4, 32, 32))
    before[:, :, ::16] = 0.1 * rng.standard_normal((4, 32, 2))
    noise = rng.standard_normal(before.shape)
    noise[np.abs(before) > 1] *= 0.01
    (delta,) = deltas(before, before + 0.5 * noise)
    assert "where its Sigmoid is undecided" in delta.problem
    (milder,) = deltas(before, before + 0.05 * noise)
    assert not milder.problem


def test_letters_that_are_out_of_the_question_do_not_count() -> None:
    """Of thousands, all but a few are nothing to a Softmax, by however much they move."""
    rng = np.random.default_rng(0)
    before = rng.standard_normal((4, 10, 3000)) - 20
    before[:, :, :2] = 0.0
    noise = rng.standard_normal(before.shape)
    noise[:, :, :2] *= 0.01
    (delta,) = deltas(before, before + noise, "Softmax")
    assert not delta.problem
    (other,) = deltas(before, before + noise[:, :, ::-1], "Softmax")
    assert "Softmax is undecided" in other.problem


def _one_in_doubt(error: float) -> tuple[np.ndarray, np.ndarray]:
    """Twelve short texts, of which one has a letter that could be either of two."""
    before = np.random.default_rng(0).standard_normal((12, 8, 6))
    before[:, :, 0] += 12
    before[3, 2, 1] = before[3, 2, 0]
    after = before.copy()
    after[3, 2, 0] += error
    return before, after


def test_one_answer_in_doubt_on_one_input_that_nobody_has_is_no_failure() -> None:
    before, after = _one_in_doubt(0.4)
    (own,) = deltas(before, after, "Softmax")
    assert own.problem
    assert own.worst_input == 3
    (made_up,) = deltas(before, after, "Softmax", together=True)
    assert not made_up.problem
    (broken,) = deltas(*_one_in_doubt(5.0), "Softmax", together=True)
    assert broken.problem


def test_many_answers_that_move_are_one_all_together() -> None:
    rng = np.random.default_rng(0)
    before = 2 * rng.standard_normal((12, 8, 6))
    (delta,) = deltas(before, before + 0.3 * rng.standard_normal(before.shape), "Softmax", together=True)
    assert delta.problem


def test_numbers_that_nothing_squashes_hold_on_every_input() -> None:
    """A bound that one of many inputs reaches is seen on that one."""
    reference = [{"y": np.ones(16, np.float32)} for _ in range(12)]
    other = [*reference[1:], {"y": np.where(np.arange(16) < 2, 0.8, 1.0).astype(np.float32)}]
    (delta,) = compare_outputs(reference, other, Tolerance(cosine=0.999), together=True)
    assert delta.problem


def test_a_few_inputs_say_too_little_of_what_can_be_behind_an_output() -> None:
    rng = np.random.default_rng(0)
    before = -4 + 0.1 * rng.standard_normal((2, 400))
    after = before + 0.2 * rng.standard_normal(before.shape)
    (all_there_is,) = deltas(before, after)
    assert "behind its Sigmoid" in all_there_is.problem
    (delta,) = deltas(before, after, few=True)
    assert not delta.problem


def test_logits_that_shift_together_are_the_same() -> None:
    before = np.random.default_rng(0).standard_normal((4, 2, 5))
    (delta,) = deltas(before, before + 7.0, "Softmax")
    assert not delta.problem
    assert delta.cosine == pytest.approx(1.0, abs=1e-9)


def test_a_small_answer_counts_against_the_largest_of_all_inputs() -> None:
    rng = np.random.default_rng(0)
    large, small = rng.standard_normal((2, 64)).astype(np.float32)
    small *= 1e-4
    moved = small + 1e-6 * rng.standard_normal(64).astype(np.float32)
    noisy = small + 1e-4 * rng.standard_normal(64).astype(np.float32)
    limits = Tolerance(cosine=0.999, max_rel=0.05)
    (alone,) = compare_outputs([{"y": small}], [{"y": noisy}], limits)
    assert alone.problem
    (beside,) = compare_outputs([{"y": large}, {"y": small}], [{"y": large}, {"y": noisy}], limits)
    assert not beside.problem
    (strict,) = compare_outputs(
        [{"y": large}, {"y": small}], [{"y": large}, {"y": moved}], Tolerance(max_abs=1e-7)
    )
    assert strict.breaches == ("limit",)


def picker(off: float, text: str) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((32, 64)).astype(np.float32)
    made = model(text)
    del made.graph.initializer[:]
    made.graph.initializer.append(
        numpy_helper.from_array(weights + off * rng.standard_normal(weights.shape).astype(np.float32), "W")
    )
    return made


PICKS = """g (float[512,32] x) => (int64[512] y) <float[32,64] W> {
    h = MatMul(x, W)
    y = ArgMax<axis = 1, keepdims = 0>(h) }"""


@pytest.mark.sampled(0)
def test_a_choice_is_judged_by_what_it_is_made_from() -> None:
    """Of 512 rows a few have two values as good as equal; which of them is picked is no error."""
    near = compare(picker(0.0, PICKS), picker(0.01, PICKS))
    assert near.verdict == "ok", near.verification.reason
    (delta,) = near.verification.outputs
    assert (delta.behind, delta.top1 < 1.0) == ("ArgMax", True)
    assert 0.999 < delta.cosine < 1.0  # of what it is picked from: numbers of rows have no angle
    assert delta.sqnr > 30
    assert f"picks are the same in {delta.top1:.1%}" in output_row(delta)[-1]
    assert compare(picker(0.0, PICKS), picker(0.3, PICKS)).verdict == "outputs_changed"
    named = compare(picker(0.0, PICKS), picker(0.01, PICKS), tolerance={"cosine": 0.999, "top1": 1.0})
    assert named.verdict == "outputs_changed"


@pytest.mark.parametrize(("apart", "holds"), [(1e-4, True), (0.1, False)])
def test_what_follows_from_a_choice_may_be_another_where_two_are_as_good_as_equal(
    apart: float, holds: bool
) -> None:
    """A pitch that is read off the best of many bins jumps where two of them are alike. Bins that are not
    asked for are infinitely bad."""
    rng = np.random.default_rng(0)
    bins = -5 + rng.standard_normal((1, 64, 32)).astype(np.float32)
    bins[..., :4] = -np.inf
    bins[0, 9, [7, 20]] = 0.0, -apart
    moved = bins.copy()
    moved[0, 9, 20] += 2 * apart
    name = Observation(output="y", squash="ArgMax", axis=-1).name
    before, after = ([{"y": np.exp(given.argmax(-1) / 5.0), name: given}] for given in (bins, moved))
    (delta,) = compare_outputs(before, after, Tolerance(cosine=0.999))
    assert (not delta.problem, delta.exact) == (holds, False)


@pytest.mark.parametrize(("place", "words"), [(20, "values differ"), (3, "what its ArgMax is given")])
def test_bit_for_bit_excuses_no_choice_and_nothing_behind_it(place: int, words: str) -> None:
    scores = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    scores[0, [7, 20]] = 9.0, 9.0 - 1e-6
    moved = scores.copy()
    moved[0, place] += 2e-6
    name = Observation(output="y", squash="ArgMax", axis=-1).name
    before, after = ([{"y": given.argmax(-1), name: given}] for given in (scores, moved))
    (held,) = compare_outputs(before, after, Tolerance(cosine=0.999))
    (delta,) = compare_outputs(before, after, Tolerance(cosine=0.999, exact=True))
    assert (held.problem, words in delta.problem) == ("", True)


def _followed(values: np.ndarray, boxes: np.ndarray) -> list[dict[str, np.ndarray]]:
    name = Observation(output="y", squash="TopK", axis=1).name
    order = np.argsort(-values, axis=1, kind="stable")[:, :8]
    return [{"y": np.stack([row[at] for row, at in zip(boxes, order, strict=True)]), name: values}]


def test_boxes_that_change_places_with_equals_hold_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((2, 32)).astype(np.float32)
    boxes = rng.standard_normal((2, 32, 4)).astype(np.float32)
    second, third = np.argsort(-scores[0])[1:3]
    scores[0, third] = scores[0, second] - 1e-5
    moved = scores.copy()
    moved[0, third] += 2e-5
    tolerance = Tolerance(cosine=0.999)
    (delta,) = compare_outputs(_followed(scores, boxes), _followed(moved, boxes), tolerance)
    assert (delta.problem, delta.exact) == ("", False)
    (off,) = compare_outputs(_followed(scores, boxes), _followed(moved, boxes * 1.1), tolerance)
    assert off.problem
    shuffled = rng.permuted(scores, axis=1)
    (other,) = compare_outputs(_followed(scores, boxes), _followed(shuffled, boxes), tolerance)
    assert other.problem


def test_a_sure_classifier_whose_weights_are_rounded_away_is_refused() -> None:
    text = "g (float[8,64] x) => (float[8,4] y) { h = MatMul(x, W) y = Softmax(h) }"
    steep = weight(64, 4, seed=1, scale=1.0)
    steep[:, 0] += 0.5
    coarse = np.round(steep * 1.5) / 1.5
    found = compare(model(text, {"W": steep}), model(text, {"W": coarse.astype(np.float32)}))
    assert found.verdict == "outputs_changed"
