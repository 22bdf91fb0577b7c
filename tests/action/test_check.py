"""Modes check and fix: annotations, summary, report, outputs, and the cache of results."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from onnx_ci.gate import attempts, judge
from onnx_ci.gate.subject import Subject
from onnx_ci.model.load import open_model
from onnx_ci.util.text import one_line
from tests.support.action import call
from tests.support.pull_requests import Hosted

pytestmark = pytest.mark.sampled(12)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Hosted:
    made = Hosted(tmp_path_factory.mktemp("host"))
    made.add_model()
    made.push("a bloated model")
    made.clone("clone")
    return made


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"ONNX_CI_CACHE": str(tmp_path_factory.mktemp("proven"))}


def test_a_check_tells_everybody_and_changes_nothing(host: Hosted, proven: dict[str, str]) -> None:
    clone = host.home / "clone"
    done = call(clone, also=proven)
    assert (done.code, done.outputs["verdict"], done.outputs["changed"]) == ("1", "1", "false")
    assert "::error file=models/a.onnx,line=1,title=OCI003" in done.log
    assert "::error file=.onnx-ci.yaml" not in done.log  # one model breaks one rule: one annotation
    assert "```mermaid" in done.summary
    assert "| <code>models/a.onnx</code> | 65.8 kB | 16.9 kB | -74.3% |" in done.summary
    assert done.outputs["comment-body"] in done.summary
    assert done.report["totals"] == {"size_before": 65829, "size_after": 16888}
    assert (done.outputs["bytes-before"], done.outputs["bytes-after"]) == ("65829", "16888")
    folder = Path(done.outputs["folder"])
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "report.json", "report.md"]
    assert not host.author.git("-C", str(clone), "status", "--porcelain")


@pytest.mark.parametrize(
    ("severity", "fail_on", "code", "verdict"),
    [
        ("error", "never", "1", "0"),
        ("warning", "error", "0", "0"),
        ("warning", "warning", "1", "1"),
        ("warning", "never", "1", "0"),
    ],
)
def test_what_makes_it_fail(
    host: Hosted, proven: dict[str, str], tmp_path: Path, severity: str, fail_on: str, code: str, verdict: str
) -> None:
    folder = tmp_path / "work"
    shutil.copytree(host.home / "clone", folder)
    policy = folder / ".onnx-ci.yaml"
    policy.write_text(policy.read_text() + f"    severity: {severity}\n")
    done = call(folder, also=proven, fail_on=fail_on)
    expected = "0" if (severity, fail_on) == ("warning", "never") else code
    assert (done.code, done.outputs["verdict"]) == (expected, verdict)


def test_a_policy_that_is_wrong_fails_whatever_is_asked(host: Hosted, tmp_path: Path) -> None:
    shutil.copytree(host.home / "clone", tmp_path / "work")
    (tmp_path / "work" / ".onnx-ci.yaml").write_text("version: 1\nmodels:\n  - path: a\n    bugdet: {}\n")
    done = call(tmp_path / "work", fail_on="never")
    assert (done.code, done.outputs["verdict"]) == ("2", "2")
    assert "::error file=.onnx-ci.yaml,line=4,title=onnx-ci::" in done.log
    assert "budget" in done.log


def test_a_wrong_input_is_an_annotation(host: Hosted) -> None:
    done = call(host.home / "clone", mode="chekc")
    assert done.outputs["verdict"] == "2"
    assert "::error title=onnx-ci::input 'mode': found 'chekc', expected one of check, fix" in done.log


def test_without_a_repository_there_is_no_pass(tmp_path: Path) -> None:
    done = call(tmp_path)
    assert done.code == "2"
    assert "there is no git repository here" in done.log


def test_fix_leaves_smaller_models_in_the_work_tree(
    host: Hosted, proven: dict[str, str], tmp_path: Path
) -> None:
    shutil.copytree(host.home / "clone", tmp_path / "work")
    done = call(tmp_path / "work", also=proven, mode="fix")
    assert (done.code, done.outputs["changed"], done.outputs["committed"]) == ("0", "true", "false")
    assert (tmp_path / "work" / "models" / "a.onnx").stat().st_size == 16888


def test_after_a_push_only_what_it_changed_is_looked_at(host: Hosted, tmp_path: Path) -> None:
    other = Hosted(tmp_path)
    other.add_model("old.onnx")
    before = other.push("old")
    other.add_model("new.onnx", seed=1)
    other.push("new")
    clone = other.clone("clone", "--depth=1")
    done = call(clone.root, payload={"before": before})
    assert [model["path"] for model in done.report["models"]] == ["new.onnx"]
    gone = call(clone.root, payload={"before": "d" * 40})  # pushed by force
    assert [model["path"] for model in gone.report["models"]] == ["new.onnx", "old.onnx"]
    assert "can't be had" in gone.log


def test_a_second_run_does_no_work_and_a_fork_is_not_believed(
    host: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is on a new machine, with nothing but the folder that the cache gives back."""
    worked = tmp_path / "worked"  # a file: models are judged in processes of their own
    try_all = attempts.try_all

    def noted(subject: Subject, *rest: Any) -> Any:
        with worked.open("a") as file:
            file.write(f"{subject.task.name}\n")
        return try_all(subject, *rest)

    monkeypatch.setattr(attempts, "try_all", noted)
    restored = {"ONNX_CI_CACHE": str(tmp_path / "restored")}
    digests = []
    for machine in ("first", "second"):
        done = call(host.home / "clone", also={**restored, "XDG_STATE_HOME": str(tmp_path / machine)})
        digests.append(done.outputs["results-digest"])
    assert worked.read_text().splitlines() == ["models/a.onnx"]
    assert digests[0] == digests[1] != ""
    fork = {"pull_request": {"head": {"ref": "x", "sha": "y", "repo": {"full_name": "stranger/models"}}}}
    also = {**restored, "XDG_STATE_HOME": str(tmp_path / "third")}
    call(host.home / "clone", "pull_request", fork, also=also, all="true")
    assert worked.read_text().splitlines() == ["models/a.onnx"] * 2
    call(host.home / "clone", also={**also, "ONNX_CI_CACHE_KEY": "a secret"})
    assert worked.read_text().splitlines() == ["models/a.onnx"] * 3


def test_a_pointer_is_told_how_a_workflow_gets_its_content(tmp_path: Path) -> None:
    other = Hosted(tmp_path)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 65829\n"
    (other.author.root / "a.onnx").write_text(pointer)
    other.push("a pointer")
    done = call(other.author.root, all="true")
    assert done.code == "1"
    assert [finding["code"] for finding in done.report["models"][0]["findings"]] == ["OCI007"]
    assert "set `lfs: true` of actions/checkout in the workflow; or run: git lfs pull" in done.log


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_hint_can_be_pasted_and_the_log_gives_no_command(tmp_path: Path) -> None:
    other = Hosted(tmp_path)
    name = "##vso[x] '##[error]$(id).onnx"
    other.add_model(name)
    other.push("hostile")
    done = call(other.author.root, all="true")
    (given,) = (f["command"] for f in done.report["models"][0]["findings"] if f["code"] == "OCI003")
    command = one_line(given)
    assert f"run: {command}" in done.log.replace("%25", "%")
    assert "##" not in done.log
    words = other.author.run("bash", "-c", f"onnx-ci() {{ printf '%s\\n' \"$@\"; }}; {command}").stdout
    assert words.splitlines() == ["fix", name]


def test_a_bug_fails_the_job_and_the_report_is_there(
    host: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever `fail-on` says: nobody knows what the model is like."""
    folder = tmp_path / "work"
    shutil.copytree(host.home / "clone", folder)
    shutil.copy(folder / "models" / "a.onnx", folder / "models" / "bad.onnx")
    real = open_model

    def broken(path: Path, **more: Any) -> Any:
        if path.name == "bad.onnx":
            raise ZeroDivisionError("nobody thought of this")
        return real(path, **more)

    monkeypatch.setattr(judge, "open_model", broken)
    done = call(folder, mode="fix", all="true", fail_on="never", bug=True)
    assert (done.code, done.outputs["verdict"], done.outputs["changed"]) == ("4", "4", "true")
    assert "title=OCI052" in done.log
    verdicts = {model["path"]: model["verdict"] for model in done.report["models"]}
    assert verdicts == {"models/a.onnx": "shrunk", "models/bad.onnx": "unverified"}
