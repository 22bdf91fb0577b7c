"""What goes wrong unexpectedly with one model is a finding about that one; the others are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support.cli import Done, onnx_ci, plain_environment
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(12)

POLICY = 'version: 1\nmodels:\n  - path: "**/*.onnx"\n    methods: [dedupe]\n'
# Stands for a bug that nobody knows yet: opening models of this name raises what nothing expects.
BUGGY = """
import sys
import onnx_ci.gate.judge as judge
from onnx_ci.cli.main import main
real = judge.open_model
def broken(path, **more):
    if path.name == "bad.onnx":
        raise ZeroDivisionError("nobody thought of this")
    return real(path, **more)
judge.open_model = broken
sys.exit(main(sys.argv[1:]))
"""


def buggy(*arguments: str, cwd: Path) -> Done:
    done = subprocess.run(
        [sys.executable, "-c", BUGGY, *arguments],
        cwd=cwd,
        env={**plain_environment(), "TMPDIR": str(cwd / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".onnx-ci.yaml").write_text(POLICY)
    (tmp_path / "tmp").mkdir()
    onnx.save(bloated(), tmp_path / "a.onnx")
    onnx.save(lean(), tmp_path / "bad.onnx")
    onnx.save(bloated(seed=1), tmp_path / "c.onnx")
    return tmp_path


def by_name(report: Any) -> dict[str, Any]:
    return {model["path"]: model for model in report["models"]}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_others_are_fixed_and_the_exit_code_is_4(folder: Path, jobs: str) -> None:
    before = (folder / "a.onnx").stat().st_size
    done = buggy("fix", "--all", "--jobs", jobs, "--format", "json", cwd=folder)
    assert done.code == 4, done.err
    found = by_name(done.json)
    assert done.json["exit_code"] == 4
    assert [found[name]["verdict"] for name in ("a.onnx", "c.onnx")] == ["shrunk", "shrunk"]
    assert (folder / "a.onnx").stat().st_size < before
    (finding,) = found["bad.onnx"]["findings"]
    assert (found["bad.onnx"]["verdict"], finding["code"]) == ("unverified", "OCI052")
    assert "ZeroDivisionError: nobody thought of this" in finding["message"]
    assert "as they were" not in done.out + done.err
    (trace,) = (folder / "tmp").glob("onnx-ci-crash-*.txt")
    assert trace.name in finding["hint"]
    assert "nobody thought of this" in trace.read_text()


def test_the_exit_code_survives_shards(folder: Path) -> None:
    codes = []
    for index in ("1", "2"):
        done = buggy("check", "--all", "--shard", f"{index}/2", "--format", "json", cwd=folder)
        (folder / f"report-{index}.json").write_text(done.out)
        codes.append(done.code)
    assert 4 in codes
    merged = onnx_ci("merge", "report-1.json", "report-2.json", "--format", "json", cwd=folder)
    assert merged.code == 4
    assert set(by_name(merged.json)) == {"a.onnx", "bad.onnx", "c.onnx"}


def test_a_build_stops_and_names_the_model(folder: Path) -> None:
    done = buggy("shrink", "bad.onnx", "out.onnx", "--policy", ".onnx-ci.yaml", cwd=folder)
    assert done.code == 4
    assert "OCI052" in done.out
    assert not (folder / "out.onnx").exists()


def test_a_bug_is_no_matter_of_severity(folder: Path) -> None:
    (folder / ".onnx-ci.yaml").write_text(POLICY + "    severity: warning\n")
    done = buggy("check", "bad.onnx", cwd=folder)
    assert done.code == 4


@pytest.mark.parametrize("where", ["node", "doc", "location", "dim", "metadata"])
def test_text_that_is_not_utf_8_is_a_finding(folder: Path, where: str) -> None:
    model = lean()
    mark = "MARKED"
    if where == "node":
        model.graph.node[0].output[0] = model.graph.node[1].input[0] = mark
    elif where == "doc":
        model.doc_string = mark
    elif where == "dim":
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = mark
    elif where == "metadata":
        model.metadata_props.add(key=mark, value="x")
    else:
        onnx.save(model, folder / "d.onnx", save_as_external_data=True, location=mark, size_threshold=0)
        model = onnx.load(folder / "d.onnx", load_external_data=False)
        (folder / "d.onnx").unlink()
    content = model.SerializeToString().replace(mark.encode(), b"MARK\xff\xfe")
    (folder / "bad.onnx").write_bytes(content)
    for protobuf in ("upb", "python"):  # some packages ask for the one in Python when they are imported
        env = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": protobuf}
        done = onnx_ci("check", "--all", "--format", "json", cwd=folder, env=env)
        assert done.code == 1, done.err
        bad = by_name(done.json)["bad.onnx"]
        assert bad["verdict"] == "unreadable"
        assert [finding["code"] for finding in bad["findings"]] == ["OCI006"]
        assert "not UTF-8" in bad["findings"][0]["message"]
        assert len(done.json["models"]) == 3


def test_names_beyond_ascii_are_read(tmp_path: Path) -> None:
    model = lean()
    model.graph.node[0].name = "Fußgänger-检测"
    onnx.save(model, tmp_path / "m.onnx")
    assert json.loads(onnx_ci("info", "m.onnx", "--format", "json", cwd=tmp_path).out)["nodes"] == 4
