"""One list of what lint runs, in CI and in the project's own pre-commit hooks, and one of versions."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent


def test_the_hooks_run_what_ci_runs() -> None:
    config = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    _, lint, _ = re.split(r"^echo .*$", (PROJECT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    commands = [line for line in lint.strip().splitlines() if not line.startswith("pip install")]
    assert [hook["entry"] for hook in hooks] == commands
    assert {hook["language"] for hook in hooks} == {"system"}, (
        "what is installed, in the versions of pyproject"
    )


def test_versions_are_pinned_in_one_place() -> None:
    (listed,) = re.findall(
        r"^lint = \[(.*?)^\]", (PROJECT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE
    )
    requirements = re.findall(r'"(.+)"', listed)
    assert requirements
    assert [each for each in requirements if not re.fullmatch(r"[\w-]+==[\d.]+", each)] == []
