"""The original is run twice before anything is compared with it: what it does to itself is no one's fault."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_ci.policy.schema import InputSpec, Limits, Tolerance
from onnx_ci.results import Verification
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.reference import Reference
from onnx_ci.verify.verifier import Claim, Verifier
from tests.support.text_models import LINEAR, model, save
from tests.traps.noisy import TREES, many_trees

EXACT = Tolerance(exact=True)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as one:
        yield one


class Unsteady(Runner):
    """What a kernel without a fixed order of additions does: every run is off by a little, each another."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size
        self.generator = np.random.default_rng(0)
        self.sessions: list[tuple[int, bool]] = []

    def run(self, model: Path, feeds: Sequence[Any], **more: Any) -> list[Any]:
        self.sessions.append((len(feeds), more.get("other_threads", False)))
        return [
            {name: self._moved(value) for name, value in sample.items()}
            for sample in super().run(model, feeds, **more)
        ]

    def _moved(self, value: np.ndarray) -> np.ndarray:
        return (value * (1 + self.size * self.generator.standard_normal(value.shape))).astype(value.dtype)


def checked(
    runner: Runner, folder: Path, original: onnx.ModelProto, candidate: onnx.ModelProto, tolerance: Tolerance
) -> Verification:
    path = save(original, folder / "original.onnx")
    reference = Reference(runner, path, original, spec=InputSpec(), limits=Limits(), root=folder)
    other = save(candidate, folder / "candidate.onnx")
    found = Verifier(reference).check(Claim(path=other, proto=candidate, tolerance=tolerance))
    json.dumps(asdict(found), allow_nan=False)
    return found


PLANTED = many_trees()
SHUFFLED = many_trees([int(tree) for tree in np.random.default_rng(3).permutation(TREES)])


def test_a_steady_model_has_no_noise_and_costs_one_sample_more(tmp_path: Path) -> None:
    runner = Unsteady(0.0)
    with runner:
        found = checked(runner, tmp_path, model(LINEAR), model(LINEAR), EXACT)
        assert runner.sessions == [(2, False), (1, True), (2, False)]
    assert (found.status, found.method) == ("passed", "plain")
    assert [(one.name, one.exact, one.source, one.max_abs) for one in found.noise] == [("y", True, "", 0.0)]


def test_noise_of_threads_is_measured_and_told_from_that_of_runs(runner: Runner, tmp_path: Path) -> None:
    found = checked(runner, tmp_path, PLANTED, PLANTED, EXACT)
    assert found.status == "passed"  # run alike, they are alike
    assert [one.source for one in found.noise] == ["threads"]
    assert 0 < found.noise[0].max_abs < 1e-2
    assert 80 < found.noise[0].sqnr < 200


def test_what_threads_do_to_the_original_is_not_held_against_a_candidate(
    runner: Runner, tmp_path: Path
) -> None:
    found = checked(runner, tmp_path, PLANTED, SHUFFLED, EXACT)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "the original itself differs as much with another number of threads" in found.reason
    assert "'y'" in found.reason
    assert "exact: false, max_abs: " in found.hint
    suggested = float(found.hint.rsplit("max_abs: ", 1)[1].rstrip("}"))
    assert checked(runner, tmp_path, PLANTED, SHUFFLED, Tolerance(max_abs=suggested)).status == "passed"


def test_noise_hides_no_damage(runner: Runner, tmp_path: Path) -> None:
    broken = many_trees(flipped=7)
    found = checked(runner, tmp_path, PLANTED, broken, EXACT)
    assert found.status == "failed"
    assert checked(runner, tmp_path, PLANTED, broken, Tolerance(max_abs=1e-3)).status == "failed"


@pytest.mark.parametrize("tolerance", [EXACT, Tolerance(max_abs=1e-9), Tolerance(sqnr=200.0)])
def test_a_tolerance_stricter_than_the_original_is_with_itself(tmp_path: Path, tolerance: Tolerance) -> None:
    with Unsteady(1e-6) as runner:
        found = checked(runner, tmp_path, model(LINEAR), model(LINEAR), tolerance)
    assert (found.status, found.code) == ("not_run", "OCI005")
    assert "stricter than the original is with itself: two runs of it differ in output 'y'" in found.reason
    assert found.hint.startswith("a tolerance it can keep: {")


def test_a_tolerance_wider_than_the_noise_is_kept_or_broken_as_ever(tmp_path: Path) -> None:
    other = LINEAR.replace("1,2,3,", "1,2,3.1,")
    with Unsteady(1e-6) as runner:
        found = checked(runner, tmp_path, model(LINEAR), model(LINEAR), Tolerance(max_rel=1e-4))
        assert found.status == "passed"
        assert [one.source for one in found.noise] == ["runs"]
        found = checked(runner, tmp_path, model(LINEAR), model(other), Tolerance(max_rel=1e-4))
        assert found.status == "failed"


def test_a_suggested_tolerance_can_be_kept(tmp_path: Path) -> None:
    with Unsteady(1e-6) as runner:
        found = checked(runner, tmp_path, model(LINEAR), model(LINEAR), Tolerance(max_abs=1e-9))
        suggested = float(found.hint.rsplit("max_abs: ", 1)[1].rstrip("}"))
        found = checked(runner, tmp_path, model(LINEAR), model(LINEAR), Tolerance(max_abs=suggested))
    assert found.status == "passed"
