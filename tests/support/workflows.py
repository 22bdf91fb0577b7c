"""Runs workflows for real, with act: repositories are folders, and other actions are stubs beside this."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.git_repo import FOREIGN

PROJECT = Path(__file__).resolve().parents[2]
STUBS = Path(__file__).resolve().parent / "stubs"
REPOSITORY = "octo/models"
OURS = "onnx-ci/onnx-ci"
SHIPPED = ("action.yml", "setup", "pyproject.toml", "README.md", "LICENSE", "onnx_ci")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a run of a workflow left behind."""

    code: int
    log: str
    artifacts: Path

    def report(self, artifact: str) -> Any:
        return json.loads((self.artifacts / artifact / "report.json").read_text())

    def said(self, text: str) -> bool:
        return text in self.log


@dataclass(frozen=True, kw_only=True)
class Act:
    """One place for all runs: the action is installed once in it, as on a runner that is kept."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        return self.home / "source"

    def prepare(self) -> None:
        """The action as it would be checked out: none of what lies around in a folder one works in."""
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in SHIPPED:
            origin, target = PROJECT / name, self.source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_dir():
                shutil.copytree(origin, target, ignore=ignore)
            elif origin.exists():
                shutil.copyfile(origin, target)

    @property
    def environment_folder(self) -> Path:
        (found,) = (tools(self.home / "machine") / "onnx-ci").glob("onnx-ci-*")
        return found

    def install(self) -> None:
        """As the steps of the action do it, once for all."""
        for step in ("prepare", "install"):
            done = subprocess.run(
                ["python3", "-I", str(self.source / "onnx_ci" / "action" / "start.py"), step],
                env={**self._outside(), "RUNNER_TOOL_CACHE": str(tools(self.home / "machine"))},
                cwd=self.home,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def _outside() -> dict[str, str]:
        """Our own environment, without what a workflow that runs these tests would tell."""
        foreign = (*FOREIGN, "ONNX_CI", "INPUT_")
        return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}

    def run(
        self,
        event: str,
        payload: Mapping[str, Any],
        *,
        folder: Path,
        remote: Path,
        artifacts: Path,
        machine: Path | None = None,
        **also: str,
    ) -> Ran:
        """Run the workflows of a folder that an event starts. `also` goes into the environment of the job;
        `machine` is the runner: a folder in which things stay from run to run."""
        artifacts.mkdir(parents=True, exist_ok=True)
        (artifacts.parent / "event.json").write_text(json.dumps(payload))
        settings = {
            "STUB_REMOTE": f"file://{remote}",
            "STUB_CACHE": str(self.home / "cache"),
            "STUB_ARTIFACTS": str(artifacts),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **self.environment,
            **also,
        }
        words = ["act", event, "--platform", "ubuntu-latest=-self-hosted", "--container-daemon-socket", "-"]
        words += ["--no-skip-checkout"]
        words += ["--eventpath", str(artifacts.parent / "event.json"), "--secret", "GITHUB_TOKEN=not-a-token"]
        words += [word for pair in settings.items() for word in ("--env", "=".join(pair))]
        words += [
            word for name, path in self._local(folder) for word in ("--local-repository", f"{name}={path}")
        ]
        outside = self._outside()
        outside["PATH"] = os.pathsep.join([str(STUBS / "bin"), outside["PATH"]])
        outside["XDG_CACHE_HOME"] = str(machine or self.home / "machine")
        done = subprocess.run(
            words,
            cwd=folder,
            env=outside,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ran(code=done.returncode, log=done.stdout, artifacts=artifacts)

    def _local(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """Every action that is used, with the folder that stands for it."""
        texts = [
            self.source / "action.yml",
            *folder.glob(".github/workflows/*.yml"),
            *self.source.glob("setup/*"),
        ]
        used = {name for text in texts for name in re.findall(r"uses: (\S+)", text.read_text())}
        for name in sorted(used):
            path, _, ref = name.partition("@")
            owner, repository = path.split("/")[:2]
            stub = self.source if f"{owner}/{repository}" == OURS else STUBS / repository
            yield f"{owner}/{repository}@{ref}", stub


def tools(machine: Path) -> Path:
    """What act makes the runner's folder for tools, below its cache folder."""
    return machine / "act" / "tool_cache"


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Of all processes that run tests, one at a time."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
