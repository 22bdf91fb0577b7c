"""The order of moves: what saves most per harm comes first, and no tensor takes a form that a mix beats."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from onnx_ci.gate.planner import Option, affordable, mixed, moves


def test_the_cheapest_saving_comes_first() -> None:
    tensors = {"a": (100.0, [Option(0, 50, 5.0)]), "b": (100.0, [Option(0, 50, 1.0)])}
    assert [move.tensor for move in moves(tensors)] == ["b", "a"]


def test_a_form_that_is_no_smaller_or_worse_than_between_two_others_is_left_out() -> None:
    options = [Option(0, 50, 1.0), Option(1, 40, 30.0), Option(2, 25, 3.0), Option(3, 120, 0.0)]
    assert [move.form for move in moves({"a": (100.0, options)})] == [0, 2]


def test_less_harm_at_fewer_bytes_skips_what_is_worse_in_both() -> None:
    options = [Option(0, 50, 4.0), Option(1, 25, 2.0)]
    assert [move.form for move in moves({"a": (100.0, options)})] == [1]


def test_a_mix_has_the_last_form_of_each_tensor() -> None:
    path = moves({"a": (100.0, [Option(0, 50, 1.0), Option(1, 25, 9.0)]), "b": (80.0, [Option(0, 40, 2.0)])})
    assert mixed(path[:2]) == {"a": 0, "b": 0}
    assert mixed(path) == {"a": 1, "b": 0}


@pytest.mark.parametrize("seed", range(20))
def test_prices_rise_and_each_tensor_only_ever_shrinks(seed: int) -> None:
    random = np.random.default_rng(seed)
    tensors = {
        f"t{number}": (
            100.0,
            [Option(form, *map(float, random.uniform((1, 0), (110, 10)))) for form in range(6)],
        )
        for number in range(12)
    }
    path = moves(tensors)
    assert all(one.price <= other.price for one, other in pairwise(path))
    for name, (nbytes, options) in tensors.items():
        sizes = {option.form: option.nbytes for option in options}
        own = [nbytes, *(sizes[move.form] for move in path if move.tensor == name)]
        assert own == sorted(own, reverse=True)
        assert sum(move.saves for move in path if move.tensor == name) == pytest.approx(own[0] - own[-1])


@pytest.mark.parametrize(
    ("runs", "products", "most"),
    [(240, 0.0, 240), (240, 1e9, 240), (240, 2e9, 120), (240, 1e12, 72), (1000, 4e9, 250), (10, 1e12, 10)],
)
def test_a_model_whose_runs_take_long_is_run_less_often(runs: int, products: float, most: int) -> None:
    assert affordable(runs, products) == most
