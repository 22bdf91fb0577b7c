"""What is made of a model for a rule's methods, in which order, and how it is made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from onnx_ci.gate.candidates import Candidate, Draft, candidates, drafted
from onnx_ci.model.load import open_model
from onnx_ci.model.model import Model
from onnx_ci.policy.schema import MethodChoice
from tests.support.models import bloated


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    onnx.save(bloated(), tmp_path / "m.onnx")
    with open_model(tmp_path / "m.onnx") as opened:
        yield opened


def draft(model: Model, *names: str, exact_only: bool = False, compressed: bool = False) -> Draft:
    size = model.path.stat().st_size
    choices = [MethodChoice(name=name) for name in names]
    return drafted(model, choices, size=size, exact_only=exact_only, compressed=compressed)


def gaining(made: Draft, *planned: str) -> list[tuple[str, ...]]:
    return [candidate.names for candidate in candidates(made, planned) if candidate.gained]


def test_the_mildest_comes_first_and_all_together_last(model: Model) -> None:
    made = draft(model, "int8-weights", "dedupe", "fp16-weights")
    assert gaining(made)[:3] == [("dedupe",), ("dedupe", "int8-weights"), ("dedupe", "fp16-weights")]


def test_what_another_candidate_is_already_gains_nothing(model: Model) -> None:
    """What int8 has taken, fp16 leaves alone: both together are int8 by itself."""
    made = draft(model, "dedupe", "int8-weights", "fp16-weights")
    assert [candidate.gained for candidate in candidates(made)] == [True, True, True, False]


def test_exact_only_leaves_out_what_loses(model: Model) -> None:
    assert gaining(draft(model, "dedupe", "int8-weights", exact_only=True)) == [("dedupe",)]


def test_what_is_planned_is_not_tried_by_itself(model: Model) -> None:
    assert gaining(draft(model, "dedupe", "int8-weights"), "int8-weights") == [("dedupe",)]


def test_methods_for_compressed_size_run_where_it_counts(model: Model) -> None:
    assert gaining(draft(model, "round-mantissa")) == []
    (found,) = gaining(draft(model, "round-mantissa", compressed=True))
    assert found == ("round-mantissa",)


def test_a_candidate_that_gains_nothing_says_why(model: Model) -> None:
    (found,) = candidates(draft(model, "drop-unused"))
    assert not found.gained
    assert [step.method for step in found.steps] == ["drop-unused"]


def test_a_candidate_is_made_again_without_some_tensors(model: Model) -> None:
    found = list(candidates(draft(model, "int8-weights")))[1]
    spared = found.sparing(["w0"])
    assert spared is not None
    assert spared.steps[0].tensors == found.steps[0].tensors - 1
    assert Candidate(model, found.runs, found.steps, found.size).sparing(["w0"]) is None


def test_what_loses_says_so(model: Model) -> None:
    exact, lossy = candidates(draft(model, "dedupe", "int8-weights"))
    assert (exact.exact, exact.bitwise, exact.for_compression, exact.moved) == (True, True, False, ())
    assert (lossy.exact, lossy.bitwise) == (False, False)
    assert lossy.size < exact.size
