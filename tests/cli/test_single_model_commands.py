"""`shrink`, `compare`, `info` and the small commands."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
import yaml

from tests.support.cli import call, onnx_ci
from tests.support.models import bloated, lean, narrow

pytestmark = pytest.mark.sampled(20)


def save(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


def test_shrink_writes_a_verified_model_and_leaves_the_source(tmp_path: Path) -> None:
    source = save(bloated(), tmp_path / "in.onnx")
    before = source.read_bytes()
    done = onnx_ci("shrink", "in.onnx", "out.onnx", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    report = done.json
    assert report["verdict"] == "shrunk"
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["outputs"][0]["max_abs"] == 0
    assert report["after"]["size"] == (tmp_path / "out.onnx").stat().st_size < len(before) / 2
    assert source.read_bytes() == before


def test_shrink_with_nothing_to_gain_copies(tmp_path: Path) -> None:
    source = save(lean(), tmp_path / "in.onnx")
    done = onnx_ci("shrink", "in.onnx", "out.onnx", "--methods", "dedupe", cwd=tmp_path)
    assert done.code == 0
    assert (tmp_path / "out.onnx").read_bytes() == source.read_bytes()


def test_shrink_outside_the_tolerance_writes_nothing(tmp_path: Path) -> None:
    save(lean(), tmp_path / "in.onnx")
    arguments = ["--methods", "int8-weights", "--tolerance", "max_abs=1e-9", "--format", "json"]
    done = onnx_ci("shrink", "in.onnx", "out.onnx", *arguments, cwd=tmp_path)
    assert done.code == 1
    assert done.json["verdict"] == "outputs_changed"
    assert not (tmp_path / "out.onnx").exists()


def test_shrink_to_a_budget(tmp_path: Path) -> None:
    save(lean(), tmp_path / "in.onnx")
    done = onnx_ci("shrink", "in.onnx", "out.onnx", "--budget", "18 kB", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    assert (tmp_path / "out.onnx").stat().st_size <= 18_000
    assert "fp16-weights" in [step["method"] for step in done.json["steps"]]
    failed = onnx_ci("shrink", "in.onnx", "small.onnx", "--budget", "1 kB", "--format", "json", cwd=tmp_path)
    assert failed.code == 1
    assert failed.json["verdict"] == "over_budget"
    assert not (tmp_path / "small.onnx").exists()


def test_shrink_without_verification_says_so(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "in.onnx")
    done = onnx_ci("shrink", "in.onnx", "out.onnx", "--no-verify", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    assert done.json["verification"]["status"] == "not_run"
    receipt = next(p for p in onnx.load(tmp_path / "out.onnx").metadata_props if p.key == "onnx_ci.receipt")
    assert "verified" not in json.loads(receipt.value)


def test_shrink_in_place_and_with_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(bloated(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    beside = onnx_ci("shrink", "m.onnx", "out.onnx", cwd=tmp_path)
    assert beside.code == 0
    assert len(onnx.load(tmp_path / "out.onnx").graph.initializer) == 1
    assert (tmp_path / "out.onnx.data").exists()
    assert len(onnx.load(path).graph.initializer) == 4
    assert onnx_ci("shrink", "m.onnx", "m.onnx", cwd=tmp_path).code == 0
    assert len(onnx.load(path).graph.initializer) == 1


def test_what_shrink_replaces_in_place_can_be_had_back(tmp_path: Path) -> None:
    path = save(lean(), tmp_path / "m.onnx")
    was = path.read_bytes()
    assert onnx_ci("shrink", "m.onnx", "m.onnx", "--methods", "int8-weights", cwd=tmp_path).code == 0
    assert path.read_bytes() != was
    assert onnx_ci("restore", "--original", "m.onnx", cwd=tmp_path).code == 0
    assert path.read_bytes() == was


def test_the_receipt_says_where_a_model_comes_from(tmp_path: Path) -> None:
    source = save(narrow(), tmp_path / "in.onnx")
    done = onnx_ci(
        "shrink", "in.onnx", "out.onnx", "--methods", "int4-weights", "--format", "json", cwd=tmp_path
    )
    entry = next(p for p in onnx.load(tmp_path / "out.onnx").metadata_props if p.key == "onnx_ci.receipt")
    receipt = json.loads(entry.value)
    assert receipt["source_sha256"] == done.json["before"]["sha256"]
    assert receipt["source_size"] == source.stat().st_size
    (done,) = receipt["methods"]
    assert done.pop("moments").startswith("xxh3:")
    assert done["name"] == "int4-weights"
    assert sum(done["mix"].values()) == 2
    assert receipt["lossy"] is receipt["verified"] is True
    again = onnx_ci("shrink", "out.onnx", "twice.onnx", "--methods", "fp16-weights", cwd=tmp_path)
    assert again.code == 0
    assert (tmp_path / "twice.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


def test_compare(tmp_path: Path) -> None:
    save(lean(), tmp_path / "a.onnx")
    save(lean(), tmp_path / "b.onnx")
    save(lean(seed=1), tmp_path / "c.onnx")
    same = onnx_ci("compare", "a.onnx", "b.onnx", "--format", "json", cwd=tmp_path)
    assert same.code == 0
    assert same.json["verification"]["outputs"][0]["exact"] is True
    assert same.json["latency"]["ratio"] > 0
    other = onnx_ci("compare", "a.onnx", "c.onnx", cwd=tmp_path)
    assert other.code == 1
    assert "cosine" in other.out
    np.savez(tmp_path / "zeros.npz", x=np.zeros((1, 64), np.float32))
    zeros = onnx_ci("compare", "a.onnx", "c.onnx", "--samples", "zeros.npz", "--format", "json", cwd=tmp_path)
    assert zeros.json["verification"]["inputs"] == "samples"
    # Nothing comes of zeros, whatever the weights; what is made up beside them tells the two apart.
    assert (zeros.code, zeros.json["verdict"]) == (1, "outputs_changed")
    assert "on inputs made up for it" in zeros.json["verification"]["reason"]


def test_info(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    text = onnx_ci("info", "m.onnx", cwd=tmp_path)
    assert text.code == 0
    assert "float" in text.out
    assert "x4" in text.out
    found = onnx_ci("info", "m.onnx", "--format", "json", cwd=tmp_path).json
    assert found["duplicate_bytes"] == 3 * 64 * 64 * 4
    assert found["types"] == {"float": 4 * 64 * 64 * 4}
    assert found["tensors"][0]["copies"] == 4


def test_info_tells_what_goes_in_and_what_trees_weigh(tmp_path: Path) -> None:
    count = 1000
    values = [float(number) for number in range(count)]
    trees = onnx.helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", nodes_values=values, n_targets=1
    )
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n_samples", 4]) for name in "xy"
    ]
    graph = onnx.helper.make_graph([trees], "g", infos[:1], infos[1:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    text = call("info", "m.onnx", cwd=tmp_path).out
    assert "x: float[n_samples,4]" in text
    assert "opset 18, ai.onnx.ml 3" in text
    assert ", 1 node, " in text
    found = call("info", "m.onnx", "--format", "json", cwd=tmp_path).json
    assert found["inputs"] == [{"name": "x", "type": "float[n_samples,4]", "shape": ["n_samples", 4]}]
    assert found["attributes"]["TreeEnsembleRegressor"] > 4 * count
    assert "in TreeEnsembleRegressor" in call("info", "m.onnx", "--format", "html", cwd=tmp_path).out


def test_info_of_a_large_model_is_an_estimate_unless_asked(tmp_path: Path) -> None:
    """Zeros, numbers and copies; what is not random compresses otherwise than the rest."""
    model = lean(width=1024, layers=4)
    zeros = onnx.numpy_helper.from_array(np.zeros((1024, 1024), np.float32), model.graph.initializer[0].name)
    model.graph.initializer[0].CopyFrom(zeros)
    save(model, tmp_path / "m.onnx")
    assert ", about " in onnx_ci("info", "m.onnx", cwd=tmp_path).out
    found = onnx_ci("info", "m.onnx", "--format", "json", cwd=tmp_path).json
    exact = onnx_ci("info", "m.onnx", "--exact", "--format", "json", cwd=tmp_path).json
    assert (found["estimated"], exact["estimated"]) == (True, False)
    assert found["measure"]["gzip"] == pytest.approx(exact["measure"]["gzip"], rel=0.1)
    assert found["measure"]["sha256"] == ""
    assert exact["measure"]["sha256"] == hashlib.sha256((tmp_path / "m.onnx").read_bytes()).hexdigest()
    assert ", about " not in onnx_ci("info", "m.onnx", "--exact", cwd=tmp_path).out


def test_methods_and_schema(tmp_path: Path) -> None:
    text = onnx_ci("methods", cwd=tmp_path)
    assert text.code == 0
    names = [
        method["name"] for method in onnx_ci("methods", "--format", "json", cwd=tmp_path).json["methods"]
    ]
    assert all(name in text.out for name in names)
    schema = onnx_ci("schema", cwd=tmp_path).json
    good = {"version": 1, "models": [{"path": "*.onnx", "methods": names}]}
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, "modles": []}, schema)


def test_init_writes_a_policy_that_holds(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    save(lean(), tmp_path / "models" / "m.onnx")
    assert onnx_ci("init", "--no-survey", cwd=tmp_path).code == 0
    policy = yaml.safe_load((tmp_path / ".onnx-ci.yaml").read_text())
    assert [rule["path"] for rule in policy["models"]] == ["**/*.onnx", "models/m.onnx"]
    assert onnx_ci("check", "--all", cwd=tmp_path).code == 0
    refused = onnx_ci("init", cwd=tmp_path)
    assert refused.code == 2
    assert "--force" in refused.err
    assert onnx_ci("init", "--force", "--no-survey", cwd=tmp_path).code == 0


def test_explain_names_the_rule_and_what_would_be_done(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    first = '  - path: "**"\n    methods: [dedupe]\n'
    policy = f'version: 1\nmodels:\n{first}  - path: "*.onnx"\n    budget: {{size: 1 MB}}\n'
    (tmp_path / ".onnx-ci.yaml").write_text(policy)
    done = onnx_ci("explain", "m.onnx", cwd=tmp_path)
    assert done.code == 0
    assert ".onnx-ci.yaml:5: '*.onnx' is the rule" in done.out
    assert ".onnx-ci.yaml:3: '**' matches too" in done.out
    assert "what a check says: would shrink\n" in done.out
    assert "1 MB (1,000,000 bytes)  [.onnx-ci.yaml:6]" in done.out
    assert "methods, mildest first: dedupe  [.onnx-ci.yaml:4]" in done.out
    assert "severity error  [built in]" in done.out


def test_reports_go_where_they_are_sent(tmp_path: Path) -> None:
    save(bloated(), tmp_path / "m.onnx")
    both = onnx_ci("check", "--format", "text", "--format", "json", "--output", "report.json", cwd=tmp_path)
    assert both.code == 1
    assert "OCI003" in both.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["exit_code"] == 1
    assert report["totals"]["size_before"] > report["totals"]["size_after"]
    assert report["tool"]["name"] == "onnx-ci"
    missing = onnx_ci("check", "--format", "json", "--output", "no/such/folder.json", cwd=tmp_path)
    assert missing.code == 3


def test_demo_runs_from_end_to_end(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = onnx_ci("demo", cwd=tmp_path, env={"TMPDIR": str(temporary)})
    assert done.code == 0, done.out + done.err
    assert done.out.index("exit code 1") < done.out.index("exit code 0")
    assert "onnx-ci init" in done.out
    (kept,) = temporary.glob("onnx-ci-demo-*")
    assert f"is kept, to look around: cd {kept}" in done.out
    assert (kept / "models" / "encoder.onnx").exists()
    assert list(tmp_path.iterdir()) == [temporary]
