"""How sure one can be of a ratio of times: pure functions of what was measured."""

from __future__ import annotations

import random
import time

import pytest

from onnx_ci.results import Latency
from onnx_ci.sandbox import timing
from onnx_ci.sandbox.timing import is_settled, latency_of, take_turns


def interval(latency: Latency) -> tuple[float, float, float]:
    return latency.ratio, latency.low, latency.high


def test_equal_times_are_a_ratio_of_one() -> None:
    found = latency_of([2.0] * 10, [2.0] * 10)
    assert interval(found) == (1.0, 1.0, 1.0)
    assert (found.before, found.after, found.rounds) == (2.0, 2.0, 10)


def test_the_interval_is_the_one_of_the_tables() -> None:
    """For the median of so many values, at 95%: what is left out on either side."""
    for count, left_out in {1: 0, 5: 0, 6: 0, 9: 1, 20: 5, 50: 17, 100: 39}.items():
        found = latency_of([1.0] * count, [float(n) for n in range(count)])
        assert (found.low, found.high) == (left_out, count - 1 - left_out), count


def test_many_rounds_make_a_narrow_interval() -> None:
    found = latency_of([1.0] * 2000, [n / 1000 for n in range(2000)])
    assert 0.95 < found.low < found.ratio < found.high < 1.05


def test_a_machine_that_slows_down_slows_both() -> None:
    slower = [1.0 + n for n in range(30)]
    found = latency_of(slower, [1.5 * seconds for seconds in slower])
    assert interval(found) == (1.5, 1.5, 1.5)


def test_a_few_hiccups_do_not_count() -> None:
    assert interval(latency_of([1.0] * 20, [1.0] * 17 + [50.0] * 3)) == (1.0, 1.0, 1.0)


def test_the_true_ratio_is_in_the_interval_as_often_as_is_said() -> None:
    noise = random.Random(0)
    held = 0
    for _ in range(500):
        before = [noise.lognormvariate(0, 0.3) for _ in range(25)]
        after = [1.2 * noise.lognormvariate(0, 0.3) for _ in range(25)]
        found = latency_of(before, after)
        held += found.low <= 1.2 <= found.high
    assert 0.93 < held / 500 < 0.985


def test_no_time_at_all_is_no_division_by_zero() -> None:
    assert latency_of([0.0], [1.0]).ratio == 1.0


@pytest.mark.parametrize(
    ("ratio", "settled"),
    [((1.0, 0.9, 1.05), True), ((1.3, 1.2, 1.4), True), ((1.1, 1.0, 1.2), False), ((1.0, 0.8, 1.1), True)],
)
def test_a_limit_is_settled_where_the_interval_is_on_one_side(
    ratio: tuple[float, ...], settled: bool
) -> None:
    typical, low, high = ratio
    latency = Latency(before=1, after=1, ratio=typical, low=low, high=high)
    assert is_settled(latency, 1.1) is settled


def test_turns_are_taken_and_each_is_first_as_often() -> None:
    calls: list[str] = []
    before, after = take_turns([lambda: calls.append("a"), lambda: calls.append("b")], None)
    assert len(before) == len(after) == 200
    assert calls[:10] == ["a", "b", *"abba", *"abba"]


def test_it_goes_on_while_a_limit_is_not_settled_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock says that either run takes as long, now and then longer: no limit of 1 is ever settled."""
    now = iter(range(1_000_000))
    noise = random.Random(0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(now) * 1e-3)
    monkeypatch.setattr(timing, "_seconds", lambda _: 1.0 + noise.random())
    before, _ = take_turns([lambda: None, lambda: None], 1.0)
    assert len(before) == 2000
    before, _ = take_turns([lambda: None, lambda: None], 3.0)
    assert len(before) == 200


def test_the_words_of_a_report() -> None:
    assert Latency(before=1, after=1, ratio=1.021, low=0.98, high=1.061).words == "1.02x, 0.98 to 1.06"
