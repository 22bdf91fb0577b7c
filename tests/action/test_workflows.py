"""The ready workflows of `examples/`, each run for real by act."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import github as emulated
from tests.support.comments import finished, surroundings
from tests.support.git_repo import Repository
from tests.support.models import lean
from tests.support.pull_requests import Hosted
from tests.support.workflows import PROJECT, REPOSITORY, Act, Ran
from tests.traps.bad_data import with_data
from tests.traps.hostile import crashes_at_load

pytestmark = pytest.mark.real

LEAN = 16_888  # bytes of the bloated model without its copies


@pytest.fixture
def host(tmp_path: Path) -> Hosted:
    return Hosted(tmp_path)


def run(act: Act, host: Hosted, example: str, event: str, payload: dict[str, Any], **also: Any) -> Ran:
    folder = Repository(host.home / "workflow")
    target = folder.root / ".github" / "workflows" / example
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text((PROJECT / "examples" / example).read_text())
    folder.commit_all("a workflow")
    payload = {"repository": {"full_name": REPOSITORY, "default_branch": "main"}, **payload}
    places: dict[str, Any] = {
        "folder": folder.root,
        "remote": host.origin.root,
        "artifacts": host.home / "artifacts",
    }
    return act.run(event, payload, **places, **also)


def test_pull_request_check(act: Act, host: Hosted) -> None:
    """A fork's: hostile names, hostile models, and modules that would be ours if we looked here."""
    host.add_model()
    host.add_model("models/$(touch pwned)`id`\n::error::pwned.onnx")
    crashing = crashes_at_load()  # and with something to gain, so that it is run
    crashing.graph.initializer.append(numpy_helper.from_array(np.zeros((64, 64), np.float32), "unused"))
    onnx.save(crashing, host.author.root / "crash.onnx")
    onnx.save(with_data(location=".git/config", length=64), host.author.root / "steal.onnx")
    (host.author.root / "bomb.onnx").write_bytes(b"\x3a\xff\xff\xff\xff\x0f" + b"\x00" * 64)
    for name in ("onnx_ci", "yaml", "numpy", "sitecustomize", "json"):
        (host.author.root / f"{name}.py").write_text("import pathlib; pathlib.Path('pwned').write_text('x')")
    event = host.pull_request(fork="stranger/models")
    done = run(act, host, "pull-request-check.yml", "pull_request", event)
    assert done.code == 1
    report = done.report("onnx-ci-check-models")
    verdicts = {model["path"]: model["verdict"] for model in report["models"]}
    assert sorted(verdicts.values()) == ["unreadable", "unreadable", "unverified", *["would_shrink"] * 2]
    assert verdicts["crash.onnx"] == "unverified"
    (stolen,) = (finding for m in report["models"] if m["path"] == "steal.onnx" for finding in m["findings"])
    assert ".git/config" in stolen["message"]
    assert stolen["code"] == "OCI012"
    assert (done.artifacts / "onnx-ci-check-models" / "report.html").is_file()
    assert "::error file=models/a.onnx,line=1,title=OCI003" in done.log
    assert "no cache is used" in done.log
    assert not [*host.home.rglob("pwned"), *act.home.rglob("pwned")]
    assert "::error::pwned" not in {line.partition("| ")[2] for line in done.log.splitlines()}
    with emulated.github() as github:  # the other half: what this run left, in the pull request
        github.known_as["not-a-token"] = github.tokens["write"]
        pull = github.pull("feature", fork=True)
        told = run(act, host, "fork-comment.yml", "workflow_run", finished(pull), **surroundings(github))
        assert told.code == 0, told.log
        (comment,) = github.comments(pull["number"])
    assert "onnx-ci failed: 5 models checked" in comment["body"]
    assert "::error::pwned" not in comment["body"].splitlines()


def test_a_new_machine_gets_environment_and_results_from_the_cache(
    act: Act, host: Hosted, tmp_path: Path
) -> None:
    """Nothing can be installed there, and no model be run: everything has to come from the cache."""
    shutil.copytree(act.environment_folder, tmp_path / "cache" / act.environment_folder.name, symlinks=True)
    host.add_model()
    event = host.pull_request()
    settings: dict[str, Any] = {"STUB_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"}
    settings |= {"UV_OFFLINE": "1", "UV_NO_CACHE": "1"}
    results = []
    for machine in (None, tmp_path / "new"):
        settings["machine"] = machine
        done = run(act, host, "pull-request-check.yml", "pull_request", event, **settings)
        assert done.code == 1, done.log
        models = done.report("onnx-ci-check-models")["models"]
        results.append([{**model, "seconds": 0} for model in models])
    assert results[0] == results[1]
    assert "Run Main Save results" not in done.log
    assert len(list((tmp_path / "cache").glob("onnx-ci-results-*"))) == 1


def test_auto_commit(act: Act, host: Hosted) -> None:
    host.add_model()
    event = host.pull_request()
    done = run(act, host, "auto-commit.yml", "pull_request", event)
    assert done.code == 0, done.log
    assert host.log("feature")[:2] == ["Shrink 1 ONNX models by 48.9 kB", "a change"]
    assert host.size("models/a.onnx", "feature") == LEAN
    assert "starts no workflow" in done.log
    fork = host.pull_request(fork="stranger/models", number=8)
    assert "Shrink and commit" not in run(act, host, "auto-commit.yml", "pull_request", fork).log


def test_release(act: Act, host: Hosted, tmp_path: Path) -> None:
    host.add_model()
    (host.author.root / "other folder").mkdir()
    other = host.author.root / "other folder" / "a.onnx"
    onnx.save(lean(), other, save_as_external_data=True, location="w.bin", size_threshold=0)
    files = {f"other folder/{name}": (other.parent / name).stat().st_size for name in ("a.onnx", "w.bin")}
    host.push("two models")
    host.author.git("tag", "v1.0")
    host.author.git("push", "--quiet", "origin", "v1.0")
    payload = {"action": "published", "release": {"tag_name": "v1.0"}}
    done = run(act, host, "release.yml", "release", payload, GITHUB_REF="refs/tags/v1.0")
    assert done.code == 0, done.log
    release = done.artifacts / "release-v1.0"
    assert sorted(path.name for path in release.iterdir()) == ["models.tar.gz", "report.html", "report.json"]
    with tarfile.open(release / "models.tar.gz") as archive:
        sizes = {member.name: member.size for member in archive}
    assert sizes == {"models/a.onnx": LEAN, **files}
    assert json.loads((release / "report.json").read_text())["exit_code"] == 0


def test_scheduled_ratchet(act: Act, host: Hosted) -> None:
    onnx.save(lean(), host.author.root / "a.onnx")
    policy = host.author.root / ".onnx-ci.yaml"
    policy.write_text(policy.read_text() + "    budget: {size: 5 MB}\n")
    host.push("a model far below its budget")
    done = run(act, host, "scheduled-ratchet.yml", "schedule", {}, GITHUB_REF="refs/heads/main")
    assert done.code == 0, done.log
    size = (host.author.root / "a.onnx").stat().st_size / 1000
    assert f"budget: {{size: {size} kB}}" in host.origin.git("show", "onnx-ci/ratchet:.onnx-ci.yaml")
    asked = (done.artifacts / "gh.txt").read_text().splitlines()
    assert asked[-1].startswith("pr create --base main --head onnx-ci/ratchet --title Lower model budgets")


def test_matrix(act: Act, host: Hosted) -> None:
    """Several jobs, one verdict, one comment."""
    host.add_model()
    onnx.save(lean(), host.author.root / "models" / "lean.onnx")
    with emulated.github() as github:
        github.known_as["not-a-token"] = github.tokens["write"]
        event = host.pull_request(number=github.pull("feature")["number"])
        settings = {"GITHUB_API_URL": github.url, "GITHUB_GRAPHQL_URL": f"{github.url}/graphql"}
        done = run(act, host, "matrix.yml", "pull_request", event, **settings)
        comments = github.comments(event["number"])
    assert done.code == 1
    shards = sorted(path.name for path in done.artifacts.glob("onnx-ci-shard-*"))
    assert shards == [f"onnx-ci-shard-{number}" for number in (1, 2)], done.log
    (comment,) = comments
    assert all(f"<code>models/{name}.onnx</code>" in comment["body"] for name in ("a", "lean"))
    assert "onnx-ci failed: 2 models checked" in comment["body"]
    assert "Failure - Main Verdict" in done.log
    assert "Failure - Main Check a part" not in done.log
