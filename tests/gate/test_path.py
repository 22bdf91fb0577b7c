"""The mix with the fewest bytes within a budget of harm, and how many runs a slow model is worth."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_ci.gate.planner import WALK, Option, Search, affordable, fewest_bytes
from onnx_ci.gate.planner_trials import Mix, Tried


def test_what_saves_most_for_its_harm_is_taken_first() -> None:
    tensors = {"a": (100.0, [Option(0, 50, 5.0)]), "b": (100.0, [Option(0, 50, 1.0)])}
    assert fewest_bytes(tensors, 1.0) == {"b": 0}
    assert fewest_bytes(tensors, 6.0) == {"a": 0, "b": 0}
    assert fewest_bytes(tensors, 0.5) == {}


def test_one_large_tensor_is_worth_more_than_many_small_ones() -> None:
    """Though each of those saves more for its harm, and together they use the budget up."""
    small = {f"s{number}": (10.0, [Option(0, 5, 1.0)]) for number in range(5)}
    assert fewest_bytes({**small, "large": (1000.0, [Option(0, 600, 90.0)])}, 90.0) == {"large": 0}


def test_a_form_that_is_no_smaller_is_never_taken() -> None:
    assert fewest_bytes({"a": (100.0, [Option(0, 120, 0.0), Option(1, 100, 0.0)])}, 1.0) == {}


@pytest.mark.parametrize("seed", range(10))
def test_no_other_mix_has_fewer_bytes(seed: int) -> None:
    random = np.random.default_rng(seed)
    tensors = {
        f"t{number}": (
            100.0,
            [Option(form, *map(float, random.uniform((1, 0), (110, 10)))) for form in range(4)],
        )
        for number in range(5)
    }
    budget = 12.0
    ways = [[(size, 0.0), *((one.nbytes, one.harm) for one in options)] for size, options in tensors.values()]
    fitting = [chosen for chosen in product(*ways) if sum(harm for _, harm in chosen) <= budget]
    least = min(sum(nbytes for nbytes, _ in chosen) for chosen in fitting)
    mix = fewest_bytes(tensors, budget)
    found = [tensors[name][1][form] for name, form in mix.items()]
    total = sum(one.nbytes for one in found) + 100.0 * (len(tensors) - len(mix))
    assert sum(one.harm for one in found) <= 1.01 * budget
    assert total <= 1.01 * least


@pytest.mark.parametrize(
    ("runs", "products", "most"),
    [(240, 0.0, 240), (240, 1e9, 240), (240, 2e9, 120), (240, 1e12, 72), (1000, 4e9, 250), (10, 1e12, 10)],
)
def test_a_model_whose_runs_take_long_is_run_less_often(runs: int, products: float, most: int) -> None:
    assert affordable(runs, products) == most


class Walk(Search):
    """Three tensors in forms that each do two thirds of the harm of the one before; noise is what it is said
    to be for that harm."""

    def __init__(self, noise: Any) -> None:
        self.looks: list[float] = []
        self.shelf: Any = SimpleNamespace(nbytes=300.0, forms=())

        def look(mix: Mix, **_: object) -> Tried:
            found = noise(self._harm(mix))
            self.looks.append(found)
            return Tried(mix, (), found, moved=True, safe=found <= 0.25)

        self.trials: Any = SimpleNamespace(room=0.25, alone=range(100), on_first=look, run=look)

    @property
    def _choices(self) -> Any:
        options = [Option(form, 10.0 + form, 0.4 * 1.5**-form) for form in range(40)]
        return dict.fromkeys("abc", (100.0, options))

    def saved(self, mix: Mix) -> float:
        return sum(90.0 - form for form in mix.values())

    def _harm(self, mix: Mix) -> float:
        return sum(0.4 * 1.5**-form for form in mix.values())


def test_where_less_harm_makes_no_less_noise_at_first_the_walk_takes_longer_steps() -> None:
    """As where answers tip over: a tenth of what was expected to be allowed holds, and is found."""
    walk = Walk(lambda harm: 0.3 if harm > 0.03 else harm)
    walk._along()
    assert any(0 < noise <= 0.03 for noise in walk.looks)
    assert len(walk.looks) <= WALK + 2


def test_a_walk_that_goes_as_expected_is_short() -> None:
    walk = Walk(lambda harm: harm)
    walk._along()
    assert len(walk.looks) <= 3


class Known(Search):
    """Mixes that held, and one of them what a method does by itself."""

    def __init__(self, *noises: float) -> None:
        self.tried = [
            Tried({"w": form}, (), noise, moved=True, safe=True) for form, noise in enumerate(noises)
        ]
        self.trials: Any = SimpleNamespace(learn=lambda _: False)
        self.shelf: Any = SimpleNamespace(nbytes=100.0)
        self.refuting = lambda: None
        self._along = self._back = lambda: None  # type: ignore[method-assign]

    def _held(self) -> list[Tried]:
        return self.tried

    def uniform(self) -> Any:
        return iter([{"w": 1}])

    def saved(self, mix: Mix) -> float:
        return 90.0 - 10 * mix["w"]


def test_a_method_as_a_whole_is_taken_after_a_refusal_however_near_the_limit() -> None:
    """Or a rule that allows more methods would find less."""
    assert list(Known(0.2, 0.19, 0.15, 0.01).smallest()) == [{"w": 0}, {"w": 1}, {"w": 3}]
