"""How tensors are grouped to be measured: the largest alone, and a branch apart from what is around it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from onnx_ci.gate.planner import ALONE, MOST, Search, _groups
from onnx_ci.gate.planner_trials import Estimate, Tensor, forms_of
from onnx_ci.policy.schema import MethodChoice, Tolerance


def tensors(*scopes: tuple[str, int]) -> dict[str, Tensor]:
    """Tensors in the graphs of these names, so many in each, all of one size."""
    found: dict[str, Tensor] = {}
    for scope, count in scopes:
        place: Any = SimpleNamespace(scope=scope)
        for number in range(count):
            name = f"{scope}{number}"
            found[name] = Tensor(name, [place], nbytes=1.0)
    return found


def test_few_tensors_are_measured_alone() -> None:
    assert list(_groups(tensors(("main", 10)), MOST)) == [[f"main{number}"] for number in range(10)]


def test_many_are_measured_with_their_neighbours_and_none_is_left_out() -> None:
    made = tensors(("main", 300))
    groups = list(_groups(made, MOST))
    assert len(groups) <= MOST
    assert [len(group) for group in groups[:ALONE]] == [1] * ALONE
    assert sorted(name for group in groups for name in group) == sorted(made)


def test_a_branch_is_never_in_one_group_with_another() -> None:
    groups = list(_groups(tensors(("main", 100), ("then", 30), ("else", 30)), 8))
    assert all(len({name.rstrip("0123456789") for name in group}) == 1 for group in groups)


def test_a_slow_model_gets_fewer_groups() -> None:
    assert len(list(_groups(tensors(("main", 300)), 8))) <= 8


def _probed(cosine: float) -> str:
    """The form in which a tensor is measured that loses 6 dB with each bit less."""
    forms = forms_of([MethodChoice(name=name) for name in ("fp16-weights", "int8-weights", "int4-weights")])
    bits = [getattr(form.options, "bits", 8) for form in forms]
    known = {number: Estimate(0.0, 4.0**-count) for number, count in enumerate(bits)}
    search: Any = object.__new__(Search)
    search.tensors = {"w": Tensor("w", [], power=1.0, forms=known)}
    search.shelf = SimpleNamespace(forms=forms)
    search.trials = SimpleNamespace(tolerance=Tolerance(cosine=cosine))
    return str(forms[search._probed_form("w")].label)


def test_tensors_are_measured_in_forms_near_those_that_hold() -> None:
    assert [_probed(cosine).split()[0] for cosine in (0.99, 0.999, 0.9999)] == ["int5", "int6", "int8"]
