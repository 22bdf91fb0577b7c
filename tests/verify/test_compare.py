"""Comparing outputs: numbers that can be trusted and written as JSON, problems that name the limit."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_ci.policy.schema import Tolerance
from onnx_ci.results import OutputDelta
from onnx_ci.verify import compare
from onnx_ci.verify.compare import compare_outputs
from onnx_ci.verify.observation import Observation

ANY = Tolerance()


def one(before: Any, after: Any, tolerance: Tolerance = ANY, dtype: Any = np.float32) -> OutputDelta:
    (delta,) = compare_outputs([{"y": np.array(before, dtype)}], [{"y": np.array(after, dtype)}], tolerance)
    json.dumps(asdict(delta), allow_nan=False)
    return delta


def test_identical() -> None:
    delta = one(
        [[1, 2], [3, 4]], [[1, 2], [3, 4]], Tolerance(exact=True, max_abs=0, cosine=1, sqnr=300, top1=1)
    )
    assert delta.exact
    assert (delta.max_abs, delta.max_rel, delta.mean_abs, delta.cosine, delta.sqnr) == (0, 0, 0, 1, 300)
    assert delta.problem == ""


def test_the_numbers() -> None:
    delta = one([[3, 4, 0]] * 4, [[3, 4.5, 0]] * 4, dtype=np.float64)
    assert delta.max_abs == 0.5
    assert delta.max_rel == 0.125
    assert delta.mean_abs == pytest.approx(0.5 / 3)
    assert delta.cosine == pytest.approx(27 / (5 * np.hypot(3, 4.5)))
    assert delta.sqnr == pytest.approx(20.0)
    assert not delta.exact


def test_relative_error_has_a_floor() -> None:
    """A hundredth of what the output can be: here the root of its mean square."""
    delta = one([1.0, 0.0], [1.0, 1e-7], dtype=np.float64)
    assert delta.max_rel == pytest.approx(1e-7 / (0.01 * np.sqrt(0.5)))


@pytest.mark.parametrize(
    ("cosine", "limit", "words"),
    [
        (0.9847123456, 0.999, "cosine 0.9847 is below 0.999"),
        (0.9998971387662429, 0.9999, "cosine 0.999897 is below 0.9999"),
        (0.9999738595054082, 0.99999999, "cosine 0.99997 is below 0.99999999"),
        (0.9999999627375253, 0.99999999, "cosine 0.99999996 is below 0.99999999"),
        (math.nextafter(0.999, 0), 0.999, "cosine 0.9989999999999999 is below 0.999"),
    ],
)
def test_a_number_has_no_more_digits_than_tell_it_from_its_limit(
    cosine: float, limit: float, words: str
) -> None:
    (problem,) = compare.outside(compare.Distance(cosine=cosine), Tolerance(cosine=limit))
    assert problem.words == words


def test_every_tolerance_is_named_with_number_and_limit() -> None:
    limits = Tolerance(max_abs=0.1, max_rel=0.1, mean_abs=0.1, cosine=0.999, sqnr=30, top1=1.0)
    delta = one([[1.0, 2.0]] * 4, [[3.0, 2.0]] * 4, limits, np.float64)
    assert delta.breaches == ("limit",)
    problem = delta.problem
    for part in ("max_abs 2 is above 0.1", "max_rel 2 is above", "mean_abs 1 is above", "top1 0 is below 1"):
        assert part in problem
    assert "cosine 0.8682 is below 0.999" in problem
    assert "sqnr 0.9691 is below 30" in problem


def test_a_number_next_to_its_limit_is_written_out() -> None:
    problem = one([1.0, 1.0], [1.0, 1.100001], Tolerance(max_abs=0.1), np.float64).problem
    assert problem.startswith("max_abs 0.10000")
    assert "0.1000 " not in problem


def test_a_cosine_of_few_numbers_sees_their_size() -> None:
    """Of one positive number and another the angle is always zero; what counts is how far it moved."""
    assert one([0.99], [0.047]).cosine < 0.5
    assert one([1.0, 1.0], [2.0, 2.0]).cosine < 0.5
    assert one([1.0], [1.001]).cosine > 0.999
    assert one([1.0], [1.0]).cosine == 1


def test_a_cosine_does_not_let_every_number_be_scaled() -> None:
    """Of twice every number the cosine is 1, and the model is wrong all the same."""
    before = np.arange(1.0, 33.0)
    for factor in (2.0, 0.5, 1.05):
        scaled = one(before, before * factor, Tolerance(cosine=0.999))
        assert scaled.cosine == pytest.approx(1.0)
        assert "changed by" in scaled.problem
        assert "0.0447" in scaled.problem
    assert one(before, before * 1.04, Tolerance(cosine=0.999)).problem == ""
    assert one(before, before * (1 + 1e-9), Tolerance(cosine=1.0), np.float64).problem == ""
    assert one(before, before * 2, Tolerance(cosine=0.0)).problem == ""
    assert one(before, before * 2, Tolerance(top1=1.0)).problem == ""


@given(st.floats(0.9, 0.99999), st.integers(0, 1000))
def test_what_keeps_a_cosine_at_a_right_angle_is_not_said_to_be_scaled(cosine: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, noise = rng.standard_normal((2, 64))
    noise -= before * (before @ noise) / (before @ before)
    noise *= np.sqrt((1 / cosine**2 - 1) * (before @ before) / (noise @ noise)) * 0.999
    assert one(before, before + noise, Tolerance(cosine=cosine), np.float64).problem == ""


def test_zeros() -> None:
    assert one([0, 0], [0, 0]).cosine == 1
    moved = one([0, 0], [1, 0], Tolerance(cosine=0.9))
    assert moved.cosine == 0
    assert moved.sqnr == -300
    assert "cosine" in moved.problem
    assert one([1, 0], [0, 0]).cosine == 0


def test_the_sign_of_zero_counts_only_for_exact() -> None:
    assert one([0.0], [-0.0]).problem == ""
    assert "bit-identical" in one([0.0], [-0.0], Tolerance(exact=True)).problem


def test_top1() -> None:
    assert one([[1, 2], [5, 3], [1, 9], [4, 0]], [[2, 1], [5, 3], [1, 9], [4, 0]]).top1 == 0.75
    assert one(1.0, 5.0).top1 == 1.0


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ([np.nan, 1], [1, 1], "NaN"),
        ([1, 1], [1, np.nan], "NaN"),
        ([np.inf, 1], [-np.inf, 1], "Inf"),
        ([np.inf, 1], [1, 1], "Inf"),
    ],
)
def test_nan_and_infinity_must_stay_in_place(before: list[float], after: list[float], word: str) -> None:
    assert word in one(before, after).problem


def test_matching_odd_values_are_left_out() -> None:
    delta = one([np.nan, np.inf, -np.inf, 2], [np.nan, np.inf, -np.inf, 2.5], Tolerance(max_abs=1))
    assert delta.max_abs == 0.5
    assert delta.problem == ""
    assert one([np.nan], [np.nan], Tolerance(exact=True)).problem == ""


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.str_, "int4"])
def test_values_that_must_be_equal(dtype: Any) -> None:
    if dtype == "int4":
        dtype = pytest.importorskip("ml_dtypes").int4
    assert one([1, 0, 1], [1, 0, 1], dtype=dtype).problem == ""
    delta = one([1, 0, 1], [0, 0, 0], dtype=dtype)
    assert delta.breaches == ("unequal",)
    assert "2 of 3 values differ" in delta.problem
    assert delta.mean_abs == pytest.approx(2 / 3)
    assert delta.max_abs == 1


def test_shape_type_and_missing() -> None:
    assert one([1, 2], [[1, 2]]).problem == "shape [2] became [1, 2]"
    (delta,) = compare_outputs([{"y": np.zeros(2, np.float32)}], [{"y": np.zeros(2, np.float16)}], ANY)
    assert delta.problem == "type float32 became float16"
    gone, new = compare_outputs([{"a": np.zeros(1)}], [{"b": np.zeros(1)}], ANY)
    assert gone.problem == "the candidate has no such output"
    assert new.problem == "the original has no such output"


def test_text_of_another_width_is_the_same_type() -> None:
    (delta,) = compare_outputs([{"y": np.array(["a", "b"])}], [{"y": np.array(["a", "long"])}], ANY)
    assert delta.breaches == ("unequal",)
    assert "1 of 2" in delta.problem


def test_the_worst_sample_counts() -> None:
    rows = ([[1.0, 2.0]], [[2.0, 1.0]], [[1.5, 2.0]])
    before = [{"y": np.array(rows[0] * 4)}] * 3
    after = [{"y": np.array(row * 4)} for row in rows]
    (delta,) = compare_outputs(before, after, ANY)
    assert delta.max_abs == 1.0
    assert delta.top1 == 0.0
    assert delta.cosine == pytest.approx(0.8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"])
def test_other_float_types(dtype: str) -> None:
    kind = (
        np.dtype(dtype)
        if dtype in ("float16", "complex64")
        else pytest.importorskip("ml_dtypes").__dict__[dtype]
    )
    assert one([1, 2], [1, 2], Tolerance(exact=True), kind).exact
    assert one([1, 2], [1, 1], Tolerance(max_abs=0.5), kind).problem


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.str_])
def test_empty_outputs_are_equal(dtype: Any) -> None:
    delta = one(np.zeros((0, 3)), np.zeros((0, 3)), Tolerance(exact=True, cosine=1, top1=1), dtype)
    assert delta.problem == ""


def test_the_ends_of_float64_stay_finite() -> None:
    top = np.finfo(np.float64).max
    delta = one([top, *[1] * 7], [-top, *[1] * 7], dtype=np.float64)
    assert delta.max_abs == top
    assert delta.cosine == pytest.approx(-1)
    assert one([5e-324, 0], [0, 5e-324], dtype=np.float64).cosine == pytest.approx(0)


@settings(database=None, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.data())
def test_numbers_are_always_finite_and_in_range(before: list[float], data: st.DataObject) -> None:
    size = len(before)
    after = data.draw(st.lists(st.floats(width=32), min_size=size, max_size=size))
    delta = one(before, after)
    assert -1 <= delta.cosine <= 1
    assert -300 <= delta.sqnr <= 300
    assert 0 <= delta.top1 <= 1
    assert delta.max_abs >= delta.mean_abs * (1 - 1e-9) >= 0


def test_blocks_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    before = rng.standard_normal((50, 7)).astype(np.float32)
    after = before + rng.standard_normal((50, 7)).astype(np.float32) / 50
    whole = compare.distance(before, after)
    monkeypatch.setattr(compare, "BLOCK", 13)
    parts = compare.distance(before, after)
    assert asdict(parts) == pytest.approx(asdict(whole))


class TestWholeNumbers:
    """Equal, unless a `max_abs` of 1 or more says by how much they may differ."""

    @pytest.mark.parametrize("limit", [None, 0.0, 0.99])
    def test_they_have_to_be_equal(self, limit: float | None) -> None:
        assert (
            "1 of 2 values differ, and uint8 must not"
            in one([7, 9], [7, 8], Tolerance(max_abs=limit, cosine=0.5), np.uint8).problem
        )

    @pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.uint64])
    def test_a_limit_of_one_allows_one(self, dtype: Any) -> None:
        assert one([7, 9], [7, 8], Tolerance(max_abs=1), dtype).problem == ""
        assert one([7, 9], [7, 7], Tolerance(max_abs=1), dtype).problem.startswith("max_abs 2 is above 1")

    def test_the_other_limits_hold_as_well(self) -> None:
        assert "top1 0 is below 1" in one([7, 8], [8, 7], Tolerance(max_abs=1, top1=1.0), np.uint8).problem
        assert "not bit-identical" in one([7], [8], Tolerance(max_abs=1, exact=True), np.uint8).problem

    @pytest.mark.parametrize(("before", "after"), [(2**60, 2**60 + 100), (-(2**63), 2**63 - 1)])
    def test_large_ones_are_counted_as_they_are(self, before: int, after: int) -> None:
        assert "is above 1" in one([before], [after], Tolerance(max_abs=1), np.int64).problem

    def test_what_is_no_number_has_to_be_equal(self) -> None:
        for before, after, dtype in ((True, False, np.bool_), ("a", "b", np.str_)):
            delta = one([before], [after], Tolerance(max_abs=5), dtype)
            assert (delta.breaches, "must not" in delta.problem) == (("unequal",), True)

    def test_the_hint_says_how_to_allow_it(self) -> None:
        from onnx_ci.verify.compare import equality_hint

        outputs = {"y": np.array([7], np.uint8)}
        assert "tolerance: {max_abs: 1}" in equality_hint([one([7], [8], dtype=np.uint8)], outputs)
        assert "uint8 has to be equal" in equality_hint([one([7], [80], dtype=np.uint8)], outputs)
        assert equality_hint([one([7], [7], dtype=np.uint8)], outputs) == ""
        allowed = one([7], [9], Tolerance(max_abs=1), np.uint8)
        assert equality_hint([allowed], outputs) == ""


def test_what_a_cosine_does_not_see_is_told_only_where_it_holds() -> None:
    base = np.arange(1.0, 17.0)
    scaled = one(base, 2 * base, Tolerance(cosine=0.999))
    assert (scaled.breaches, "which a cosine does not see" in scaled.problem) == (("scale",), True)
    failed = one(base, 2 * base[::-1], Tolerance(cosine=0.999))
    assert failed.breaches == ("limit",)
    assert "is below 0.999" in failed.problem
    assert "does not see" not in failed.problem


@pytest.mark.parametrize(
    ("before", "after", "tolerance", "dtype", "breaches"),
    [
        ([1.0, 2.0], [1.0, 2.0], Tolerance(exact=True), np.float32, ()),
        ([1.0, 2.0], [1.0, 2.5], Tolerance(max_abs=0.1), np.float32, ("limit",)),
        (np.arange(1.0, 17.0), 2 * np.arange(1.0, 17.0), Tolerance(cosine=0.999), np.float32, ("scale",)),
        ([1.0, 2.0], [1.0, 2.0000002], Tolerance(exact=True), np.float32, ("bits",)),
        ([1.0, 2.0], [1.0, np.nan], ANY, np.float32, ("odd values",)),
        ([1, 2], [1, 3], ANY, np.int32, ("unequal",)),
        ([1, 2], [1, 9], Tolerance(max_abs=2), np.int32, ("integers",)),
        ([1, 2], [1], ANY, np.int32, ("shape",)),
    ],
)
def test_what_is_wrong_is_a_value_too(
    before: Any, after: Any, tolerance: Tolerance, dtype: Any, breaches: tuple[str, ...]
) -> None:
    assert one(before, after, tolerance, dtype).breaches == breaches


def test_outputs_of_another_type_and_missing_ones_are_values_too() -> None:
    (delta,) = compare_outputs([{"y": np.zeros(2, np.float32)}], [{"y": np.zeros(2, np.float16)}], ANY)
    assert delta.breaches == ("type",)
    gone, new = compare_outputs([{"a": np.zeros(1)}], [{"b": np.zeros(1)}], ANY)
    assert (gone.breaches, new.breaches) == (("missing",), ("missing",))


@pytest.mark.parametrize(
    ("tolerance", "distance_of", "used"),
    [
        (Tolerance(cosine=0.999), {"cosine": 0.9995}, 0.5),
        (Tolerance(cosine=0.999), {"cosine": 0.997}, 3.0),
        (Tolerance(sqnr=30), {"sqnr": 33.0103}, 0.5),
        (Tolerance(max_abs=0.1), {"max_abs": 0.05}, 0.25),
        (Tolerance(cosine=0.999, max_abs=0.1), {"cosine": 0.9999, "max_abs": 0.2}, 4.0),
        (Tolerance(top1=0.9), {"top1": 0.95}, 0.5),
        (Tolerance(cosine=1.0), {"cosine": 0.9999}, math.inf),
        (Tolerance(cosine=1.0), {"cosine": 1.0}, 0.0),
        (Tolerance(), {"sqnr": 27.0}, 1.0),
    ],
)
def test_what_is_used_of_a_tolerance_is_a_share_of_the_noise_it_allows(
    tolerance: Tolerance, distance_of: dict[str, float], used: float
) -> None:
    assert compare.use_of(compare.Distance(**distance_of), tolerance) == pytest.approx(used, rel=1e-4)


def test_axes_that_are_judged_as_a_whole_are_not_thinned() -> None:
    behind = Observation(output="y", squash="Softmax", axis=2, plain=True).name
    names, plain = ["y", behind, "z"], Tolerance(cosine=0.999)
    assert compare.whole_axes(names, plain, batched=["z"]) == {"y": [2], behind: [2], "z": [0]}
    assert compare.whole_axes(["z"], Tolerance(top1=0.99)) == {"z": [-1]}


def test_a_memo_changes_no_number() -> None:
    rng = np.random.default_rng(5)
    behind = Observation(output="y", squash="Softmax", axis=1, plain=True).name
    logits = [rng.normal(size=(6, 9)).astype(np.float32) for _ in range(3)]

    def outputs(moved: float) -> list[dict[str, Any]]:
        rows = [one + moved * rng.normal(size=one.shape).astype(np.float32) for one in logits]
        shares = [np.exp(one) / np.exp(one).sum(axis=1, keepdims=True) for one in rows]
        return [{"y": share, behind: row} for share, row in zip(shares, rows, strict=True)]

    original, memory, limits = outputs(0.0), compare.ReferenceMemo(), Tolerance(cosine=0.999)
    for candidate in (outputs(0.01), outputs(0.1), [original[0], *outputs(0.05)[1:]], original):
        known = compare.compare_outputs(original, candidate, limits, memory=memory)
        copies = [{name: value.copy() for name, value in sample.items()} for sample in candidate]
        assert known == compare.compare_outputs(original, copies, limits)
