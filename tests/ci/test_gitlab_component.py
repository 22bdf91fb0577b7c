"""The GitLab component, run by a local GitLab runner in a real repository, and the schema of its file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import onnx
import pytest
import yaml

from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated
from tests.support.node import node_program

pytestmark = pytest.mark.real

PROJECT = Path(__file__).resolve().parent.parent.parent
COMPONENT = PROJECT / "templates" / "onnx-ci.yml"
MERGE_REQUEST = "CI_PIPELINE_SOURCE=merge_request_event"


class Pipeline:
    """A project that includes the component; one bloated model is on its branch, another was there before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repository = Repository(root)
        self.repository.git("remote", "add", "origin", "https://gitlab.invalid/group/project.git")
        (root / "models").mkdir()
        (root / "templates").mkdir()
        shutil.copyfile(COMPONENT, root / "templates" / "onnx-ci.yml")
        onnx.save(bloated(), root / "models" / "old.onnx")
        write_policy(root)
        self.base = self.repository.commit_all("old")
        onnx.save(bloated(seed=1), root / "models" / "new.onnx")

    def run(self, variables: list[str], **inputs: object) -> subprocess.CompletedProcess[str]:
        included = {"include": [{"local": "templates/onnx-ci.yml", "inputs": {"install": "", **inputs}}]}
        (self.root / ".gitlab-ci.yml").write_text(yaml.safe_dump(included))
        self.repository.commit_all("pipeline")
        shutil.rmtree(self.root / "onnx-ci-report", ignore_errors=True)
        command = [str(node_program("gitlab-ci-local", "gitlab-ci-local")), "--force-shell-executor"]
        for variable in variables:
            command += ["--variable", variable]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        home = self.root.parent / "home"
        home.mkdir(exist_ok=True)
        return self.repository.run(*command, "--no-color", "--home", str(home), PATH=path, HOME=str(home))

    def models(self) -> list[str]:
        report = json.loads((self.root / "onnx-ci-report" / "report.json").read_text())
        return [model["path"] for model in report["models"]]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    if shutil.which("rsync") is None:
        pytest.skip("rsync is not installed")
    node_program("gitlab-ci-local", "gitlab-ci-local")
    return Pipeline(tmp_path_factory.mktemp("gitlab") / "project")


def test_a_merge_request_is_compared_with_its_base(pipeline: Pipeline) -> None:
    done = pipeline.run([MERGE_REQUEST, f"CI_MERGE_REQUEST_DIFF_BASE_SHA={pipeline.base}"])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error OCI003 models/new.onnx: can be" in done.stdout + done.stderr
    assert pipeline.models() == ["models/new.onnx"]
    reports = pipeline.root / "onnx-ci-report"
    issues: list[dict[str, Any]] = json.loads((reports / "code-quality.json").read_text())
    assert [issue["location"]["path"] for issue in issues] == ["models/new.onnx"]
    suite = ElementTree.parse(reports / "junit.xml").getroot()[0]  # noqa: S314 - our own
    assert suite.attrib["failures"] == "1"
    assert (pipeline.root / ".onnx-ci-cache").is_dir()


def test_inputs_do_what_they_say(pipeline: Pipeline) -> None:
    base = f"CI_MERGE_REQUEST_DIFF_BASE_SHA={pipeline.base}"
    (pipeline.root / "mild policy.yaml").write_text(
        'version: 1\nmodels: [{path: "**/*.onnx", severity: warning}]\n'
    )
    inputs = {"scope": "all", "policy": "mild policy.yaml", "jobs": 2, "job-name": "models", "install": "pip"}
    done = pipeline.run([MERGE_REQUEST, base], **inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "models starting shell (test)" in done.stdout + done.stderr
    assert pipeline.models() == ["models/new.onnx", "models/old.onnx"]


def test_the_file_is_what_gitlab_takes(tmp_path: Path) -> None:
    spec, jobs = yaml.safe_load_all(COMPONENT.read_text())
    filled = json.dumps(jobs)
    for name, given in spec["spec"]["inputs"].items():
        assert f"$[[ inputs.{name} ]]" in filled
        value = json.dumps(given["default"])
        plain = value if given.get("type") in ("number", "boolean") else f'"{value[1:-1]}"'
        filled = filled.replace(f'"$[[ inputs.{name} ]]"', plain)
    assert "$[[" not in filled
    (tmp_path / "pipeline.yml").write_text(yaml.safe_dump(json.loads(filled)))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci"]
    done = subprocess.run(
        [*command, "pipeline.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
