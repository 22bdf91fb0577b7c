"""What the planner makes of a rule: the smallest within tolerance, the mildest within budget, and why."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_ci.model.graph import tensors
from tests.support.cli import Done, onnx_ci, plain_environment
from tests.support.models import lean
from tests.traps.base import model, weight, write

pytestmark = pytest.mark.sampled(32)

METHODS = "dedupe,fp16-weights,int8-weights,int4-weights"
CANCELS = """g (float[n,64] x) => (float[n,64] y) { a = MatMul(x, P) b = MatMul(x, Q) d = Sub(a, b)
    s = Mul(d, k) h = MatMul(x, W) t = MatMul(h, V) y = Add(s, t) }"""
BRANCH = """g (float[n,64] x, int64 k) => (float[n,64] y) { h = MatMul(x, W)
    m = Constant<value_int = 9973>() r = Mod(k, m) t = Constant<value_int = 8191>() c = Equal(r, t)
    y = If (c) <then_branch = t () => (float[n,64] a) { a = MatMul(h, A) },
    else_branch = e () => (float[n,64] b) { b = Identity(h) }> }"""


def sensitive() -> onnx.ModelProto:
    """Most of the weights bear rounding; the difference of two nearly equal ones does not."""
    close = weight(64, 64, seed=2, scale=0.001)
    weights = {
        "P": weight(64, 64, seed=1),
        "Q": weight(64, 64, seed=1) + close,
        "k": np.array(100, np.float32),
        "W": weight(64, 256, seed=3),
        "V": weight(256, 64, seed=4, scale=0.02),
    }
    return model(CANCELS, weights)


def shrink(folder: Path, *arguments: str, methods: str = METHODS, out: str = "out.onnx") -> Done:
    call = ("shrink", "model.onnx", out, "--methods", methods, "--format", "json", *arguments)
    return onnx_ci(*call, cwd=folder)


def test_a_model_that_fails_as_a_whole_comes_out_mostly_rounded(tmp_path: Path) -> None:
    write(sensitive, tmp_path)
    whole = shrink(tmp_path, "--plan-runs", "0", methods="int8-weights")
    assert whole.code == 1
    assert whole.json["verdict"] == "outputs_changed"
    done = shrink(tmp_path, methods="int8-weights")
    assert done.code == 0, done.out
    assert done.json["after"]["size"] < 0.5 * done.json["before"]["size"]
    assert done.json["verification"]["status"] == "passed"
    kept = {entry["name"]: entry for entry in done.json["plan"]["kept"]}
    assert {"P", "Q"} == kept.keys()
    assert kept["P"]["form"] == "as it was"
    assert "dB" in kept["P"]["why"]
    refused = [one for one in done.json["alternatives"] if one["state"] == "refused"]
    assert refused[0]["methods"] == ["int8-weights"]
    assert refused[0]["cosine"] < 0.999
    stored = {t.name: t.data_type for t in tensors(onnx.load(tmp_path / "out.onnx"))}
    assert stored["P"] == stored["Q"] == onnx.TensorProto.FLOAT
    assert "W" not in stored


def test_all_tensors_that_stay_larger_are_counted_though_not_all_are_named(tmp_path: Path) -> None:
    write(lambda: lean(layers=40), tmp_path)
    policy = "tolerance: {cosine: 0.99995}, methods: [fp16-weights, int8-weights]"
    (tmp_path / ".onnx-ci.yaml").write_text(f'version: 1\nmodels: [{{path: "*.onnx", {policy}}}]\n')
    cache = {"ONNX_CI_CACHE": str(tmp_path / "cache")}
    (outcome,) = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path, env=cache).json["models"]
    plan = outcome["plan"]
    assert plan["forms"].keys() == {"fp16", "int8 by block"}
    assert plan["larger"] == plan["forms"]["fp16"] > len(plan["kept"])
    told = onnx_ci("explain", "model.onnx", cwd=tmp_path, env=cache).out
    assert f"and {plan['larger'] - 5} more that are not in the smallest form" in told


def test_the_same_input_gives_the_same_plan_and_the_same_bytes(tmp_path: Path) -> None:
    write(sensitive, tmp_path)
    one, other = shrink(tmp_path), shrink(tmp_path, out="other.onnx")
    assert one.code == other.code == 0
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()
    first, second = one.json["plan"], other.json["plan"]
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_more_forms_give_a_smaller_model_within_the_same_tolerance(tmp_path: Path) -> None:
    write(lambda: lean(width=256, layers=4), tmp_path)
    whole = shrink(tmp_path, "--tolerance", "cosine=0.99", methods="int8-weights")
    mixed = shrink(tmp_path, "--tolerance", "cosine=0.99")
    assert mixed.code == 0
    assert mixed.json["after"]["size"] < 0.9 * whole.json["after"]["size"]
    assert all(output["cosine"] >= 0.99 for output in mixed.json["verification"]["outputs"])


def test_what_no_input_reaches_is_not_rounded(tmp_path: Path) -> None:
    write(lambda: model(BRANCH, {"W": weight(64, 64, seed=1), "A": weight(64, 64, seed=2)}), tmp_path)
    np.savez(tmp_path / "sample.npz", x=weight(2, 64, seed=3, scale=1.0), k=np.array(0))
    done = shrink(tmp_path, "--samples", "sample.npz")
    assert done.code == 0, done.out
    kept = {entry["name"]: entry["why"] for entry in done.json["plan"]["kept"]}
    assert kept["A"] == "no output moves, whatever is done to it"
    stored = {t.name: t.data_type for t in tensors(onnx.load(tmp_path / "out.onnx"))}
    assert stored["A"] == onnx.TensorProto.FLOAT
    assert "W" not in stored
    both: dict[str, Any] = {"x": weight(2, 64, seed=3, scale=1.0)}
    np.savez(tmp_path / "second.npz", **both, k=np.array(8191))
    done = shrink(tmp_path, "--samples", "sample.npz", "--samples", "second.npz")
    assert "A" not in {t.name for t in tensors(onnx.load(tmp_path / "out.onnx"))}


def test_a_budget_is_met_with_the_least_loss(tmp_path: Path) -> None:
    path = write(lambda: lean(width=128, layers=4), tmp_path)
    size = path.stat().st_size
    errors = []
    for share in (0.6, 0.4, 0.2):
        done = shrink(tmp_path, "--budget", f"{int(size * share)}B", "--tolerance", "cosine=0.9")
        assert done.code == 0, done.out
        assert done.json["after"]["size"] <= size * share
        errors.append(min(output["sqnr"] for output in done.json["verification"]["outputs"]))
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 40


def test_what_can_not_fit_is_told_how_close_it_came(tmp_path: Path) -> None:
    path = write(sensitive, tmp_path)
    done = onnx_ci(
        *("shrink", "model.onnx", "out.onnx", "--methods", METHODS),
        *("--budget", f"{path.stat().st_size // 6}B", "--tolerance", "cosine=0.99"),
        cwd=tmp_path,
    )
    assert done.code == 1
    assert not (tmp_path / "out.onnx").exists()
    assert "error OCI001 model.onnx" in done.out
    assert "within tolerance it can be" in done.out
    assert "at a cosine of " in done.out
    assert "its largest tensors: " in done.out
    assert "no mix was taken" in done.out


def test_a_plan_with_few_runs_still_gives_something_proven_and_says_what_was_not_tried(
    tmp_path: Path,
) -> None:
    write(sensitive, tmp_path)
    done = shrink(tmp_path, "--plan-runs", "11", methods="int8-weights")
    assert done.code in (0, 1)
    assert done.json["verification"]["status"] in ("passed", "failed")
    assert "in the runs that a plan may take" in done.json["plan"]["untried"]
    assert "OCI059" in [finding["code"] for finding in done.json["findings"]]
    assert done.json["work"]["runs"] > 9  # proving is no part of it


@pytest.mark.parametrize("runs", ["8", "12"])
def test_a_search_that_hardly_began_is_no_worse_than_none(tmp_path: Path, runs: str) -> None:
    write(sensitive, tmp_path)
    none, few = (
        shrink(tmp_path, "--plan-runs", most, methods="fp16-weights,int8-weights") for most in ("0", runs)
    )
    receipt = 100  # bytes by which that of a mix may be longer
    assert few.json["after"]["size"] <= none.json["after"]["size"] + receipt
    assert "OCI059" in [finding["code"] for finding in few.json["findings"]]


def test_the_policy_says_how_many_runs_a_plan_may_take(tmp_path: Path) -> None:
    write(sensitive, tmp_path)
    policy = 'version: 1\nmodels:\n  - path: "*.onnx"\n    methods: [int8-weights]\n    '
    for bad in ("plan_runs: many", "plan_runs: -1", "plan_seconds: soon"):
        (tmp_path / ".onnx-ci.yaml").write_text(f"{policy}{bad}\n")
        done = onnx_ci("check", "--all", cwd=tmp_path)
        assert done.code == 2
        assert ".onnx-ci.yaml:5" in done.err
    (tmp_path / ".onnx-ci.yaml").write_text(policy + "plan_runs: 60\n")
    assert onnx_ci("fix", "--all", cwd=tmp_path).code == 0
    before = (tmp_path / "model.onnx").read_bytes()
    assert onnx_ci("fix", "--all", cwd=tmp_path).code == 0
    assert (tmp_path / "model.onnx").read_bytes() == before


@pytest.mark.parametrize("setting", ["plan_runs: 0", "plan_seconds: 0"])
def test_no_runs_to_plan_try_methods_as_a_whole(tmp_path: Path, setting: str) -> None:
    write(sensitive, tmp_path)
    policy = (
        'version: 1\nmodels:\n  - path: "*.onnx"\n    methods: [int8-weights]\n    shrink: smallest\n    '
    )
    (tmp_path / ".onnx-ci.yaml").write_text(policy + setting + "\n")
    (outcome,) = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path).json["models"]
    assert "plan" not in outcome


def test_fix_writes_what_check_announced(tmp_path: Path) -> None:
    policy = 'version: 1\nmodels:\n  - {path: "*.onnx", methods: [int8-weights], shrink: smallest}\n'
    found = []
    for name, options in (("warm", []), ("cold", ["--no-cache"])):
        (tmp_path / name).mkdir()
        write(sensitive, tmp_path / name)
        (tmp_path / name / ".onnx-ci.yaml").write_text(policy)
        for command in ("check", "fix"):
            done = onnx_ci(command, "--all", "--format", "json", *options, cwd=tmp_path / name)
            (outcome,) = done.json["models"]
            found.append(outcome["after"]["sha256"])
            assert outcome["work"]["runs"] > outcome["work"]["loads"] > 0
    assert len(set(found)) == 1


def test_the_users_limit_of_time_ends_a_search_and_what_is_proven_is_kept(tmp_path: Path) -> None:
    write(sensitive, tmp_path)
    policy = (
        'version: 1\nmodels:\n  - {path: "*.onnx", methods: [fp16-weights, int8-weights], shrink: smallest'
    )
    # Half of it is gone before the first trial: loading onnxruntime takes longer.
    (tmp_path / ".onnx-ci.yaml").write_text(policy + ", limits: {total_seconds: 0.4, seconds: 60}}\n")
    done = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    (outcome,) = done.json["models"]
    if outcome["verdict"] != "unverified":  # a fast machine proved something in that time
        told = str(outcome.get("plan"))
        assert "when time was up" in told or "no time to plan" in told, outcome
    else:
        assert "limits.total_seconds" in str(outcome["findings"])


ENDLESS = """
import sys, time
from onnx_ci.cli.main import main
from onnx_ci.gate import planner
from onnx_ci.verify.prove import Prover

def prove(self, candidate, proven=[], once=Prover.prove):
    if len(proven) == int(sys.argv[1]):
        time.sleep(60)
    proven.append(candidate)
    return once(self, candidate)

planner.start_planning = lambda *_: time.sleep(60)
Prover.prove = prove
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="work is bounded where processes can be forked")
@pytest.mark.parametrize("proofs", [0, 1, 9])
def test_the_best_that_is_proven_is_taken_when_time_is_up(tmp_path: Path, proofs: int) -> None:
    write(lean, tmp_path)
    rule = "methods: [dedupe, fp16-weights, int8-weights], limits: {total_seconds: 10}"
    (tmp_path / ".onnx-ci.yaml").write_text(f'version: 1\nmodels: [{{path: "*.onnx", {rule}}}]\n')
    environment = {**plain_environment(), "ONNX_CI_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", ENDLESS, str(proofs), "check", "--all", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    (outcome,) = json.loads(done.stdout)["models"]
    codes = [finding["code"] for finding in outcome["findings"]]
    if not proofs:  # nothing vouches for anything: that is no pass
        assert (outcome["verdict"], codes) == ("unverified", ["OCI013"])
        assert "nothing was changed" not in outcome["verification"]["reason"]
        return
    taken = {1: "fp16-weights", 9: "int8-weights"}[proofs]
    assert [step["method"] for step in outcome["steps"] if step["tensors"]] == [taken]
    assert (outcome["verdict"], outcome["verification"]["status"]) == ("would_shrink", "passed")
    assert codes == ["OCI059", "OCI003"]
    # It is kept for this machine: another run, with all the time there is, need not search.
    explained = onnx_ci("explain", "model.onnx", cwd=tmp_path, env=environment).out
    assert f"{taken}: 32.9 kB -> " in explained
    assert "not all was tried: there was no time to plan" in explained


def test_a_group_is_met_by_members_that_may_give(tmp_path: Path) -> None:
    for number in range(3):
        write(partial(lean, width=128, layers=2, seed=number), tmp_path, f"m{number}.onnx")
    size = (tmp_path / "m0.onnx").stat().st_size
    (tmp_path / ".onnx-ci.yaml").write_text(
        f"""
version: 1
models:
  - {{path: "*.onnx", methods: [fp16-weights, int8-weights, int4-weights], shrink: to-budget}}
  - {{path: m2.onnx, methods: [dedupe]}}
groups:
  - {{name: app, paths: ["*.onnx"], budget: {{size: {int(1.8 * size)} B}}}}
"""
    )
    done = onnx_ci("check", "--all", "--format", "json", cwd=tmp_path)
    assert [model["verdict"] for model in done.json["models"]] == ["would_shrink", "would_shrink", "ok"]
    done = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    assert done.code == 0, done.out
    left = [(tmp_path / f"m{number}.onnx").stat().st_size for number in range(3)]
    assert left[2] == size
    checked = onnx_ci("check", "--all", cwd=tmp_path)
    assert checked.code == 0
    assert 1.5 * size < sum(left) <= 1.8 * size  # no more loss than the group needs
    assert onnx_ci("check", "--all", cwd=tmp_path).code == 0


def test_what_no_tensor_bears_is_refused_and_said(tmp_path: Path) -> None:
    text = "g (float[n,64] x) => (float[n,64] y) { a = MatMul(x, P) b = MatMul(x, Q) y = Sub(a, b) }"
    close = {"P": weight(64, 64, seed=1), "Q": weight(64, 64, seed=1) + weight(64, 64, seed=2, scale=1e-5)}
    path = write(lambda: model(text, close), tmp_path)
    done = shrink(tmp_path, methods="int8-weights")
    assert (done.code, done.json["verdict"]) == (1, "outputs_changed")
    assert done.json["alternatives"][0]["state"] == "refused"
    assert path.exists()
    assert not (tmp_path / "out.onnx").exists()


def test_what_is_chosen_on_made_up_inputs_keeps_a_distance_from_the_limit(tmp_path: Path) -> None:
    write(lambda: lean(width=128, layers=4), tmp_path)
    done = shrink(tmp_path, "--tolerance", "cosine=0.99")
    assert done.json["verification"]["samples"] == 6  # two to look, four that had no part in the choice
    assert all(output["cosine"] > 0.997 for output in done.json["verification"]["outputs"])
    assert "int3" not in done.json["plan"]["forms"]


def test_an_output_without_a_distance_needs_many_inputs(tmp_path: Path) -> None:
    text = """g (float[n,64] x) => (int64[n,64] y)
        { h = MatMul(x, W) o = Hardmax<axis = 1>(h) y = Cast<to = 7>(o) }"""
    write(lambda: model(text, {"W": weight(64, 64, seed=1)}), tmp_path)
    done = shrink(tmp_path, "--plan-runs", "0", methods="int4-weights:min_elements=64:bits=6")
    assert done.code == 1
    assert "further inputs" in done.json["verification"]["reason"]


def test_a_budget_that_only_the_smallest_meets_is_met(tmp_path: Path) -> None:
    write(lambda: lean(width=128, layers=4), tmp_path)
    smallest = shrink(tmp_path).json["after"]["size"]
    for share in (1.0, 1.02, 1.1):
        done = shrink(tmp_path, "--budget", f"{int(smallest * share)}B")
        assert done.code == 0, done.out


def test_of_few_tensors_every_mix_is_weighed(tmp_path: Path) -> None:
    path = write(lambda: lean(width=128, layers=2), tmp_path)
    size = path.stat().st_size
    done = shrink(tmp_path, "--budget", f"{int(size * 0.8)}B")
    assert 0.7 * size < done.json["after"]["size"] <= 0.8 * size  # one tensor in fp16 is enough


def test_a_member_that_can_not_give_what_its_group_asks_still_keeps_its_own_budget(tmp_path: Path) -> None:
    write(lambda: lean(width=128, layers=2), tmp_path, "a.onnx")
    write(sensitive, tmp_path, "b.onnx")
    sizes = [(tmp_path / name).stat().st_size for name in ("a.onnx", "b.onnx")]
    (tmp_path / ".onnx-ci.yaml").write_text(
        f"""
version: 1
models:
  - {{path: "*.onnx", methods: [fp16-weights, int8-weights], budget: {{size: {int(sizes[1] * 0.6)} B}}}}
groups:
  - {{name: app, paths: ["*.onnx"], budget: {{size: {int(sum(sizes) * 0.2)} B}}}}
"""
    )
    first = onnx_ci("fix", "--all", "--format", "json", cwd=tmp_path)
    after = [(tmp_path / name).read_bytes() for name in ("a.onnx", "b.onnx")]
    assert len(after[1]) <= sizes[1] * 0.6
    assert first.code == 1  # the group can't be met
    onnx_ci("fix", "--all", cwd=tmp_path)
    assert [(tmp_path / name).read_bytes() for name in ("a.onnx", "b.onnx")] == after


def test_a_run_tells_what_was_done_and_what_else_was_tried(tmp_path: Path) -> None:
    write(sensitive, tmp_path)
    policy = 'version: 1\nmodels:\n  - {path: "*.onnx", methods: [fp16-weights, int8-weights]}\n'
    (tmp_path / ".onnx-ci.yaml").write_text(policy)
    done = onnx_ci("check", "--all", cwd=tmp_path)
    assert "model.onnx: int8-weights (int8 by" in done.out
    assert "also tried: fp16-weights " in done.out


def test_a_compressed_budget_gets_forms_for_compressors(tmp_path: Path) -> None:
    sizes: dict[str, int] = {}
    for budget in ("gzip: 1 GB", "gzip: 1 GB, size: 1 GB"):
        folder = tmp_path / str(len(sizes))
        folder.mkdir()
        write(lambda: lean(width=256, layers=4), folder)
        (folder / ".onnx-ci.yaml").write_text(
            'version: 1\nmodels:\n  - path: "*.onnx"\n    shrink: smallest\n'
            f"    methods: [{METHODS}]\n    budget: {{{budget}}}\n    tolerance: {{cosine: 0.999}}\n"
        )
        done = onnx_ci("fix", "model.onnx", "--no-cache", "--format", "json", cwd=folder)
        (found,) = done.json["models"]
        assert found["verification"]["status"] == "passed"
        sizes[budget] = found["after"]["gzip"]
        in_steps = [label for label in found["plan"]["forms"] if label.startswith("steps of rms/")]
        assert bool(in_steps) == ("size" not in budget)
        made = (folder / "model.onnx").read_bytes()
        again = onnx_ci("fix", "model.onnx", "--no-cache", cwd=folder)
        assert again.code == 0, again.out
        assert (folder / "model.onnx").read_bytes() == made
    assert sizes["gzip: 1 GB"] < 0.98 * sizes["gzip: 1 GB, size: 1 GB"]
