"""A candidate that is slower than its rule allows, made so on purpose, and one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_ci.model.load import open_model
from onnx_ci.policy.schema import Budget, Rule
from onnx_ci.results import Latency, Proof
from onnx_ci.sandbox.process import Child
from onnx_ci.sandbox.runner import Runner
from onnx_ci.verify.prove import Prover, Submission, slowness
from tests.support.cli import onnx_ci
from tests.support.known import known
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(3)

KEYS = {
    *("before", "after", "ratio", "low", "high", "rounds"),
    *("load_before", "load_after", "memory_before", "memory_after"),
}


def slowed(width: int = 64, wide: int = 1024) -> onnx.ModelProto:
    """The same function, and a large product beside it that comes to next to nothing."""
    model = lean(width=width)
    random = np.random.default_rng(0)
    for name, shape in (("up", (width, wide)), ("across", (wide, wide)), ("down", (wide, width))):
        weight = (random.standard_normal(shape) / 100).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    model.graph.initializer.append(numpy_helper.from_array(np.full(1, 1e-5, np.float32), "little"))
    model.graph.node[-1].output[0] = "fast"
    model.graph.node.extend(
        [
            helper.make_node("MatMul", ["x", "up"], ["a"]),
            *(helper.make_node("MatMul", ["abcde"[n], "across"], ["bcdef"[n]]) for n in range(5)),
            helper.make_node("MatMul", ["f", "down"], ["g"]),
            helper.make_node("Mul", ["g", "little"], ["h"]),
            helper.make_node("Add", ["fast", "h"], ["y"]),
        ]
    )
    return model


def proven(folder: Path, candidate: onnx.ModelProto, limit: float) -> Proof:
    for name, proto in (("a", lean()), ("b", candidate)):
        onnx.save(proto, folder / f"{name}.onnx")
    rule = Rule(pattern="a.onnx", budget=Budget(latency=limit))
    with (
        Runner() as runner,
        open_model(folder / "a.onnx") as original,
        open_model(folder / "b.onnx") as other,
    ):
        prover = Prover(rule, original, runner, folder, home=folder)
        return prover.prove(Submission(path=other.path, model=other))


def test_a_slow_candidate_is_refused_for_its_time(tmp_path: Path) -> None:
    proof = proven(tmp_path, slowed(), 1.1)
    assert not proof.accepted
    assert (proof.verification.status, proof.verification.code) == ("failed", "OCI010")
    assert "takes longer than 110%" in proof.verification.reason
    assert proof.latency is not None
    assert proof.latency.low > 2


def test_the_same_candidate_within_a_wide_limit(tmp_path: Path) -> None:
    proof = proven(tmp_path, slowed(), 100_000.0)
    assert proof.accepted
    assert proof.latency is not None
    assert proof.latency.low <= proof.latency.ratio <= proof.latency.high
    assert known(proof.latency.memory_after) > known(proof.latency.memory_before)


@pytest.mark.parametrize(("low", "words"), [(1.2, "takes longer"), (1.0, "could not be shown")])
def test_what_is_not_sure_is_not_said_to_be(low: float, words: str) -> None:
    latency = Latency(before=1, after=1.3, ratio=1.3, low=low, high=1.6)
    assert words in slowness(latency, 1.1)
    assert "1.30x" in slowness(latency, 1.1)


def test_compare_tells_time_and_memory(tmp_path: Path) -> None:
    onnx.save(lean(), tmp_path / "a.onnx")
    onnx.save(slowed(), tmp_path / "b.onnx")
    done = onnx_ci("compare", "a.onnx", "b.onnx", "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.out
    found = done.json["latency"]
    assert found.keys() == KEYS
    assert all(value > 0 for key, value in found.items() if not key.startswith("memory"))
    assert found["low"] <= found["ratio"] <= found["high"]
    text = onnx_ci("compare", "a.onnx", "a.onnx", cwd=tmp_path).out
    assert "x, " in next(line for line in text.splitlines() if line.startswith("  latency"))
    assert "  load  " in text
    assert "to load it" in text


def test_a_rule_with_a_latency_budget_tells_the_same(tmp_path: Path) -> None:
    policy = 'version: 1\nmodels:\n  - path: "*.onnx"\n    budget: {latency: 5000%}\n'
    (tmp_path / ".onnx-ci.yaml").write_text(policy)
    onnx.save(bloated(), tmp_path / "m.onnx")
    done = onnx_ci("fix", "--format", "json", "--format", "text", "--output", "report.txt", cwd=tmp_path)
    (model,) = done.json["models"]
    assert (done.code, model["verdict"]) == (0, "shrunk")
    assert model["latency"].keys() == KEYS
    assert "identical, " in (tmp_path / "report.txt").read_text()


def test_a_small_model_runs_on_one_thread_and_is_timed_on_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, set[int]] = {}

    def noted(self: Child, request: dict[str, Any], **limits: Any) -> dict[str, Any]:
        asked.setdefault(request["job"], set()).add(request["threads"])
        return as_it_is(self, request, **limits)

    as_it_is = Child.ask
    monkeypatch.setattr(Child, "ask", noted)
    monkeypatch.setattr("onnx_ci.sandbox.runner.processors", lambda: 3)
    assert proven(tmp_path, lean(), 100.0).accepted
    assert asked == {"run": {1}, "time": {3}, "load": {3}}
    asked.clear()
    monkeypatch.setattr("onnx_ci.verify.prove.LIGHT", 1)
    assert proven(tmp_path, lean(), 100.0).accepted
    assert asked["run"] == {3}
