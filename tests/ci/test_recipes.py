"""The recipes in the documents: each is what its service takes, as far as there is a schema for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "ci.md"
SCHEMAS = {
    ".gitlab-ci.yml": "vendor.gitlab-ci",
    "azure-pipelines.yml": "vendor.azure-pipelines",
    ".circleci/config.yml": "vendor.circle-ci",
    ".buildkite/pipeline.yml": "vendor.buildkite",
}


def recipes(name: str) -> list[str]:
    """The blocks that begin with the name of their file."""
    return re.findall(rf"```yaml\n(# {re.escape(name)}\n.*?)```", PAGE.read_text(), re.DOTALL)


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_recipe_is_what_its_service_takes(name: str, tmp_path: Path) -> None:
    files = []
    for number, recipe in enumerate(recipes(name)):
        files.append(f"{number}.yml")
        (tmp_path / files[-1]).write_text(recipe)
    assert files
    # Azure's schema has patterns that are none in unicode mode.
    options = ("--regex-variant", "nonunicode", "--builtin-schema", SCHEMAS[name])
    done = run("check_jsonschema", *options, *files, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_is_what_pre_commit_takes(tmp_path: Path) -> None:
    (recipe,) = recipes(".pre-commit-config.yaml")
    (tmp_path / "config.yaml").write_text(recipe)
    done = run("pre_commit", "validate-config", "config.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_recipe_was_looked_at() -> None:
    blocks = re.findall(r"```yaml\n(.*?)\n", PAGE.read_text())
    assert {block.removeprefix("# ") for block in blocks} == {*SCHEMAS, ".pre-commit-config.yaml"}
