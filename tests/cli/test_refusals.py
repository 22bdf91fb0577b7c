"""What is said where a smaller form was refused: of what, by which limit, and what would let it pass."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
import yaml

from tests.support.cli import Done, onnx_ci
from tests.support.models import lean

pytestmark = pytest.mark.sampled(4)

TOO_TIGHT = "methods: [int8-weights, int4-weights], plan_runs: 0, tolerance: {cosine: 0.99999}"


def run(folder: Path, rule: str, *arguments: str, command: str = "check") -> Done:
    onnx.save(lean(), folder / "m.onnx")
    (folder / ".onnx-ci.yaml").write_text(f'version: 1\nmodels: [{{path: "*.onnx", {rule}}}]\n')
    return onnx_ci(command, "m.onnx", *arguments, cwd=folder, env={"ONNX_CI_CACHE": str(folder / "cache")})


def test_a_model_that_is_well_does_not_look_as_if_it_had_failed(tmp_path: Path) -> None:
    done = run(tmp_path, TOO_TIGHT)
    assert done.code == 0
    row = done.out.splitlines()[1]
    assert row.split("  ")[2:] == ["smaller form: outside tolerance", "ok"]
    assert "note OCI004 m.onnx: a smaller form with int8-weights was refused: output 'y': cosine" in done.out
    told = run(tmp_path, TOO_TIGHT, command="explain").out
    assert "what a check says: ok" in told
    assert "verification failed: a smaller form with int8-weights was refused: output 'y'" in told


def test_the_refusal_that_is_told_is_the_nearest_to_a_pass(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, TOO_TIGHT, "--format", "json").json["models"]
    refused = {", ".join(one["methods"]): one for one in outcome["alternatives"]}
    assert refused.keys() == {"int8-weights", "int4-weights"}
    assert refused["int4-weights"]["cosine"] < refused["int8-weights"]["cosine"] < 0.99999
    (finding,) = outcome["findings"]
    assert "int8-weights was refused" in finding["message"]
    assert outcome["verification"]["outputs"][0]["cosine"] == refused["int8-weights"]["cosine"]


@pytest.mark.parametrize("limit", ["cosine: 0.99999", "sqnr: 70", "max_abs: 1e-6", "max_abs: 1e-6, sqnr: 70"])
def test_the_tolerance_that_is_named_is_of_the_limit_that_failed_and_is_kept(
    tmp_path: Path, limit: str
) -> None:
    rule = f"methods: [int8-weights], plan_runs: 0, tolerance: {{{limit}}}"
    (outcome,) = run(tmp_path, rule, "--format", "json").json["models"]
    (finding,) = outcome["findings"]
    advised = re.search(
        r"loosen the tolerance: on these inputs it keeps tolerance: (\{.*\})", finding["hint"]
    )
    assert advised, finding
    kept = yaml.safe_load(advised[1])
    assert kept.keys() == yaml.safe_load(f"{{{limit}}}").keys()
    (output,) = outcome["verification"]["outputs"]
    for name, value in kept.items():
        assert (output[name] <= value) if name == "max_abs" else (output[name] >= value)
        assert output[name] == pytest.approx(value, rel=0.1)


def test_sizes_that_are_estimates_say_so(tmp_path: Path) -> None:
    told = run(tmp_path, "methods: [fp16-weights, int8-weights]", command="explain").out
    assert "also tried (about: an estimate from trials, without the receipt" in told
    assert re.search(r"fp16-weights +about 16\.\d kB ", told)
