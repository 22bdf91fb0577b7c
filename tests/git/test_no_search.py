"""A hook does not search: it fails at once, proves what it must, and shows what earlier runs found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from onnx_ci.gate import attempts, load_check
from tests.git.test_receipts import current, forge
from tests.support.cli import Done, call, onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.hooks import Hooked
from tests.support.models import bloated, lean

ROUNDING = "    methods: [dedupe, int8-weights]\n"
TOO_SMALL = "    budget: {size: 20 kB}\n" + ROUNDING


def check(folder: Path, *options: str) -> Done:
    return onnx_ci("check", "--no-search", "model.onnx", "--format", "json", *options, cwd=folder)


def only(done: Done) -> dict[str, Any]:
    model: dict[str, Any]
    (model,) = done.json["models"]
    del model["seconds"]  # what this run took
    return model


def codes(done: Done) -> list[str]:
    return [finding["code"] for finding in only(done)["findings"]]


@pytest.fixture
def no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs a model in this process fails."""

    def refuse(*_: object) -> None:
        raise AssertionError("a model was run")

    monkeypatch.setattr(attempts, "_prove", refuse)
    monkeypatch.setattr(load_check, "_run", refuse)


@pytest.mark.usefixtures("no_runs")
def test_a_model_over_its_budget_fails_at_once(tmp_path: Path) -> None:
    write_policy(tmp_path, TOO_SMALL)
    onnx.save(lean(), tmp_path / "model.onnx")
    done = call("check", "--no-search", "model.onnx", "--format", "json", cwd=tmp_path)
    assert (done.code, only(done)["verdict"], codes(done)) == (1, "over_budget", ["OCI001"])
    assert only(done)["findings"][0]["command"] == "onnx-ci fix model.onnx"
    assert "see how small it gets" in only(done)["findings"][0]["hint"]


@pytest.mark.usefixtures("no_runs")
def test_exact_savings_are_announced_as_not_verified(tmp_path: Path) -> None:
    """Not a bit may move in them, so whatever a proof says, the model can't stay as it is."""
    write_policy(tmp_path, ROUNDING)
    onnx.save(bloated(), tmp_path / "model.onnx")
    done = call("check", "--no-search", "model.onnx", "--format", "json", cwd=tmp_path)
    assert (done.code, only(done)["verdict"], codes(done)) == (1, "would_shrink", ["OCI003"])
    assert "not verified yet" in only(done)["findings"][0]["message"]
    assert only(done)["verification"]["status"] == "not_run"
    assert only(done)["after"]["size"] < only(done)["before"]["size"] / 2


@pytest.mark.sampled(0)
def test_what_a_search_found_is_shown(tmp_path: Path) -> None:
    write_policy(tmp_path, TOO_SMALL)
    onnx.save(lean(), tmp_path / "model.onnx")
    assert codes(check(tmp_path)) == ["OCI001"]
    searched = onnx_ci("check", "model.onnx", "--format", "json", cwd=tmp_path)
    assert codes(searched) == ["OCI003"], "nothing that was not looked for is taken for a search"
    known = check(tmp_path)
    assert only(known)["after"] == only(searched)["after"]
    assert only(known)["verification"]["status"] == "passed"


@pytest.mark.sampled(0)
def test_what_may_be_rounded_passes_and_is_run_once(tmp_path: Path) -> None:
    write_policy(tmp_path, ROUNDING)
    onnx.save(lean(), tmp_path / "model.onnx")
    done = check(tmp_path)
    assert (done.code, only(done)["verdict"]) == (0, "ok")
    assert "no smaller form was looked for" in only(done)["verification"]["reason"]
    assert onnx_ci("check", "model.onnx", cwd=tmp_path).code == 1, "to be searched for without the option"


def test_a_model_that_does_not_load_fails(tmp_path: Path) -> None:
    write_policy(tmp_path, ROUNDING)
    model = lean()
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, tmp_path / "model.onnx")
    done = check(tmp_path)
    assert (done.code, codes(done)) == (1, ["OCI053"])


def test_freezing_inputs_is_proven(tmp_path: Path) -> None:
    """What onnxruntime makes of constants is not ours to promise."""
    write_policy(tmp_path, "    methods: [freeze-inputs, dedupe]\n")
    model = bloated()
    for tensor in model.graph.initializer:
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    onnx.save(model, tmp_path / "model.onnx")
    done = check(tmp_path)
    assert (done.code, codes(done)) == (1, ["OCI003"])
    assert only(done)["verification"]["status"] == "passed"
    assert "not verified" not in only(done)["findings"][0]["message"]


@pytest.mark.parametrize("rule", ["current", "another"])
def test_a_receipt_is_held_against_its_original(tmp_path: Path, rule: str) -> None:
    repository = Repository(tmp_path)
    write_policy(tmp_path, "    methods: [int8-weights]\n")
    onnx.save(lean(), tmp_path / "a.onnx")
    onnx.save(lean(seed=1), tmp_path / "model.onnx")
    repository.commit_all("models")
    named = current(tmp_path) if rule == "current" else rule
    forge(tmp_path / "model.onnx", (tmp_path / "a.onnx").read_bytes(), named)
    assert codes(check(tmp_path)) == ["OCI049"]


@pytest.mark.sampled(0)
def test_a_rounded_model_whose_rule_forbids_it_fails(tmp_path: Path) -> None:
    """What another rule makes of its original is left to a search; that it may not stay is certain."""
    repository = Repository(tmp_path)
    write_policy(tmp_path, "    methods: [int8-weights]\n")
    onnx.save(lean(), tmp_path / "model.onnx")
    repository.commit_all("model")
    assert onnx_ci("fix", "model.onnx", cwd=tmp_path).code == 0
    repository.commit_all("shrunk")
    write_policy(tmp_path, "    methods: [fp16-weights]\n")
    done = check(tmp_path)
    assert (done.code, codes(done)) == (1, ["OCI011"])
    assert only(done)["findings"][0]["command"] == "onnx-ci fix model.onnx"
    write_policy(tmp_path, "    methods: [fp16-weights, int8-weights]\n")
    assert check(tmp_path).code == 0, "it keeps this rule as it is"
    write_policy(tmp_path, "    methods: [fp16-weights]\n    budget: {size: 3 kB}\n")
    over = check(tmp_path)
    assert (over.code, codes(over)) == (1, ["OCI001"]), "one thing to do, said once"
    assert only(over)["findings"][0]["command"] == "onnx-ci fix model.onnx"


def test_a_group_over_its_budget_fails(tmp_path: Path) -> None:
    group = "groups:\n  - {name: all, paths: ['*.onnx'], budget: {size: 20 kB}}\n"
    write_policy(tmp_path, ROUNDING, group)
    onnx.save(lean(), tmp_path / "model.onnx")
    done = check(tmp_path)
    assert done.code == 1
    assert [finding["code"] for finding in done.json["findings"]] == ["OCI008"]


def test_fix_has_no_such_option(tmp_path: Path) -> None:
    assert onnx_ci("fix", "--no-search", cwd=tmp_path).code == 2


@pytest.mark.real
def test_the_hook_fails_at_once_and_shows_what_is_known(tmp_path: Path) -> None:
    repository = Hooked(tmp_path, "pre-commit", "onnx-ci-check")
    write_policy(tmp_path, TOO_SMALL)
    onnx.save(lean(), tmp_path / "model.onnx")
    repository.git("add", ".")
    passed, said = repository.commit()
    assert not passed
    assert "run: onnx-ci fix model.onnx   to see how small it gets" in said
    assert call("check", "--staged", cwd=tmp_path).code == 1
    passed, said = repository.commit()
    assert not passed
    assert "is over its size budget (.onnx-ci.yaml:4), but can be" in said


@pytest.mark.sampled(0)
def test_what_the_cache_knows_does_not_change_the_answer(tmp_path: Path) -> None:
    write_policy(tmp_path, ROUNDING)
    onnx.save(lean(), tmp_path / "model.onnx")
    cold = check(tmp_path)
    assert onnx_ci("check", "model.onnx", cwd=tmp_path).code == 1
    warm = check(tmp_path)
    assert (warm.code, only(warm)) == (cold.code, only(cold))
    assert cold.code == 0


def test_samples_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    write_policy(tmp_path, ROUNDING + "    inputs: {samples: [a.npz]}\n")
    onnx.save(lean(), tmp_path / "model.onnx")
    (tmp_path / "a.npz").write_bytes(b"no samples")
    done = check(tmp_path)
    assert (done.code, only(done)["verdict"]) == (1, "unverified")


@pytest.mark.sampled(0)
def test_a_shrunk_model_that_is_to_be_stored_otherwise_is_told(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    write_policy(tmp_path, "    shrink: smallest\n" + ROUNDING)
    onnx.save(lean(), tmp_path / "model.onnx")
    repository.commit_all("model and policy")
    assert onnx_ci("fix", "--all", cwd=tmp_path).code == 0
    repository.commit_all("shrunk")
    methods = "    methods: [dedupe, int8-weights, {external-data: {threshold: 1 kB}}]\n"
    write_policy(tmp_path, "    shrink: smallest\n" + methods)
    searched = onnx_ci("check", "model.onnx", "--format", "json", cwd=tmp_path)
    assert "OCI020" in codes(searched)
    done = check(tmp_path)
    assert done.code == searched.code == 1
    assert "OCI020" in codes(done)
